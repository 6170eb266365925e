"""The folder of a run: config, manifest, log, checkpoints, hypotheses and scores."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seqsmooth import checks
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_record
from seqsmooth.training.config import Config, plain
from seqsmooth.training.journal import read_log
from seqsmooth.training.places import find_corpus
from seqsmooth.training.reader import differences, listed_keys, parse_config, text_of, with_defaults
from seqsmooth.training.sections import without_starts
from seqsmooth.training.yaml_files import load_yaml
from seqsmooth.version import __version__

if TYPE_CHECKING:
    import torch

    from seqsmooth.data import Corpus
    from seqsmooth.decoding import Hypothesis
    from seqsmooth.models import Model

KIND = "seqsmooth run 1"
Which = Literal["best", "last"]
FREE = (
    "data.folder",
    "trainer.progress",
    "trainer.loggers",
    "trainer.checkpoint_every",
    "trainer.checkpoint_seconds",
)
"""Keys that change nothing of what is learned, so that a run may be resumed with others: a corpus may have moved, and
is known by its fingerprint."""


@dataclass(frozen=True)
class Run:
    """A folder that `seqsmooth train` made.

    Attributes:
        folder: where it is.
        manifest: what it is, as manifest.json says.
    """

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Open the folder of a run, finished or not."""
        folder = Path(folder)
        rule = "the folder of a run of `seqsmooth train`"
        checks.must((folder / "manifest.json").is_file(), "run", rule, str(folder))
        return cls(folder, read_record(folder / "manifest.json", dict, rule, name="run", kind=KIND))

    @property
    def name(self) -> str:
        """The name of the run."""
        return str(self.manifest["name"])

    @property
    def finished(self) -> bool:
        """Whether it was trained to its end."""
        return bool(self.manifest["finished"])

    @property
    def config(self) -> Config:
        """The config of the run."""
        return parse_config(load_yaml(self.folder / "config.yaml"))

    @property
    def log(self) -> list[dict[str, Any]]:
        """The rows of log.csv."""
        return read_log(self.folder / "log.csv")

    @property
    def last(self) -> Path:
        """Lightning's checkpoint, from which it is resumed."""
        return self.folder / "checkpoints" / "last.ckpt"

    def weights(self, which: Which = "best") -> Path:
        """The weights: the best by validation, or the last where there was no validation."""
        checks.one_of("which", which, ("best", "last"))
        path = self.folder / "checkpoints" / f"{which}.safetensors"
        validated = self.manifest["best"] is not None  # then a file that is gone is a fault, not a reason for others
        return path if path.is_file() or which == "last" or validated else self.weights("last")

    def differing_keys(self, config: Config) -> list[str]:
        """List the dotted keys at which a config would make another run of it."""
        return [key for key in differences(with_defaults(self.manifest["config"]), plain(config)) if key not in FREE]

    def hypotheses_file(self, split: str) -> Path:
        """The file of the hypotheses of a split."""
        return self.folder / "decoded" / f"{split}.jsonl"

    def scores(self, split: str) -> Path:
        """The file of the scores of a split."""
        return self.folder / "scores" / f"{split}.json"

    def hypotheses(self, split: str) -> list[tuple[int | str, list[Hypothesis]]]:
        """Read the id of each item and its hypotheses, the best first."""
        from seqsmooth.decoding import load_hypotheses

        return list(load_hypotheses(self.hypotheses_file(split)))

    def corpus(self, folder: str | Path | None = None) -> Corpus:
        """Open the corpus that the run learned from, where it was or elsewhere, and check that it is the same."""
        from seqsmooth.data import open_corpus

        data = self.manifest["data"]
        corpus = open_corpus(find_corpus(data["folder"] if folder is None else folder))
        check_fingerprint(corpus, data["fingerprint"])
        return corpus

    def model(self, corpus: Corpus, which: Which = "best", device: str | torch.device = "cpu") -> Model[Any, Any]:
        """The model, ready to write, with the weights that were the best in validation, or the last."""
        import torch

        from seqsmooth.models.weights import load_weights
        from seqsmooth.training.build import Builder

        config = replace(self.config, model=without_starts(self.config.model))
        with torch.random.fork_rng(devices=[]):
            model = Builder(corpus).model(config)
        load_weights(self.weights(which), model, vocabulary=corpus.vocabulary.checksum)
        return model.to(device).eval()


def create_run(folder: Path, config: Config, corpus: Corpus, facts: Mapping[str, Any]) -> Run:
    """Make the folder of a new run; its manifest comes last, so that a folder with one is complete."""
    for part in ("checkpoints", "decoded", "scores"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    with atomic_write_text(folder / "config.yaml") as file:
        file.write(text_of(config))
    corpus.vocabulary.save(folder / "vocabulary.json")
    if corpus.source_vocabulary is not None:
        corpus.source_vocabulary.save(folder / "source.vocabulary.json")
    manifest = {
        "kind": KIND,
        "name": config.name,
        "row": config.row,
        "table": config.table,
        "task": corpus.task,
        "seed": config.seed,
        "config": plain(config),
        "data": {"folder": str(corpus.folder), "fingerprint": corpus.fingerprint},
        "versions": versions(),
        **facts,
        "seconds": 0.0,
        "epochs": 0,
        "steps": 0,
        "best": None,
        "finished": False,
    }
    write_manifest(folder, manifest)
    return Run(folder, manifest)


def resume_run(folder: Path, config: Config, corpus: Corpus) -> Run | None:
    """Open the run in a folder to go on with it, of the same config and corpus; None where a new one can begin.

    A run of another config is refused, unless it stopped before its first checkpoint, as at a value that was wrong:
    then it gives way.
    """
    if not (folder / "manifest.json").is_file():
        return None
    run = Run.open(folder)
    changed = run.differing_keys(config)
    if changed and not (run.finished or run.last.is_file()):
        return None
    if changed:
        raise ValueError(
            f"The run in {folder} was begun with another config (other: {listed_keys(changed)}); "
            "name another folder with --run, or for a sweep with --runs."
        )
    check_fingerprint(corpus, run.manifest["data"]["fingerprint"])
    return run


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write manifest.json whole or not at all."""
    with atomic_write_text(folder / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def check_fingerprint(corpus: Corpus, fingerprint: str) -> None:
    """Check that a corpus is the one that a run began with."""
    rule = f"the corpus that the run began with, of fingerprint {fingerprint[:12]}"
    here = f"{corpus.folder} of {corpus.fingerprint[:12]}"
    checks.must(corpus.fingerprint == fingerprint, "data.folder", rule, here)


def load_model(
    folder: str | Path,
    which: Which = "best",
    device: str | torch.device = "cpu",
    *,
    data: str | Path | None = None,
) -> tuple[Model[Any, Any], Corpus]:
    """Load the model of a run, ready to decode, and its corpus.

    Args:
        folder: of the run.
        which: the weights that were the best in validation, or the last.
        device: where the model goes.
        data: where its corpus is now; where it was by default.
    """
    run = Run.open(folder)
    corpus = run.corpus(data)
    return run.model(corpus, which, device), corpus


def versions() -> dict[str, str]:
    """List the versions that the numbers of a run may depend on."""
    import torch

    packages = {"seqsmooth": __version__, "torch": torch.__version__, "python": platform.python_version()}
    for name in ("pytorch_lightning", "numpy"):
        loaded = sys.modules.get(name)
        if loaded is not None:
            packages[name] = str(getattr(loaded, "__version__", "unknown"))
    return packages
