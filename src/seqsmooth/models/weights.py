"""Weights in safetensors, a format that holds numbers and no code."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from seqsmooth.files.atomic import atomic_write
from seqsmooth.ops import checks

KIND = "seqsmooth weights 1"


def save_weights(path: Path, model: nn.Module, **facts: object) -> None:
    """Write the weights of a model, whole or not at all; of tensors that share memory only the first."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    memory: set[int] = set()
    for name, value in model.state_dict().items():
        if value.data_ptr() not in memory or value.numel() == 0:
            memory.add(value.data_ptr())
            tensors[name] = value.detach().cpu().contiguous()
    # One entry: safetensors writes several in any order, but the same weights must make the same file.
    metadata = {"seqsmooth": json.dumps({"kind": KIND, **facts})}
    with atomic_write(path) as file:
        file.write(save(tensors, metadata))


def load_weights(path: Path, model: nn.Module, **facts: object) -> None:
    """Read weights into a model that was built the same way.

    Args:
        path: the file.
        model: gets the weights.
        facts: what the metadata of the file must say, such as the checksum of the vocabulary.
    """
    from safetensors import SafetensorError, safe_open

    checks.must(path.is_file(), "weights", "a file that is there", str(path))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get("seqsmooth", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"`{path}` must be a safetensors file; it is damaged or something else.") from error
    checks.must(metadata.get("kind") == KIND, "weights", "a file that seqsmooth wrote", str(path))
    for name, fact in facts.items():
        other = metadata.get(name)
        checks.require(other == fact, f"The weights in {path} are of another {name}: {other} there, {fact} here.")
    own = model.state_dict()
    for name, value in tensors.items():
        known = name in own and own[name].shape == value.shape
        reason = f"it has no `{name}` of shape {tuple(value.shape)}"
        checks.require(known, f"The weights in {path} are of another model than this config's: {reason}.")
    loaded = {own[name].data_ptr() for name in tensors}
    missing = [name for name, value in own.items() if value.data_ptr() not in loaded]
    checks.require(not missing, f"The weights in {path} are not complete; missing: {', '.join(missing[:3])}.")
    with torch.no_grad():
        for name, value in tensors.items():
            own[name].copy_(value)
