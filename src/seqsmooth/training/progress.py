"""A progress bar in optimiser steps, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar

from seqsmooth.console import StatusLine
from seqsmooth.training.learner import Learner


class StepBar(ProgressBar):
    """The steps of the whole run, and the newest numbers of the log.

    Args:
        steps: of the whole run.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.bar: Any = None
        self.newest: dict[str, str] = {}

    def disable(self) -> None:
        """Show nothing, as all but the first process do."""
        self.steps = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin where the run is."""
        assert isinstance(pl_module, Learner)
        if self.steps:
            from tqdm import tqdm  # type: ignore[import-untyped]

            done, name = pl_module.steps_done, pl_module.config.name
            often = 0.5 if StatusLine().rewrites else 30.0  # in a file every look stays
            self.bar = tqdm(
                total=self.steps, initial=done, desc=name, unit="step", file=sys.stderr, mininterval=often, leave=True
            )

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move on."""
        assert isinstance(pl_module, Learner)
        if self.bar is not None:
            self.bar.update(pl_module.steps_done - self.bar.n)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.close()

    def show(self, row: Mapping[str, Any]) -> None:
        """Show the numbers of a row of the log behind the bar."""
        names = ("nll", "tokens_per_second") if row["split"] == "train" else tuple(row)[3:]
        prefix = "" if row["split"] == "train" else "val "
        self.newest |= {prefix + name: f"{row[name]:.4g}" for name in names if row.get(name) is not None}
        if self.bar is not None:
            self.bar.set_postfix(self.newest, refresh=False)
