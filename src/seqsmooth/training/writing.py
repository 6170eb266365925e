"""From runs to hypotheses of a split and their scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from seqsmooth.data import Corpus
from seqsmooth.decoding import BeamSearch, Decodable, Ensemble, HypothesisFile, read_hypotheses
from seqsmooth.decoding.ensemble import MEANS, Mean
from seqsmooth.decoding.rules import NORMALISATIONS
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.paths import check_destination
from seqsmooth.metrics import suite
from seqsmooth.metrics.report import Report
from seqsmooth.ops import checks
from seqsmooth.training.evaluation import Judge, decode, make_search
from seqsmooth.training.runs import Run, Which, load_model

TRANSLATIONS = ("sacrebleu", "bleu-4")


@dataclass(frozen=True)
class Request:
    """What to write.

    Attributes:
        runs: folders of runs; several make an ensemble.
        split: of the corpus of the first.
        beam: width; that of the config of the first run by default.
        best: hypotheses an item.
        which: "best" or "last" weights.
        mean: of an ensemble.
        batch_size: items at a time; likewise.
        device: "auto", "cuda" or "cpu".
        out: the file; in the folder of the run by default.
        overwrite: replace hypotheses that were written in another way.
        metrics: names; those of the task by default, none for no scores.
        data: where the corpus is now; where it was by default.
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
    data: Path | None = None
    length: str | None = None


def write_split(request: Request, progress: Callable[[int, int], None] = lambda done, of: None) -> Report | None:
    """Decode what is not decoded yet, score it where that is asked for, and say what the scores are."""
    runs = [Run.open(folder) for folder in request.runs]
    _check_members(runs)
    checks.one_of("which", request.which, ("best", "last"))
    checks.one_of("mean", request.mean, MEANS)
    checks.one_of("length", request.length or "mean", NORMALISATIONS)
    checks.one_of("device", request.device, ("auto", "cuda", "cpu"))
    if request.batch_size is not None:
        checks.at_least("batch", request.batch_size, 1)
    checks.must(len(runs) == 1 or request.out is not None, "out", "given for an ensemble", None)
    path = runs[0].decoded(request.split) if request.out is None else check_destination("out", request.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    corpus = runs[0].corpus(request.data)
    checks.one_of("split", request.split, tuple(corpus.splits))
    settings = _settings(runs, request, path)
    target = runs[0].scores(request.split) if request.out is None else path.with_suffix(".scores.json")
    names = usual_metrics(corpus.task) if request.metrics is None else request.metrics
    for name in names:
        checks.one_of("metrics", name, suite.NAMES)
    ids = {name: row for row, name in enumerate(corpus.ids(request.split))}
    if not _is_there(path, settings, list(ids), overwrite=request.overwrite):
        _decode(runs, corpus, request, (path, target), settings, progress)
    if not names:
        return None
    written = {ids[name]: found[0].tokens if found else () for name, found in read_hypotheses(path)}
    scores, absent = Judge(corpus, request.split).scores(written, names)
    if not scores:
        raise ValueError(" ".join(absent.values()))
    report = Report(scores, absent)
    target.parent.mkdir(parents=True, exist_ok=True)
    report.save(target)
    return report


def _settings(runs: list[Run], request: Request, hypotheses: Path) -> dict[str, Any]:
    """All that the hypotheses depend on."""
    which = cast(Which, request.which)
    section = runs[0].config.decoding
    found = {
        "weights": _weights([run.weights(which) for run in runs], hypotheses),
        "corpus": runs[0].manifest["data"]["fingerprint"],
        "split": request.split,
        "beam": section.beam if request.beam is None else checks.at_least("beam", request.beam, 1),
        "best": request.best,
        "max_length": section.max_length,
        "length": section.length if request.length is None else request.length,
        "alpha": section.alpha,
        "no_repeat": section.no_repeat,
    }
    found |= {"mean": request.mean} if len(runs) > 1 else {}
    return found | ({"which": which} if which != "best" else {})


def _weights(paths: list[Path], hypotheses: Path) -> list[str]:
    """The checksums of weights. Where those are gone, whole hypotheses know theirs, and can still be scored."""
    known = read_settings(hypotheses) if hypotheses.exists() else None
    gone = not any(path.is_file() for path in paths)
    if gone and known is not None and len(known["weights"]) == len(paths):
        return [str(checksum) for checksum in known["weights"]]
    return [_checksum(path) for path in paths]


def read_settings(hypotheses: Path) -> dict[str, Any] | None:
    """What the hypotheses of a file depend on, as it was kept beside them; None where that is not there or damaged."""
    try:
        held = json.loads(hypotheses.with_suffix(".settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = ("weights", "corpus", "split", "beam", "best", "max_length", "length", "alpha", "no_repeat")
    return held if isinstance(held, dict) and all(name in held for name in known) else None


def known_settings(hypotheses: Path) -> dict[str, Any]:
    """The same, where they must be there."""
    settings = read_settings(hypotheses)
    if settings is None:
        rule = "with its settings beside it (`seqsmooth decode --overwrite` makes both)"
        raise checks.wrong(str(hypotheses), rule, "without")
    return settings


def otherwise(run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of the way to decode is not as the config of the run says."""
    section = run.manifest["config"]["decoding"]
    found = {name: settings[name] for name in section if name in settings and settings[name] != section[name]}
    return found | ({"which": settings["which"]} if "which" in settings else {})


def check_weights(runs: Sequence[Run], hypotheses: Path, settings: Mapping[str, Any]) -> None:
    """Check that hypotheses are of these runs, by the weights where those are still there."""
    which = cast(Which, settings.get("which", "best"))
    same = len(settings["weights"]) == len(runs)
    for run, known in zip(runs, settings["weights"], strict=False):
        path = run.weights(which)
        same = same and settings["corpus"] == run.manifest["data"]["fingerprint"]
        same = same and (not path.is_file() or _checksum(path) == known)
    told = "of other weights, of another corpus, or of another number of models"
    rule = f"written with the weights of {' and '.join(str(run.folder) for run in runs)} (`decode --overwrite` does so)"
    checks.must(same, str(hypotheses), rule, told)


def check_own(run: Run, split: str) -> dict[str, Any]:
    """Check that what is in the folder of a run was written with its weights; and what was not as its config says."""
    settings = known_settings(run.decoded(split))
    check_weights([run], run.decoded(split), settings)
    return otherwise(run, settings)


def usual_metrics(task: str) -> tuple[str, ...]:
    """What is scored by default."""
    return suite.CAPTIONS if task == "captions" else TRANSLATIONS


def _check_members(runs: Sequence[Run]) -> None:
    """Check that models can write together: different ones, that read and write the same words and features."""
    for place, run in enumerate(runs):
        twice = any(run.folder.resolve() == other.folder.resolve() for other in runs[:place])
        checks.must(not twice, "runs", "different from each other", f"{run.folder} twice")
        same = run.manifest["data"]["fingerprint"] == runs[0].manifest["data"]["fingerprint"]
        checks.must(same, "runs", f"of the corpus of {runs[0].folder}", f"{run.folder}, whose corpus is another,")


def _is_there(path: Path, settings: dict[str, Any], ids: Sequence[int | str], *, overwrite: bool) -> bool:
    """Whether the file is there, whole, and was made this way; another one is refused unless it is to be replaced."""
    if not (path.exists() or path.with_name(f"{path.name}.partial").exists()):
        return False
    same = read_settings(path) == settings
    told = "was made with other settings or weights"
    if same and not path.exists():
        return False  # the rest of it is still to be done
    if same:
        try:
            if [name for name, _ in read_hypotheses(path)] == ids:
                return True
            told = "has not all items of the split"
        except ValueError as error:
            told = f"is damaged: {str(error).removesuffix('.')}"
    if not overwrite:
        raise ValueError(
            f"`{path}` must be new or made in the same way, but {told} "
            "(`seqsmooth decode --overwrite` replaces it, `--out FILE` writes elsewhere)."
        )
    return False


def _decode(
    runs: list[Run],
    corpus: Corpus,
    request: Request,
    files: tuple[Path, Path],
    settings: dict[str, Any],
    progress: Callable[[int, int], None],
) -> None:
    """Decode into the first file; the second holds the scores of what was there before."""
    path, scores = files
    partial = path.with_name(f"{path.name}.partial")
    device = torch.device("cuda" if request.device != "cpu" and torch.cuda.is_available() else "cpu")
    checks.must(request.device != "cuda" or device.type == "cuda", "device", "cpu where there is no GPU", "cuda")
    model = _model(runs, request, device)
    section = replace(runs[0].config.decoding, length=settings["length"])
    search = make_search(corpus, section, settings["beam"])
    if isinstance(search, BeamSearch):
        search = replace(search, best=request.best)
    else:
        checks.must(request.best == 1, "best", "1 without a beam", request.best)
    ids = corpus.ids(request.split)
    rows = {name: row for row, name in enumerate(ids)}
    scores.unlink(missing_ok=True)  # now, when nothing can be wrong any more
    if request.overwrite and (read_settings(path) != settings or path.exists()):
        path.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
    with atomic_write_text(path.with_suffix(".settings.json")) as kept:
        kept.write(json.dumps(settings) + "\n")
    with HypothesisFile(path, ids, settings, lambda tokens: " ".join(corpus.vocabulary.sentence(tokens))) as file:
        left = [rows[name] for name in file.remaining]
        size = section.batch_size if request.batch_size is None else request.batch_size
        done = len(ids) - len(left)
        for batch in decode(model, corpus, request.split, left, search, size, device):
            for row, hypotheses in batch:
                file.add(ids[row], hypotheses)
            done += len(batch)
            progress(done, len(ids))


def _model(runs: list[Run], request: Request, device: torch.device) -> Decodable:
    members = []
    for run in runs:
        members.append(load_model(run.folder, cast(Which, request.which), device, data=request.data)[0])
    if len(members) == 1:
        return members[0]
    return Ensemble(members, cast(Mean, request.mean))


def _checksum(path: Path) -> str:
    import hashlib

    checks.must(path.is_file(), "run", "one that has saved weights", f"{path.parent.parent}, which has none,")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
