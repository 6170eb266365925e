"""Tensors that end where memory that nobody may touch begins: what reads or writes beyond them ends the process.

`python -m oracles.fenced` lets the C of the CPU pass over such tensors, and compares with tensors as they usually are.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from oracles.kernel_jobs import KINDS, in_double, some_job
from seqsmooth.ops import cpu, dispatch, ngrams
from seqsmooth.ops.native import rows as native_rows
from seqsmooth.rewards import Cider, DocumentFrequencies

PAGE = mmap.PAGESIZE
NOT_AT_ALL = 0  # PROT_NONE


def fence(values: Tensor, *, begin: bool = False) -> Tensor:
    """A copy that ends, or begins, at a page that may not be touched."""
    size = values.numel() * values.element_size()
    if size == 0:
        return values
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    all_of_it = torch.frombuffer(memory, dtype=torch.uint8)
    start = PAGE if begin else pages * PAGE - size
    copy = all_of_it[start : start + size].view(values.dtype).view(values.shape)
    copy.copy_(values)
    page = all_of_it.data_ptr() + (0 if begin else pages * PAGE)
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NOT_AT_ALL):
        raise OSError(ctypes.get_errno(), "mprotect")
    return copy


def fence_all(value: Any, *, begin: bool) -> Any:
    """The same with every tensor in it fenced."""
    if isinstance(value, Tensor):
        return fence(value, begin=begin)
    if isinstance(value, tuple):
        return tuple(fence_all(part, begin=begin) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return replace(value, **{name: fence_all(part, begin=begin) for name, part in parts.items()})
    return value


def check(kind: str, dtype: torch.dtype, rows: int, vocab_size: int, *, wide: bool) -> None:
    """Pass over fenced tensors, and over others; with tables in double precision if `wide`."""
    job = some_job(kind, rows, vocab_size, torch.device("cpu"), entropy=native_rows.CACHE > 0, reduced=False).flat()
    exact = in_double(job)
    target = exact.target if wide else replace(job.target, weights=exact.target.weights)
    job = replace(job, target=target, entropy_weights=exact.entropy_weights)  # weights are double where C reads them
    logits = torch.randn(rows, vocab_size).to(dtype)
    found = []
    for begin in (None, True, False):
        given, scores, slope = job, logits, torch.empty_like(logits)
        losses = cpu.empty_losses(logits)
        if begin is not None:
            given, scores, slope, losses = (fence_all(part, begin=begin) for part in (given, scores, slope, losses))
        kept = cpu.run(cpu.prepare(given, True, scores), scores, slope, losses)
        found.append([part.clone() for part in (*losses, slope, kept)])
    for others in found[1:]:
        for ours, theirs in zip(found[0], others, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def check_ngrams() -> None:
    """Count n-grams of fenced candidates and references, and of others."""
    references = torch.randint(9, (6, 3, 7))
    reward = Cider(DocumentFrequencies.build(references.tolist()))
    references[:, 0, 4:], references[:, 1] = -1, -1
    candidates = references[:, :2].clone()
    candidates[:, 1] = torch.randint(12, (6, 7))
    found = []
    for begin in (None, True, False):
        both = (candidates, references)
        if begin is not None:
            both = fence_all(both, begin=begin)
            for name, buffer in reward.named_buffers():
                setattr(reward, name, fence(buffer, begin=begin))
        found.append((reward(*both), ngrams.matches(*both, 4)))
    for others in found[1:]:
        torch.testing.assert_close(others, found[0], rtol=0, atol=0)


def main() -> None:
    """Check n-grams, and every kind of target; "beyond" as the only argument reads beyond a tensor instead."""
    if sys.argv[1:] == ["beyond"]:
        ctypes.string_at(fence(torch.zeros(3)).data_ptr(), 13)
    assert dispatch.path("cpu") == "native"
    torch.manual_seed(0)
    check_ngrams()
    for kind, cache in itertools.product(KINDS, (native_rows.CACHE, 0)):
        native_rows.CACHE = cache
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            for vocab_size in (5, 64, 2050):
                check(kind, dtype, 5, vocab_size, wide=False)
            check(kind, dtype, 5, 67, wide=True)


if __name__ == "__main__":
    main()
