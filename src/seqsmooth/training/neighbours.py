"""The nearest tokens of large vocabularies, on disk: the next training with the same vectors need not compute them."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from seqsmooth.console import StatusLine
from seqsmooth.files.atomic import atomic_write
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.smoothing.token_matrix import find_nearest

CACHE = "SEQSMOOTH_CACHE"
"""The environment variable that names the folder of what can be computed again; empty for none."""
KIND = "seqsmooth neighbours 1"
"""A number that goes up with every change of what the law computes."""
LEAST_VOCABULARY = 8192
"""The fewest tokens for which a file is worth its place: they take a third of a second."""
MOST_BYTES = 2**29
"""Of all these files together; the one that was not read for longest goes first."""


def cached_nearest(law: SimilarityTable, k: int) -> tuple[Tensor, Tensor]:  # (V, k) twice
    """`find_nearest`, from a file if there is one of this law, and into one if there is none."""
    folder = cache_folder() if law.vocab_size >= LEAST_VOCABULARY else None
    if folder is None:
        return find_nearest(law, k)
    key = _key(law, k)
    path = folder / f"neighbours-{key[:32]}.safetensors"
    found = _read(path, key, law, k)
    if found is None:
        found = find_nearest(law, k)
        with suppress(OSError, ValueError):  # a full disk, or a folder that cannot be written: nothing depends on it
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, key, *found)
            _make_room(folder, path)
    return found


def cache_folder() -> Path | None:
    """$SEQSMOOTH_CACHE, or else `seqsmooth` in the user's folder for caches; None where there is to be none."""
    named = os.environ.get(CACHE)
    if named is not None:
        return Path(named).expanduser() if named else None
    above = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(above) if above else Path.home() / ".cache") / "seqsmooth"
    except RuntimeError:  # a user without a home
        return None


def _key(law: SimilarityTable, k: int) -> str:
    """A checksum of all that the nearest tokens depend on."""
    promotes = law.counts is not None and law.beta > 0
    digest = hashlib.sha256(repr((KIND, k, law.tau, law.beta if promotes else 0.0)).encode())
    for tensor in (law.units, law.known, *((law.counts,) if promotes else ())):
        assert tensor is not None
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().numpy().tobytes()


def _write(path: Path, key: str, ids: Tensor, weights: Tensor) -> None:
    from safetensors.torch import save

    tensors = {"ids": ids.int().cpu().contiguous(), "weights": weights.cpu().contiguous()}
    facts = {"kind": KIND, "key": key, "checksum": _checksum(tensors)}
    with atomic_write(path) as file:
        file.write(save(tensors, {"seqsmooth": json.dumps(facts)}))


def _read(path: Path, key: str, law: SimilarityTable, k: int) -> tuple[Tensor, Tensor] | None:
    """What was found before; None where nothing was, or what there is is damaged."""
    if not path.is_file():
        return None
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get("seqsmooth", "{}"))
            tensors = {name: file.get_tensor(name) for name in ("ids", "weights")}
        whole = facts == {"kind": KIND, "key": key, "checksum": _checksum(tensors)}
        whole = whole and all(tuple(tensor.shape) == (law.vocab_size, k) for tensor in tensors.values())
    except (SafetensorError, OSError, ValueError, AttributeError):
        whole = False
    if not whole:
        StatusLine().write(f"{path} is damaged: the nearest tokens are computed again.")
        return None
    with suppress(OSError):
        os.utime(path)
    device = law.units.device
    return tensors["ids"].to(device, torch.int64), tensors["weights"].to(device)


def _checksum(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in ("ids", "weights"):
        digest.update(_bytes(tensors[name]))
    return digest.hexdigest()


def _make_room(folder: Path, newest: Path) -> None:
    """Remove what was not read for longest, as long as there is too much."""
    files = [(file.stat().st_mtime, file.stat().st_size, file) for file in folder.glob("neighbours-*.safetensors")]
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files, key=lambda entry: entry[0]):
        if total <= MOST_BYTES:
            return
        if file != newest:
            file.unlink(missing_ok=True)
            total -= size
