"""Decode a split with the models of runs, and score the hypotheses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from seqsmooth.data import Corpus
from seqsmooth.decoding import BeamSearch, Decodable, Ensemble, Hypothesis, HypothesisFile, load_hypotheses
from seqsmooth.decoding.ensemble import MEANS, Mean
from seqsmooth.decoding.rules import NORMALISATIONS
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.paths import check_destination
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.metrics.tasks import TASKS, check_names
from seqsmooth.ops import checks
from seqsmooth.training.evaluation import Judge, decode, make_search
from seqsmooth.training.runs import Run, Which, check_fingerprint

Written = dict[int | str, list[Hypothesis]]
"""The hypotheses of each item by its id, the best first."""


@dataclass(frozen=True)
class DecodingOptions:
    """Which runs decode which split, how, and what is scored.

    Attributes:
        runs: folders of runs; several make an ensemble.
        split: of the corpus of the first.
        beam: its width; that of the config of the first run by default.
        best: hypotheses an item.
        which: "best" or "last" weights.
        mean: of an ensemble.
        batch_size: items at a time; as the config of the first run by default.
        device: "auto", "cuda" or "cpu".
        out: the file; in the folder of the run by default.
        overwrite: replace hypotheses that were written in another way.
        metrics: names; those of the task by default, none for no scores.
        length: normalisation by length; that of the config of the first run by default.
    """

    runs: tuple[Path, ...]
    split: str = "test"
    beam: int | None = None
    best: int = 1
    which: str = "best"
    mean: str = "probabilities"
    batch_size: int | None = None
    device: str = "auto"
    out: Path | None = None
    overwrite: bool = False
    metrics: tuple[str, ...] | None = None
    length: str | None = None


def write_split(
    options: DecodingOptions,
    progress: Callable[[int, int], None] = lambda done, of: None,
    corpus: Corpus | None = None,
) -> Scorecard | None:
    """Decode what is not decoded yet, score it where that is asked for, and return the scores.

    Args:
        options: what to do.
        progress: called with how many items are decoded, and of how many.
        corpus: of the first run; opened where it was by default (`Run.corpus` opens it elsewhere).
    """
    runs = [Run.open(folder) for folder in options.runs]
    _check_members(runs)
    checks.one_of("which", options.which, ("best", "last"))
    checks.one_of("mean", options.mean, MEANS)
    checks.one_of("length", options.length or "mean", NORMALISATIONS)
    checks.one_of("device", options.device, ("auto", "cuda", "cpu"))
    if options.batch_size is not None:
        checks.at_least("batch", options.batch_size, 1)
    checks.must(len(runs) == 1 or options.out is not None, "out", "given for an ensemble", None)
    path = runs[0].hypotheses_file(options.split) if options.out is None else check_destination("out", options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    if corpus is None:
        corpus = runs[0].corpus()
    else:
        check_fingerprint(corpus, runs[0].manifest["data"]["fingerprint"])
    checks.one_of("split", options.split, tuple(corpus.splits))
    settings = _settings(runs, options, path)
    target = runs[0].scores(options.split) if options.out is None else path.with_suffix(".scores.json")
    names = TASKS[corpus.task].metrics if options.metrics is None else options.metrics
    check_names(names)
    rows = {name: row for row, name in enumerate(corpus.ids(options.split))}
    written = _reuse(path, settings, list(rows), overwrite=options.overwrite)
    if written is None:
        written = _decode(runs, corpus, options, (path, target), settings, progress)
    if not names:
        return None
    scores, absent = Judge(corpus, options.split).scores({rows[name]: each for name, each in written.items()}, names)
    if not scores:
        raise ValueError(" ".join(absent.values()))
    report = Scorecard(scores, absent)
    target.parent.mkdir(parents=True, exist_ok=True)
    report.save(target)
    return report


def _settings(runs: list[Run], options: DecodingOptions, hypotheses: Path) -> dict[str, Any]:
    """List all that the hypotheses depend on."""
    which = cast(Which, options.which)
    section = runs[0].config.decoding
    settings = {
        "weights": _weights([run.weights(which) for run in runs], hypotheses),
        "corpus": runs[0].manifest["data"]["fingerprint"],
        "split": options.split,
        "beam": section.beam if options.beam is None else checks.at_least("beam", options.beam, 1),
        "best": options.best,
        "max_length": section.max_length,
        "length": section.length if options.length is None else options.length,
        "alpha": section.alpha,
        "no_repeat": section.no_repeat,
    }
    settings |= {"mean": options.mean} if len(runs) > 1 else {}
    return settings | ({"which": which} if which != "best" else {})


def _weights(paths: list[Path], hypotheses: Path) -> list[str]:
    """Checksums of weights; where the files are gone, those beside the hypotheses, which can still be scored."""
    known = read_settings(hypotheses) if hypotheses.exists() else None
    gone = not any(path.is_file() for path in paths)
    if gone and known is not None and len(known["weights"]) == len(paths):
        return [str(checksum) for checksum in known["weights"]]
    return [_checksum(path) for path in paths]


def read_settings(hypotheses: Path) -> dict[str, Any] | None:
    """Read what the hypotheses of a file depend on from beside them; None where that is not there or damaged."""
    try:
        settings = json.loads(hypotheses.with_suffix(".settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = ("weights", "corpus", "split", "beam", "best", "max_length", "length", "alpha", "no_repeat")
    return settings if isinstance(settings, dict) and all(name in settings for name in known) else None


def known_settings(hypotheses: Path) -> dict[str, Any]:
    """Read what the hypotheses of a file depend on, which must be beside them."""
    settings = read_settings(hypotheses)
    if settings is None:
        rule = "with its settings beside it (`seqsmooth decode --overwrite` makes both)"
        raise checks.wrong(str(hypotheses), rule, "without")
    return settings


def decoding_overrides(run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    """List the settings of hypotheses that differ from the config of the run."""
    section = run.manifest["config"]["decoding"]
    overrides = {name: settings[name] for name in section if name in settings and settings[name] != section[name]}
    return overrides | ({"which": settings["which"]} if "which" in settings else {})


def check_weights(runs: Sequence[Run], hypotheses: Path, settings: Mapping[str, Any]) -> None:
    """Check that hypotheses are of these runs, by the weights where those are still there."""
    which = cast(Which, settings.get("which", "best"))
    same = len(settings["weights"]) == len(runs)
    for run, known in zip(runs, settings["weights"], strict=False):
        path = run.weights(which)
        same = same and settings["corpus"] == run.manifest["data"]["fingerprint"]
        same = same and (not path.is_file() or _checksum(path) == known)
    actual = "of other weights, of another corpus, or of another number of models"
    rule = f"written with the weights of {' and '.join(str(run.folder) for run in runs)} (`decode --overwrite` does so)"
    checks.must(same, str(hypotheses), rule, actual)


def check_own(run: Run, split: str) -> dict[str, Any]:
    """Check that the hypotheses in the folder of a run are of its weights; return its decoding overrides."""
    settings = known_settings(run.hypotheses_file(split))
    check_weights([run], run.hypotheses_file(split), settings)
    return decoding_overrides(run, settings)


def _check_members(runs: Sequence[Run]) -> None:
    """Check that models can write together: different ones, that read and write the same words and features."""
    for place, run in enumerate(runs):
        twice = any(run.folder.resolve() == other.folder.resolve() for other in runs[:place])
        checks.must(not twice, "runs", "different from each other", f"{run.folder} twice")
        same = run.manifest["data"]["fingerprint"] == runs[0].manifest["data"]["fingerprint"]
        checks.must(same, "runs", f"of the corpus of {runs[0].folder}", f"{run.folder}, whose corpus is another")


def _reuse(path: Path, settings: dict[str, Any], ids: Sequence[int | str], *, overwrite: bool) -> Written | None:
    """Read the hypotheses where they are whole and of these settings; None where they are still to be made.

    Others are refused unless they are to be replaced.
    """
    if not (path.exists() or path.with_name(f"{path.name}.partial").exists()):
        return None
    problem = "was made with other settings or weights"
    if read_settings(path) == settings:
        if not path.exists():
            return None  # the rest of it is still to be done
        try:
            items = load_hypotheses(path)
            if [name for name, _ in items] == ids:
                return dict(items)
            problem = "has not all items of the split"
        except ValueError as error:
            problem = f"is damaged: {str(error).removesuffix('.')}"
    if not overwrite:
        raise ValueError(
            f"`{path}` must be new or made in the same way, but {problem} "
            "(`seqsmooth decode --overwrite` replaces it, `--out FILE` writes elsewhere)."
        )
    return None


def _decode(
    runs: list[Run],
    corpus: Corpus,
    options: DecodingOptions,
    files: tuple[Path, Path],
    settings: dict[str, Any],
    progress: Callable[[int, int], None],
) -> Written:
    """Decode into the first file; the second has the scores of what was there before, and goes."""
    path, scores = files
    partial = path.with_name(f"{path.name}.partial")
    device = torch.device("cuda" if options.device != "cpu" and torch.cuda.is_available() else "cpu")
    checks.must(options.device != "cuda" or device.type == "cuda", "device", "cpu where there is no GPU", "cuda")
    model = _load(runs, options, corpus, device)
    section = replace(runs[0].config.decoding, length=settings["length"])
    search = make_search(corpus, section, settings["beam"])
    if isinstance(search, BeamSearch):
        search = replace(search, best=options.best)
    else:
        checks.must(options.best == 1, "best", "1 without a beam", options.best)
    ids = corpus.ids(options.split)
    rows = {name: row for row, name in enumerate(ids)}
    scores.unlink(missing_ok=True)  # now, when nothing can be wrong any more
    if options.overwrite and (read_settings(path) != settings or path.exists()):
        path.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
    with atomic_write_text(path.with_suffix(".settings.json")) as beside:
        beside.write(json.dumps(settings) + "\n")
    with HypothesisFile(path, ids, settings, lambda tokens: " ".join(corpus.vocabulary.sentence(tokens))) as file:
        left = [rows[name] for name in file.remaining]
        size = section.batch_size if options.batch_size is None else options.batch_size
        done = len(ids) - len(left)
        for batch in decode(model, corpus, options.split, left, search, size, device):
            for row, hypotheses in batch:
                file.add(ids[row], hypotheses)
            done += len(batch)
            progress(done, len(ids))
    return file.hypotheses


def _load(runs: list[Run], options: DecodingOptions, corpus: Corpus, device: torch.device) -> Decodable:
    members = [run.model(corpus, cast(Which, options.which), device) for run in runs]
    if len(members) == 1:
        return members[0]
    return Ensemble(members, cast(Mean, options.mean))


def _checksum(path: Path) -> str:
    import hashlib

    checks.must(path.is_file(), "run", "one that has saved weights", f"{path.parent.parent}, which has none")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
