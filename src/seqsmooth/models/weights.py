"""Weights for exchange: safetensors, which hold numbers and nothing that could run."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from seqsmooth.files.atomic import atomic_write
from seqsmooth.ops import checks

KIND = "seqsmooth weights 1"


def save_weights(path: Path, model: nn.Module, **facts: object) -> None:
    """Write the weights of a model whole or not at all; of tensors that share their memory, the first."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen or value.numel() == 0:
            seen.add(value.data_ptr())
            tensors[name] = value.detach().cpu().contiguous()
    # One entry, for safetensors writes several in any order, and the same weights should be the same file.
    metadata = {"seqsmooth": json.dumps({"kind": KIND, **facts})}
    with atomic_write(path) as file:
        file.write(save(tensors, metadata))


def load_weights(path: Path, model: nn.Module, **facts: object) -> None:
    """Read weights into a model that was built the same way.

    Args:
        path: the file.
        model: where they go.
        facts: what the file must say of itself, as the checksum of the vocabulary.
    """
    from safetensors import SafetensorError, safe_open

    checks.must(path.is_file(), "weights", "a file that is there", str(path))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get("seqsmooth", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"`{path}` must be a safetensors file, but is damaged or something else instead.") from error
    checks.must(metadata.get("kind") == KIND, "weights", "a file that seqsmooth wrote", str(path))
    for name, wanted in facts.items():
        fact = metadata.get(name)
        checks.must(fact == wanted, f"weights.{name}", f"{wanted}, as here", f"{fact} in {path}")
    own = model.state_dict()
    for name, value in tensors.items():
        known = name in own and own[name].shape == value.shape
        described = f"`{name}` of shape {tuple(value.shape)}, which it has not,"
        checks.must(known, "weights", "of the model of this config", f"{described} in {path}")
    filled = {own[name].data_ptr() for name in tensors}
    lacking = [name for name, value in own.items() if value.data_ptr() not in filled]
    checks.must(not lacking, "weights", "whole", f"without `{lacking[0] if lacking else ''}` in {path}")
    with torch.no_grad():
        for name, value in tensors.items():
            own[name].copy_(value)
