"""Sentence BLEU of every candidate in one launch: one program for a few candidates of an item."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels import ngrams
from seqsmooth.ops.kernels.launching import launch

# The smoothings whose formulas are here; NLTK's names for what sacreBLEU has too are those of sacreBLEU.
SMOOTHINGS = ("none", "floor", "add-k", "exp", "coco", "method0", "method1", "method2", "method3", "method4")
_SAME = {"method1": "floor", "method3": "exp"}
_TINY: tl.constexpr = tl.constexpr(1e-15)
_SMALL: tl.constexpr = tl.constexpr(1e-9)
_LEAST: tl.constexpr = tl.constexpr(torch.finfo(torch.float32).tiny)


def bleu(
    candidates: Tensor,  # (B, L, T) int64
    references: Tensor,  # (B, R, S) int64
    order: int,
    smoothing: str,
    effective_order: bool,
    value: float,
) -> Tensor:  # (B, L) float32
    """Score each candidate against the references of its row."""
    items, samples, ours = candidates.shape
    number, theirs = references.shape[1:]
    width = ngrams.cover(ours)
    programs, group, columns, warps = ngrams.spread(items, samples, 0, width)
    scores = torch.empty((items, samples), dtype=torch.float32, device=candidates.device)
    given = (candidates.contiguous(), references.contiguous(), scores, programs, samples, ours, theirs, float(value))
    constants = {
        "ORDER": order, "SMOOTHING": _SAME.get(smoothing, smoothing), "STOPS": smoothing in ("none", "floor", "exp"),
        "EFFECTIVE": effective_order, "GROUP": group, "REFERENCES": number, "COLUMNS": columns, "WIDTH": width,
        "STEPS": ngrams.steps(ours), "THEIR_STEPS": ngrams.steps(theirs),
    }  # fmt: skip
    launch(_bleu, (items * programs,), given, constants, num_warps=warps, num_stages=1)
    return scores


@triton.jit
def _bleu(
    candidates,  # (B, L, T)
    references,  # (B, R, S)
    scores,  # (B, L)
    programs,  # for an item
    L,
    T,
    S,
    value,
    ORDER: tl.constexpr,
    SMOOTHING: tl.constexpr,
    STOPS: tl.constexpr,
    EFFECTIVE: tl.constexpr,
    GROUP: tl.constexpr,
    REFERENCES: tl.constexpr,  # R
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    THEIR_STEPS: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64) // programs
    column = tl.arange(0, COLUMNS)
    sample = (tl.program_id(0) % programs) * GROUP + column
    ours = (column < GROUP) & (sample < L)
    long = tl.where(ours, T, 0)[None, :]
    sequence = (candidates + (item * L + sample) * T)[None, :]
    at = tl.arange(0, WIDTH)[:, None]
    x0, x1, x2, x3 = ngrams.windows(sequence, at, long)
    own1, own2, own3, own4 = ngrams.ordinals(x0, x1, x2, x3, sequence, at, long, STEPS)
    length = tl.sum((x0 >= 0).to(tl.int32), axis=0)  # (COLUMNS,)

    # The count of each n-gram in the reference richest in it. The nearest reference is the least of distance first,
    # length second, in one number; an absent one is farther than any.
    most1 = tl.zeros((WIDTH, COLUMNS), tl.int32)
    most2 = tl.zeros((WIDTH, COLUMNS), tl.int32)
    most3 = tl.zeros((WIDTH, COLUMNS), tl.int32)
    most4 = tl.zeros((WIDTH, COLUMNS), tl.int32)
    base = S + 1
    farther = (T + S + 1) * base
    nearest = tl.zeros((COLUMNS,), tl.int32) + farther
    for r in range(0, REFERENCES):
        reference = references + (item * REFERENCES + r) * S
        in1, in2, in3, in4, tokens = ngrams.counts(x0, x1, x2, x3, reference, S, THEIR_STEPS)
        most1 = tl.maximum(most1, in1)
        most2 = tl.maximum(most2, in2)
        most3 = tl.maximum(most3, in3)
        most4 = tl.maximum(most4, in4)
        nearest = tl.minimum(nearest, tl.where(tokens > 0, tl.abs(length - tokens) * base + tokens, farther))
    closest = (nearest % base).to(tl.float32)

    first = _matched(own1, most1)
    halves = tl.zeros((COLUMNS,), tl.float32) + 1.0
    logs, halves = _log_precision(first, length, length, halves, value, 1, SMOOTHING, STOPS, EFFECTIVE)
    if ORDER > 1:
        more, halves = _log_precision(
            _matched(own2, most2), length - 1, length, halves, value, 2, SMOOTHING, STOPS, EFFECTIVE
        )
        logs += more
    if ORDER > 2:
        more, halves = _log_precision(
            _matched(own3, most3), length - 2, length, halves, value, 3, SMOOTHING, STOPS, EFFECTIVE
        )
        logs += more
    if ORDER > 3:
        more, halves = _log_precision(
            _matched(own4, most4), length - 3, length, halves, value, 4, SMOOTHING, STOPS, EFFECTIVE
        )
        logs += more

    if SMOOTHING == "coco":
        penalty = tl.minimum(1.0 - (closest + _SMALL) / (length.to(tl.float32) + _TINY), 0.0)
        score = tl.exp(logs / ORDER + penalty)
    else:
        orders = tl.zeros((COLUMNS,), tl.int32) + ORDER
        if EFFECTIVE and STOPS:
            orders = tl.minimum(tl.maximum(length, 1), ORDER)
        penalty = tl.minimum(1.0 - closest / tl.maximum(length, 1).to(tl.float32), 0.0)
        score = tl.where(first > 0, tl.exp(logs / orders.to(tl.float32) + penalty), 0.0)
    tl.store(scores + item * L + sample, score, mask=ours)


@triton.jit
def _matched(own, most):
    # The clipped matches: an occurrence counts while the reference richest in its n-gram has as many.
    return tl.sum(((own > 0) & (own <= most)).to(tl.int32), axis=0).to(tl.float32)


@triton.jit
def _log_precision(
    matched,
    total,
    length,
    halves,
    value,
    N: tl.constexpr,
    SMOOTHING: tl.constexpr,
    STOPS: tl.constexpr,
    EFFECTIVE: tl.constexpr,
):
    # The twin of `_SMOOTHINGS` of seqsmooth.rewards.bleu, one order at a time; `halves` is 1/2 to the orders that had
    # no match so far.
    none = total <= 0
    total = tl.maximum(total, 0).to(tl.float32)
    some = tl.maximum(total, 1.0)
    halves = tl.where(matched > 0, halves, 0.5 * halves)
    precision = matched / some
    if SMOOTHING == "floor":
        precision = tl.where(matched > 0, matched, value) / some
    if SMOOTHING == "exp":
        precision = tl.where(matched > 0, matched, halves) / some
    if SMOOTHING == "add-k" and N > 1:
        precision = (matched + value) / (total + value)
    if SMOOTHING == "method2" and N > 1:
        precision = (matched + 1.0) / (some + 1.0)
    if SMOOTHING == "coco":
        precision = (matched + _TINY) / (total + _SMALL)
    if SMOOTHING == "method0":
        precision = tl.where(matched > 0, precision, _LEAST)
    if SMOOTHING == "method4":
        scale = tl.log(tl.maximum(length, 1).to(tl.float32)) / value
        precision = tl.where(matched > 0, precision, scale * halves / some)
        precision = tl.where(precision > 0, precision, 1.0)
    logs = tl.where(precision > 0, tl.log(tl.where(precision > 0, precision, 1.0)), float("-inf"))
    if STOPS:
        logs = tl.where(none, 0.0 if EFFECTIVE else float("-inf"), logs)
    return logs, halves
