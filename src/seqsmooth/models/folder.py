"""A model as a folder: config.json, model.safetensors and, if it has one, vocabulary.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from seqsmooth.files.atomic import atomic_folder, atomic_write_text
from seqsmooth.files.reading import read_record
from seqsmooth.models.model import Model
from seqsmooth.models.registry import build
from seqsmooth.models.weights import load_weights, save_weights
from seqsmooth.ops import checks
from seqsmooth.text import Vocabulary
from seqsmooth.version import __version__

KIND = "seqsmooth model 1"


def save(model: Model[Any, Any], folder: str | os.PathLike[str], vocabulary: Vocabulary | None = None) -> None:
    """Write a model to a folder that can be shared: numbers and plain values, no code.

    Args:
        model: a model of this library.
        folder: a new folder; it appears once it is complete.
        vocabulary: the words of its ids.

    Examples:
        >>> import tempfile
        >>> from seqsmooth.models import ShowTell
        >>> place = Path(tempfile.mkdtemp()) / "captioner"
        >>> save(ShowTell(vocab_size=50, feature_size=8, units=16), place)
        >>> load(place).config()["units"]
        16
    """
    checks.must(isinstance(model, Model), "model", "a seqsmooth.models.Model", checks.describe(model))
    size = model.head.weight.shape[0]
    if vocabulary is not None:
        checks.must(len(vocabulary) == size, "vocabulary", f"of the model's {size} words", f"of {len(vocabulary)}")
    words = None if vocabulary is None else vocabulary.checksum
    config = {"kind": KIND, "version": __version__, "vocabulary": words, "model": _without_starts(model.config())}
    with atomic_folder(folder) as place:
        save_weights(place / "model.safetensors", model, vocabulary=words)
        if vocabulary is not None:
            vocabulary.save(place / "vocabulary.json")
        with atomic_write_text(place / "config.json") as file:
            file.write(json.dumps(config, indent=2) + "\n")


def load(folder: str | os.PathLike[str], device: str | torch.device = "cpu") -> Model[Any, Any]:
    """Load a model that `save` wrote, for evaluation; `Vocabulary.load(folder / "vocabulary.json")` reads its words."""
    folder = Path(folder)
    rule = "a folder that `seqsmooth.models.save` wrote"
    checks.must((folder / "config.json").is_file(), "folder", rule, str(folder))

    def parse(value: Any) -> tuple[dict[str, Any], str | None]:
        return dict(value["model"]), value["vocabulary"]

    config, words = read_record(folder / "config.json", parse, rule, name="folder", kind=KIND)
    with torch.random.fork_rng(devices=[]):  # the initial weights are overwritten, and nobody else's draws change
        model = build(**config)
    load_weights(folder / "model.safetensors", model, vocabulary=words)
    return model.to(device).eval()


def _without_starts(config: dict[str, Any]) -> dict[str, Any]:
    """The config with `pretrained` off, since the weights come from the folder."""
    parts = {name: _without_starts(value) for name, value in config.items() if isinstance(value, dict)}
    return {**config, **parts, **({"pretrained": False} if "pretrained" in config else {})}
