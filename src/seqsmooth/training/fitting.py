"""The fitting of a run with Lightning: its trainer, our callbacks, and what is left of the run at the end.

Lightning is imported here and below, seconds after whatever is wrong with a config or a corpus was said.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy, SingleDeviceStrategy, Strategy

from seqsmooth.data import Corpus
from seqsmooth.smoothing import Objective
from seqsmooth.training.build import Builder
from seqsmooth.training.bundles import Bundles
from seqsmooth.training.checkpoints import Checkpoints
from seqsmooth.training.config import Config
from seqsmooth.training.config import Trainer as TrainerSection
from seqsmooth.training.journal import Journal
from seqsmooth.training.learner import Learner
from seqsmooth.training.loggers import close_loggers, open_loggers
from seqsmooth.training.progress import StepBar
from seqsmooth.training.runs import Run, write_manifest
from seqsmooth.training.schedules import config_of_epoch
from seqsmooth.training.trainer import local_rank


class Processes(DDPStrategy):
    """Lightning starts the processes and lets them meet; gradients are summed by the step itself.

    `DistributedDataParallel` would average over processes what was averaged over tokens before; here the loss of each
    is divided by the tokens of all, so that the sum of gradients is that of one process with the whole batch.
    """

    def configure_ddp(self) -> None:
        """Leave the module as it is."""


def fit(run: Run, config: Config, builder: Builder, model: Any, objective: Objective, device: str) -> Run:
    """Learn, from the checkpoint of the run where there is one, and write down what came of it."""
    section = config.trainer
    world, rank = section.processes, local_rank()
    home = torch.device("cuda", rank) if device == "cuda" else torch.device("cpu")
    bundles = Bundles(_batches(builder.corpus, config, home, rank, world), section.bundle, section.accumulate)
    steps = bundles.steps * section.max_epochs
    steps = steps if section.max_steps is None else min(steps, section.max_steps)
    checkpoint = _read_checkpoint(run)
    done = 0 if checkpoint is None else checkpoint["steps"]
    began, before = time.monotonic(), float(run.manifest["seconds"])

    def manifest(learner: Learner, *, finished: bool = False) -> dict[str, Any]:
        now: dict[str, Any] = {"seconds": round(before + time.monotonic() - began, 3), "epochs": learner.epochs_done}
        now |= {"steps": learner.steps_done, "best": learner.best, "finished": finished}
        return {**run.manifest, **now}

    def objective_of(epoch: int) -> Objective:
        return builder.objective(config_of_epoch(config, epoch)) if config.objective.anneal else objective

    learner = Learner(config, builder.corpus, model, objective_of, steps)
    bundles.epoch = lambda: learner.epochs_done
    bar = StepBar(steps if section.progress else 0)
    files = Checkpoints(
        run.folder / "checkpoints",
        section.checkpoint_every,
        section.checkpoint_seconds,
        lambda learner: write_manifest(run.folder, manifest(learner)),
    )
    _quieten()
    loggers = open_loggers(section.loggers, run, done)
    trainer = _engine(run.folder, section, home, [bar, files], loggers)
    if rank == 0:
        journal = Journal(run.folder / "log.csv", config.validation.metrics, done)
        learner.note = lambda row: _note(row, journal, bar, trainer)
    if checkpoint is not None:
        learner.on_load_checkpoint({"seqsmooth": checkpoint})
    try:
        if checkpoint is None or not learner.ended:
            # Several processes have Lightning's own way to stop, all at once.
            with files.handle_signals() if world == 1 else nullcontext():
                start = None if checkpoint is None else run.last
                trainer.fit(learner, train_dataloaders=bundles, ckpt_path=start, weights_only=True)
    except SystemExit as ended:  # Lightning's answer to Ctrl-C and SIGTERM, with a status that says nothing
        raise KeyboardInterrupt from ended
    finally:
        close_loggers(loggers)
    if not learner.ended:  # Lightning ends quietly where it was interrupted
        raise KeyboardInterrupt
    final = manifest(learner, finished=True)
    if rank == 0:
        write_manifest(run.folder, final)
    return Run(run.folder, final)


def _engine(
    folder: Path, section: TrainerSection, home: torch.device, callbacks: list[pl.Callback], loggers: list[Any]
) -> pl.Trainer:
    """Make Lightning's trainer without what we do ourselves: validation, samplers, a summary."""
    return pl.Trainer(
        accelerator="gpu" if home.type == "cuda" else "cpu",
        strategy=_strategy(home, section.processes),
        devices=section.processes,
        max_epochs=section.max_epochs,
        callbacks=callbacks,
        logger=loggers or False,
        enable_checkpointing=True,
        enable_model_summary=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        default_root_dir=folder,
    )


def _batches(corpus: Corpus, config: Config, device: torch.device, rank: int, world: int) -> Any:
    data = config.data
    return corpus.batches(
        data.train,
        data.batch_size,
        seed=config.seed,
        references=data.references if config.objective.needs_references else 0,
        captions_per_image=data.captions_per_image,
        max_words=data.max_length,
        fraction=data.fraction,
        rank=rank,
        world=world,
        device=device,
    )


def _read_checkpoint(run: Run) -> dict[str, Any] | None:
    """Read our part of the checkpoint to go on from; None where there is none yet."""
    if not run.last.is_file():
        return None
    try:
        checkpoint: dict[str, Any] = torch.load(run.last, map_location="cpu", weights_only=True)["seqsmooth"]
    except Exception as error:
        raise ValueError(f"`{run.last}` must be a checkpoint of this run; it is damaged.") from error
    return checkpoint


def _note(row: Mapping[str, Any], journal: Journal, bar: StepBar, trainer: pl.Trainer) -> None:
    journal.add(row)
    bar.show(row)
    numbers = {f"{row['split']}/{name}": value for name, value in row.items() if isinstance(value, float)}
    for logger in trainer.loggers:
        logger.log_metrics(numbers, step=row["step"])


def _strategy(home: torch.device, world: int) -> Strategy:
    if world > 1:
        return Processes(process_group_backend="nccl" if home.type == "cuda" else "gloo")
    return SingleDeviceStrategy(device=home)


def _quieten() -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    warnings.filterwarnings("ignore", category=UserWarning, module="pytorch_lightning")
    warnings.filterwarnings("ignore", category=UserWarning, module="lightning_fabric")
