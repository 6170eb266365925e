"""`train`: from a config to a finished run, from wherever the run is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from seqsmooth.data import Corpus, open_corpus
from seqsmooth.files.locks import try_lock
from seqsmooth.metrics.tasks import check_names
from seqsmooth.ops import checks
from seqsmooth.smoothing import Objective
from seqsmooth.training.build import Builder
from seqsmooth.training.config import Config
from seqsmooth.training.fleet import LOG
from seqsmooth.training.loggers import check_loggers
from seqsmooth.training.places import find_corpus
from seqsmooth.training.runs import Run, create_run, resume_run
from seqsmooth.training.schedules import config_of_epoch
from seqsmooth.training.starting import start_from_run


def train(config: Config, folder: str | Path, corpus: Corpus | None = None) -> Run:
    """Train, or go on where a run in this folder stopped; a finished one is left as it is.

    Args:
        config: of the run.
        folder: of the run. It must be new, or of a run of the same config and corpus.
        corpus: the prepared corpus; the one that `data.folder` names by default.
    """
    folder = Path(folder).absolute()
    builder = Builder(open_corpus(find_corpus(config.data.folder)) if corpus is None else corpus)
    _check(config, builder)
    device = _device(config)
    torch.manual_seed(config.seed)
    model = builder.model(config)
    with _reserve(folder) as alone:
        run = resume_run(folder, config, builder.corpus)
        if run is not None and run.finished:
            return run
        rule = "trained by one process at a time (wait for it, or name another folder with --run)"
        checks.must(alone, str(folder), rule, "being trained by another")
        if config.trainer.start_from is not None and (run is None or not run.last.is_file()):
            start_from_run(model, config, builder.corpus)
        objective = builder.objective(config)
        if run is None:
            facts = {
                "objective": objective.signature(),
                "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
                "parameters": sum(value.numel() for value in model.parameters()),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            run = create_run(folder, config, builder.corpus, facts)
        _check_objective(run, objective)
        from seqsmooth.training.fitting import fit

        return fit(run, config, builder, model, objective, device)


def _check_objective(run: Run, objective: Objective) -> None:
    """Check that the objective is the one that the run began with, before anything is annealed."""
    began, now = (text.split("|version:")[0] for text in (run.manifest["objective"], objective.signature()))
    rule = f"that of the run in {run.folder} (did its word vectors change?), {began},"
    checks.must(began == now, "objective", rule, now)


@contextmanager
def _reserve(folder: Path) -> Iterator[bool]:
    """Make the folder of a run and lock it; False where another process has, which writes the log and checkpoints.

    Processes that learn together are one: the first has the lock. A new folder that stays empty goes again.
    """
    if local_rank() > 0:
        yield True
        return
    new = not folder.exists()
    _make_folder(folder)
    lock = folder / ".lock"
    try:
        with lock.open("ab") if os.access(folder, os.W_OK) else nullcontext() as file:
            yield file is None or try_lock(file)
    finally:
        if new and list(folder.iterdir()) == [lock]:
            lock.unlink()
            folder.rmdir()


def _check(config: Config, builder: Builder) -> None:
    """Check before there is a folder what would fail later."""
    corpus, validation, section = builder.corpus, config.validation, config.trainer
    rule = "below 2**63, as torch's generators want it"
    checks.must(checks.at_least("seed", config.seed, 0) < 2**63, "seed", rule, config.seed)
    for name, split in (("train", config.data.train), ("validation", config.data.validation)):
        checks.one_of(f"data.{name}", split, tuple(corpus.splits))
    checks.must(len(validation.metrics) > 0, "validation.metrics", "a metric or more", "none")
    check_names(validation.metrics, "validation.metrics")
    rule = f"one of `validation.metrics`, {', '.join(validation.metrics)}"
    checks.must(validation.monitor in validation.metrics, "validation.monitor", rule, validation.monitor)
    installed = "sacrebleu" not in validation.monitor or find_spec("sacrebleu") is not None
    rule = "a metric that can be calculated here, where the package sacrebleu is not installed"
    checks.must(installed, "validation.monitor", rule, validation.monitor)
    checks.at_least("validation.every", validation.every, 0)
    for name in ("max_epochs", "processes", "accumulate", "bundle", "log_every"):
        checks.at_least(f"trainer.{name}", getattr(section, name), 1)
    for key, value in (
        ("validation.beam", validation.beam),
        ("validation.batch_size", validation.batch_size),
        *((f"decoding.{name}", getattr(config.decoding, name)) for name in ("beam", "max_length", "batch_size")),
    ):
        checks.at_least(key, value, 1)  # now, and not when all is learned
    checks.at_least("decoding.no_repeat", config.decoding.no_repeat, 0)
    for key, value in (
        ("validation.patience", validation.patience),
        ("validation.limit", validation.limit),
        ("trainer.max_steps", section.max_steps),
    ):
        if value is not None:
            checks.at_least(key, value, 1)
    if validation.every > 0:
        written = np.diff(corpus.split(config.data.validation).firsts)[: validation.limit]
        without = int((written == 0).sum())
        rule = "a split whose items all have references"
        checks.must(without == 0, "data.validation", rule, f"{config.data.validation}, where {without} have none")
    check_loggers(section.loggers)
    if config.objective.anneal:
        for epoch in (0, section.max_epochs - 1):  # between them, every number is between what it is at the two
            builder.objective(config_of_epoch(config, epoch))


def local_rank() -> int:
    """The number of this process among those that learn together on this machine, as Lightning and torchrun say it."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def _device(config: Config) -> str:
    wanted = config.trainer.device
    there = torch.cuda.is_available()
    checks.must(wanted != "cuda" or there, "trainer.device", "cpu or auto where there is no GPU", wanted)
    if there and wanted != "cpu":
        many, devices = config.trainer.processes, torch.cuda.device_count()
        checks.must(many <= devices, "trainer.processes", f"at most {devices}, the number of GPUs", many)
        return "cuda"
    return "cpu"


def _make_folder(folder: Path) -> None:
    """Make the folder of a run; one that holds anything but what a run leaves that died early is refused."""
    ours = {"config.yaml", "vocabulary.json", "source.vocabulary.json", "checkpoints", "decoded", "scores", LOG}
    if folder.is_dir() and not (folder / "manifest.json").is_file():
        other = sorted(
            path.name for path in folder.iterdir() if path.name not in ours and not path.name.startswith(".")
        )
        checks.must(not other, "run", "a new folder, or that of a run", f"{folder}, which holds {other[:1]}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`run` must be a folder that can be made, but {folder} is not: {error.strerror}.") from error
