"""Loggers that a run writes to beside its own log.csv, by name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from seqsmooth import checks
from seqsmooth.training.runs import Run

PACKAGES = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",)}


def check_loggers(names: Sequence[str]) -> None:
    """Check that their packages are installed."""
    for name in names:
        there = any(find_spec(package) for package in PACKAGES[name])
        checks.must(there, "trainer.loggers", f"of packages that are installed ({' or '.join(PACKAGES[name])})", name)


def open_loggers(names: Sequence[str], run: Run, steps: int) -> list[Any]:
    """Lightning's loggers, in the folder of the run, with its config; one that is resumed goes on in the same place.

    Args:
        names: of the loggers.
        run: what is logged.
        steps: that are done already: what TensorBoard was told of later ones, before the run died, is taken back.
    """
    loggers = [_tensorboard(run, steps) if name == "tensorboard" else _wandb(run) for name in names]
    for logger in loggers:
        logger.log_hyperparams(run.manifest["config"])
    return loggers


def close_loggers(loggers: Sequence[Any]) -> None:
    """Write out what is buffered. W&B would otherwise take the next run of this process for the same one."""
    for logger in loggers:
        run = logger.experiment
        (run.finish if hasattr(run, "finish") else run.flush)()


def _tensorboard(run: Run, steps: int) -> Any:
    from pytorch_lightning.loggers import TensorBoardLogger

    # What was logged at the step to go on from stays.
    purge: dict[str, Any] = {"purge_step": steps + 1} if steps > 0 else {}
    return TensorBoardLogger(run.folder, name="tensorboard", version="", default_hp_metric=False, **purge)


def _wandb(run: Run) -> Any:
    from pytorch_lightning.loggers import WandbLogger

    wandb: Any = import_module("wandb")
    began = f"{run.manifest['started']} {run.manifest['data']['fingerprint']} {run.folder}"
    logger = WandbLogger(
        save_dir=run.folder,
        name=f"{run.name} {run.manifest['seed']}",
        project=os.environ.get("WANDB_PROJECT", "seqsmooth"),
        id=hashlib.sha256(began.encode()).hexdigest()[:12],
        resume="allow",
    )
    try:
        assert logger.experiment is not None  # begins, which needs an account
    except wandb.Error as error:
        problem = str(error).removesuffix(".")
        raise ValueError(
            f"`trainer.loggers` must be of use here, but wandb says: {problem} (or set WANDB_MODE=offline)."
        ) from error
    return logger
