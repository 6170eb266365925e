"""Checkpoints: the files that a run writes while it goes on, each whole or not at all."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint

from seqsmooth.models.weights import save_weights
from seqsmooth.training.learner import Learner
from seqsmooth.training.signals import handle_signals


class Checkpoints(Checkpoint):
    """Saves last.ckpt now and then and at the end, best.safetensors when validation says so, last.safetensors.

    Whatever is lost when a process dies is learned again, exactly: so files may be of different ages.

    Args:
        folder: where they go.
        every: steps between two checkpoints; as `seconds` alone says, by default.
        seconds: between two checkpoints.
        keep: called after a checkpoint at the end of an epoch, for the manifest.
    """

    def __init__(
        self, folder: Path, every: int | None, seconds: float, keep: Callable[[Learner], None] = lambda learner: None
    ) -> None:
        self.folder, self.every, self.seconds, self.keep = folder, every, seconds, keep
        self.steps = 0
        self.time = time.monotonic()
        self.stop = False  # between two bundles, where the state can be saved exactly
        for unfinished in folder.glob(".*.unfinished"):
            unfinished.unlink(missing_ok=True)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count from where the run is."""
        assert isinstance(pl_module, Learner)
        self.steps, self.time = pl_module.steps_done, time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save where that is due, except after the last bundle of an epoch, whose end follows at once."""
        assert isinstance(pl_module, Learner)
        if not trainer.is_last_batch and not trainer.should_stop and self._due(trainer, pl_module):
            self._save(trainer, pl_module)
            if self.stop:
                raise KeyboardInterrupt

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the best weights, and the rest where that is due."""
        assert isinstance(pl_module, Learner)
        if pl_module.improved and trainer.is_global_zero:
            self._weights("best", pl_module)
        due = self._due(trainer, pl_module) or pl_module.ended
        if due:
            self._save(trainer, pl_module)
        if due and trainer.is_global_zero:
            self._weights("last", pl_module)
        if (due or pl_module.validated) and trainer.is_global_zero:
            self.keep(pl_module)
        if self.stop and not pl_module.ended:
            raise KeyboardInterrupt

    def handle_signals(self) -> AbstractContextManager[None]:
        """Let Ctrl-C and SIGTERM wait for the bundle of steps at hand and a checkpoint; a second Ctrl-C does not."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stop and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.stop = True
            sys.stderr.write("\nseqsmooth: stopping after the next steps; Ctrl-C stops at once\n")

        return handle_signals(stop)

    def _due(self, trainer: pl.Trainer, learner: Learner) -> bool:
        steps = self.every is not None and learner.steps_done - self.steps >= self.every
        due = self.stop or steps or time.monotonic() - self.time >= self.seconds
        return bool(trainer.strategy.broadcast(due)) if trainer.world_size > 1 else due

    def _save(self, trainer: pl.Trainer, learner: Learner) -> None:
        path = self.folder / "last.ckpt"
        name = trainer.strategy.broadcast(f".last.{secrets.token_hex(4)}.unfinished")
        unfinished = self.folder / name
        try:
            trainer.save_checkpoint(unfinished)
            if trainer.is_global_zero:
                with unfinished.open("rb") as file:
                    os.fsync(file.fileno())
                unfinished.replace(path)
        except (OSError, RuntimeError) as error:  # torch says RuntimeError where the disk is full
            why = getattr(error, "strerror", None) or error
            raise ValueError(f"`{path}` must be a file that can be written; it is not: {why}.") from error
        finally:
            if trainer.is_global_zero:
                unfinished.unlink(missing_ok=True)
        self.steps, self.time = learner.steps_done, time.monotonic()

    def _weights(self, which: str, learner: Learner) -> None:
        checksum = learner.corpus.vocabulary.checksum
        save_weights(self.folder / f"{which}.safetensors", learner.model, vocabulary=checksum)
