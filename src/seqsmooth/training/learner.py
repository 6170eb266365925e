"""The Lightning module: optimiser steps, several to a batch of Lightning's, exact from checkpoint to checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch

from seqsmooth.data import Batch, Corpus
from seqsmooth.models import Model
from seqsmooth.ops import checks
from seqsmooth.smoothing import Objective
from seqsmooth.training import config as sections
from seqsmooth.training import generators
from seqsmooth.training.build import make_optimizer
from seqsmooth.training.bundles import Bundle
from seqsmooth.training.evaluation import Validator
from seqsmooth.training.graphs import GraphedStep
from seqsmooth.training.meter import Meter
from seqsmooth.training.schedules import Schedule, set_rate
from seqsmooth.training.step import Report, TrainingStep

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16}
Note = Callable[[Mapping[str, Any]], None]


class Learner(pl.LightningModule):
    """Optimisation is manual: a step is a `TrainingStep`, on one GPU one CUDA graph for each shape of batch.

    Args:
        config: of the run.
        corpus: what it learns from.
        model: what learns.
        objective_of: the loss of an epoch, from 0.
        steps: of the whole run, for schedules.
        note: takes the rows of the log.

    Attributes:
        steps_done: optimiser steps so far; Lightning counts bundles of them.
        epochs_done: epochs so far.
        best: the best validation so far: epoch, metric, value.
        stale: validations in a row without a new best.
        decays: how often a plateau was met.
    """

    def __init__(
        self,
        config: sections.Config,
        corpus: Corpus,
        model: Model[Any, Any],
        objective_of: Callable[[int], Objective],
        steps: int,
        note: Note = lambda row: None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.config, self.corpus, self.model = config, corpus, model
        self.objective_of = objective_of
        self.schedule = Schedule(config.schedule, steps)
        self.note = note
        self.steps_done = self.epochs_done = self.stale = self.decays = 0
        self.best: dict[str, Any] | None = None
        self.validated: dict[str, float] = {}
        self._checkpoint: dict[str, Any] | None = None
        self._step: TrainingStep | None = None
        self._step_of = -1  # the epoch that its objective is for
        self._graphs: dict[Any, GraphedStep] = {}
        self._source: torch.Generator | None = None
        self._validator: Validator | None = None
        self._meter: Meter | None = None
        self._factor: float | None = None
        self.improved = False

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Make the optimiser of the config."""
        return make_optimizer(self.model, self.config.optimizer)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Leave batches where they are: they are made on the device."""
        return batch

    def on_train_start(self) -> None:
        """Set up generators, meter and validator on the model's device, and restore them from a checkpoint."""
        seed = (self.config.seed * 1009 + self.global_rank) % 2**63
        self._source = torch.Generator(self.device).manual_seed(seed)
        if self.global_rank > 0:  # or else dropout would be alike in all; the first goes on as one by itself does
            torch.manual_seed(seed)
        optimizer = self._optimizer()
        for group in optimizer.param_groups:  # as read from a checkpoint they may be on the host
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32).to(self.device)
        if self._checkpoint is not None:
            generators.restore(self._checkpoint["generators"], self._source, self.device, self.global_rank)
        world = self.trainer.world_size
        self._meter = Meter(self.device, world)
        if self._checkpoint is not None:
            self._meter.load(self._checkpoint["meter"], first=self.global_rank == 0)
        self._checkpoint = None
        if self.config.validation.every > 0:
            self._validator = Validator(self.corpus, self.config, self.device, self.global_rank, world)
        self._begin_epoch()

    def on_train_epoch_start(self) -> None:
        """Build the objective of this epoch where numbers of it are annealed."""
        if self.config.objective.anneal:
            self._begin_epoch()

    def training_step(self, bundle: Bundle, _: int) -> None:
        """Take the steps of a bundle."""
        for batches in bundle.steps:
            if not self.steps_are_up:
                self._learn(tuple(replace(batch, items=None) for batch in batches))
        if self.steps_are_up:
            self.trainer.should_stop = True

    def on_train_epoch_end(self) -> None:
        """Validate where this epoch asks for it."""
        self.improved, self.validated = False, {}
        every, done = self.config.validation.every, self.epochs_done + 1
        ending = self.steps_are_up or done >= self.config.trainer.max_epochs
        due = self._validator is not None and (done % every == 0 or ending)
        if due or ending:  # otherwise the device is left to work while the host goes through the next epoch's order
            self._log_training()
        self.epochs_done = done
        if due:
            assert self._validator is not None
            self._validate(self._validator)
        if self.ended:
            self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what Lightning does not know of."""
        assert self._source is not None
        assert self._meter is not None
        checkpoint["seqsmooth"] = {
            "steps": self.steps_done,
            "epochs": self.epochs_done,
            "best": self.best,
            "stale": self.stale,
            "decays": self.decays,
            "meter": self._meter.state(),
            "generators": generators.gather(self._source, self.device, self.trainer.world_size),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the counts; the generators later, when nothing else draws from them any more."""
        ours = checkpoint["seqsmooth"]
        self.steps_done, self.epochs_done = ours["steps"], ours["epochs"]
        self.best, self.stale, self.decays = ours["best"], ours["stale"], ours["decays"]
        self._checkpoint = ours

    @property
    def objective(self) -> Objective:
        """The loss of this epoch."""
        assert self._step is not None
        return self._step.objective

    @property
    def steps_are_up(self) -> bool:
        """Whether all steps that were asked for are done."""
        most = self.config.trainer.max_steps
        return most is not None and self.steps_done >= most

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to learn: epochs, steps or patience are at their end."""
        patience = self.config.validation.patience
        impatient = patience is not None and self.stale >= patience
        return impatient or self.steps_are_up or self.epochs_done >= self.config.trainer.max_epochs

    def _begin_epoch(self) -> None:
        if self._step is not None and self._step_of == self.epochs_done:
            return
        objective = self.objective_of(self.epochs_done).to(self.device)
        self._graphs.clear()  # a graph keeps the numbers that were there at its capture
        self._step_of = self.epochs_done
        self._step = TrainingStep(
            self.model,
            objective,
            self._optimizer(),
            clip=self.config.optimizer.clip,
            autocast=PRECISIONS[self.config.trainer.precision],
            generator=self._source,
            world=self.trainer.world_size,
        )

    def _learn(self, batches: tuple[Batch, ...]) -> None:
        assert self._step is not None
        assert self._meter is not None
        factor = self.schedule.factor(self.steps_done, self.epochs_done, self.decays)
        if factor != self._factor:
            set_rate(self._optimizer(), factor)
            self._factor = factor
        report = self._report(self._step, batches)
        self._meter.add(report)
        self.steps_done += 1
        if self.steps_done % self.config.trainer.log_every == 0:
            self._log_training(batches[0])

    def _report(self, step: TrainingStep, batches: tuple[Batch, ...]) -> Report:
        if self.device.type != "cuda" or self.trainer.world_size > 1 or len(batches) > 1:
            return step(*batches)
        (batch,) = batches
        shape = tuple((name, value.shape) for name, value in batch.tensors().items())
        if shape not in self._graphs:
            self._graphs[shape] = GraphedStep(step, batch)
        return self._graphs[shape](batch)

    def _log_training(self, batch: Batch | None = None) -> None:
        """Add a row to the log; this alone waits for the device."""
        assert self._meter is not None
        rate = None if batch is None else self.objective.change_rate(batch.targets, batch.references)
        read = self._meter.read(rate)
        if read is None:
            return
        rule = f"finite (is `optimizer.lr` too high, or `optimizer.clip` absent?) up to step {self.steps_done}"
        checks.must(math.isfinite(read.loss), "loss", rule, read.loss)
        row = {"epoch": self.epochs_done, "step": self.steps_done, "split": "train", "loss": read.loss, "nll": read.nll}
        row |= {"ess": read.ess, "rate": read.rate, "tokens_per_second": read.tokens_per_second}
        self.note(row | {"lr": float(self._optimizer().param_groups[0]["lr"])})

    def _validate(self, validator: Validator) -> None:
        self.model.eval()
        self.validated = validator(self.model)
        self.model.train()
        monitor = self.config.validation.monitor
        value = self.validated[monitor]
        self.improved = self.best is None or value > self.best["value"]
        if self.improved:
            self.best = {"epoch": self.epochs_done, "metric": monitor, "value": value}
        self.stale = 0 if self.improved else self.stale + 1
        schedule = self.config.schedule
        if isinstance(schedule, sections.Plateau) and self.stale and self.stale % schedule.patience == 0:
            self.decays += 1
        self.note({"epoch": self.epochs_done, "step": self.steps_done, "split": "val"} | self.validated)
        assert self._meter is not None
        self._meter.restart()  # what was spent here is no time of training

    def _optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.trainer.optimizers[0]
        assert isinstance(optimizer, torch.optim.Optimizer)
        return optimizer
