"""Weights of samples from their scores, written out for every position, and the effective sample size: one launch."""

from __future__ import annotations

import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.launching import launch

MOST_SAMPLES = 1024
ELEMENTS = 2048


def importance(
    scores: Tensor,  # (B, L)
    log_prob: Tensor | None,  # (B, L) float64 ln q, taken off for weights="literal"
    mask: Tensor,  # (B, T) bool
    tau: float,
    alpha: float,
    *,
    batchwise: bool,
) -> tuple[Tensor, Tensor]:  # (B, T, L + 1), ()
    """The weight 1 - alpha of the truth and alpha w of the samples, at each position, and the effective number."""
    batch, number = scores.shape
    steps = mask.shape[1]
    weights = torch.empty(batch, steps, number + 1, dtype=torch.float32, device=scores.device)
    ess = torch.empty((), dtype=torch.float32, device=scores.device)
    scale = min(1 / tau, 1e30)
    high = struct.unpack("f", struct.pack("f", scale))[0]
    tall = triton.next_power_of_2(number)
    wide = min(triton.next_power_of_2(steps), ELEMENTS)
    items = min(triton.next_power_of_2(batch), max(1, ELEMENTS // max(tall, wide)))
    given = (
        scores, *scores.stride(), log_prob, mask.view(torch.uint8), weights, ess,
        batch, steps, number, high, scale - high, alpha,
    )  # fmt: skip
    repeat = min(triton.next_power_of_2(steps), max(1, ELEMENTS // tall))
    constants = {"LITERAL": log_prob is not None, "BATCHWISE": batchwise, "ITEMS": items, "TALL": tall, "WIDE": wide}
    warps = 4 if items * tall >= 1024 else 1
    launch(importance_kernel, (batch + 1,), given, constants | {"REPEAT": repeat}, num_warps=warps)
    return weights, ess


@triton.jit
def _real(mask, item, batch, steps, ITEMS: tl.constexpr, WIDE: tl.constexpr):
    """Which items have any position."""
    found = tl.zeros((ITEMS,), tl.int32)
    for start in range(0, steps, WIDE):
        step = start + tl.arange(0, WIDE)
        there = (item < batch)[:, None] & (step < steps)[None, :]
        some = tl.load(mask + item.to(tl.int64)[:, None] * steps + step[None, :], mask=there, other=0)
        found = tl.maximum(found, tl.max(some.to(tl.int32), 1))
    return found > 0


@triton.jit
def _logits(
    scores, stride_item, stride_sample, log_prob, item, batch, number, scale, best,
    LITERAL: tl.constexpr, BATCHWISE: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """(score - best) / tau, less ln q, of all samples of some items; `best` is each item's own unless `BATCHWISE`."""
    sample = tl.arange(0, TALL)
    there = (item < batch)[:, None] & (sample < number)[None, :]
    where = item.to(tl.int64)[:, None] * stride_item + sample[None, :] * stride_sample
    score = tl.load(scores + where, mask=there, other=float("-inf")).to(tl.float64)
    if BATCHWISE:
        logit = tl.where(there, score - best, 0.0) * scale
    else:
        logit = tl.where(there, score - tl.max(score, 1)[:, None], 0.0) * scale
    if LITERAL:
        known = tl.load(log_prob + item.to(tl.int64)[:, None] * number + sample[None, :], mask=there, other=0.0)
        logit = logit - known
    return tl.where(there, logit, float("-inf"))


@triton.jit(do_not_specialize=["stride_item", "stride_sample", "batch", "steps", "number"])
def importance_kernel(
    scores, stride_item, stride_sample, log_prob, mask, weights, ess,
    batch, steps, number, scale_high, scale_low, alpha,
    LITERAL: tl.constexpr, BATCHWISE: tl.constexpr, ITEMS: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
    REPEAT: tl.constexpr,
):  # fmt: skip
    """One item. The last program has none: it averages over all; so does each where all are weighed together."""
    mine = tl.program_id(0)
    last = mine == batch
    scale = tl.full((), scale_high, tl.float64) + scale_low
    sample = tl.arange(0, TALL)
    best = scale * 0
    reals = scale * 0
    total = scale * 0
    squares = scale * 0
    if BATCHWISE:
        highest = tl.full((ITEMS,), float("-inf"), tl.float64)
        for start in range(0, batch, ITEMS):
            item = start + tl.arange(0, ITEMS)
            there = _real(mask, item, batch, steps, ITEMS, WIDE)[:, None] & (sample < number)[None, :]
            where = item.to(tl.int64)[:, None] * stride_item + sample[None, :] * stride_sample
            score = tl.load(scores + where, mask=there, other=float("-inf")).to(tl.float64)
            highest = tl.maximum(highest, tl.max(score, 1))
        best = tl.max(highest, 0)
        best = tl.where(best > float("-inf"), best, 0.0)
    if BATCHWISE or last:
        for start in range(0, batch, ITEMS):
            item = start + tl.arange(0, ITEMS)
            real = _real(mask, item, batch, steps, ITEMS, WIDE)
            logit = _logits(
                scores, stride_item, stride_sample, log_prob, item, batch, number, scale, best, LITERAL, BATCHWISE, TALL
            )
            reals += tl.sum(real.to(tl.float64), 0)
            if BATCHWISE:
                share = tl.where(real[:, None], tl.exp(tl.where(real[:, None], logit, 0.0)), 0.0)
                share = tl.where((sample < number)[None, :], share, 0.0)
                total += tl.sum(tl.sum(share, 1), 0)
                squares += tl.sum(tl.sum(share * share, 1), 0)
            else:
                top = tl.max(logit, 1)
                share = tl.exp(logit - tl.where(item < batch, top, 0.0)[:, None])
                whole = tl.sum(share, 1)
                square = tl.sum(share * share, 1)
                size = whole * whole / tl.where(real, square, 1.0)
                total += tl.sum(tl.where(real, size, 0.0), 0)
    if last:
        if BATCHWISE:
            size = total * total / tl.where(reals > 0, squares * reals, 1.0)
            tl.store(ess, tl.where(reals > 0, size, float("inf")).to(tl.float32))
        else:
            tl.store(ess, (total / tl.maximum(reals, 1.0)).to(tl.float32))
    else:
        item = mine + tl.zeros((1,), tl.int32)
        logit = _logits(
            scores, stride_item, stride_sample, log_prob, item, batch, number, scale, best, LITERAL, BATCHWISE, TALL
        )
        if BATCHWISE:
            real = _real(mask, item, batch, steps, 1, WIDE)[:, None] & (sample < number)[None, :]
            weight = tl.where(real, tl.exp(tl.where(real, logit, 0.0)), 0.0) * (reals / tl.where(total > 0, total, 1.0))
        else:
            share = tl.exp(logit - tl.max(logit, 1)[:, None])
            weight = share / tl.sum(share, 1)[:, None]
        weight = (alpha * weight).to(tl.float32)
        for start in range(0, steps, REPEAT):
            step = start + tl.arange(0, REPEAT)
            side = (mine.to(tl.int64) * steps + step) * (number + 1)
            there = (step < steps)[:, None] & (sample < number)[None, :]
            tl.store(weights + side[:, None] + 1 + sample[None, :], tl.broadcast_to(weight, (REPEAT, TALL)), mask=there)
            tl.store(weights + side, tl.zeros((REPEAT,), tl.float32) + (1 - alpha), mask=step < steps)
