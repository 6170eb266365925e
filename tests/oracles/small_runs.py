"""A small run, and what it learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

TOK_SEQ: dict[str, Any] = {
    "sequence": {
        "kind": "rewarded",
        "reward": {"kind": "cider", "clip": 1.0},
        "proposal": {"kind": "hamming", "tau": 0.5, "pool": "refs"},
        "tau": 0.5,
        "samples": 3,
        "alpha": 0.5,
    },
    "token": {"kind": "similarity", "vectors": "glove.txt", "tau": 0.3, "alpha": 0.3},
}


def values(folder: Path, **changes: Any) -> dict[str, Any]:
    """A small run with dropout, samples, a schedule, clipping and checkpoints every few steps."""
    made: dict[str, Any] = {
        "name": "small",
        "data": {"folder": str(folder), "batch_size": 20, "captions_per_image": 5},
        "model": {"kind": "show_tell", "units": 12, "embedding_size": 12, "embedding_dropout": 0.3},
        "objective": TOK_SEQ,
        "optimizer": {"lr": 0.01, "clip": 1.0},
        "schedule": {"kind": "cosine", "warmup": 5},
        "trainer": {
            "max_epochs": 3,
            "bundle": 2,
            "log_every": 4,
            "checkpoint_every": 4,
            "device": "cpu",
            "progress": False,
        },
    }
    for key, change in changes.items():
        made[key] = {**made.get(key, {}), **change} if isinstance(change, dict) else change
    return made


def weights(folder: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"{which}.safetensors")
