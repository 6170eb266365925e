"""The pass over rows of logits in plain torch: some rows at a time, which stay in the cache of a CPU.

With p = softmax(z), a target q of mass c and an entropy weight w:

    loss = c lse(z) - <q, z> - w H(p)
    gradient = scale (c p - q + w p (ln p + H(p)))

What has V numbers a row is done chunk by chunk, in as few calls as there can be; the rest for all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SetTable, SparseTable, UniformTable, masked_dot

CACHED = 2**19
"""Logits of a chunk: 2 MiB of fp32."""
FAR = 32.0
"""Logits beyond are centred first: the difference of two large numbers has few digits left."""
LONG = 8
"""A list of more than one in so many tokens of the vocabulary is summed like a row in full."""
SHORT = 16
"""A list that all positions share is, too, if it has more tokens than this."""
WIDE = torch.float64


def run(
    target: SoftTarget,  # of N positions in one dimension
    labels: Tensor | None,  # (N,)
    entropy_weights: Tensor | None,  # (N,)
    ignore_index: int,
    scale: float,
    logits: Tensor,  # (N, V)
    gradient: Tensor | None,  # (N, V)
    upstream: Tensor | None,  # (N,)
    results: tuple[Tensor, Tensor],  # (N,) each
    kept: Tensor,  # (N,) bool
) -> None:
    """Losses, NLL and marks of the rows that are kept; and the gradient times `scale`, if there is a place for it."""
    kept.copy_(target.kept(ignore_index))
    lost = None if bool(kept.all()) else ~kept.unsqueeze(-1)
    count, vocab_size = logits.shape
    dtype = widen(logits[:0]).dtype
    parts = _sorted(target.settle(ignore_index), vocab_size, dtype)
    labels = None if labels is None else labels.unsqueeze(-1)
    no_label = None if labels is None else labels == ignore_index
    read = parts.ids
    if labels is not None:
        read = torch.cat([read, labels.masked_fill(labels == ignore_index, 0)], -1)

    factors = logits.new_full((count, 1), scale, dtype=WIDE)  # of the gradient
    if upstream is not None:
        factors = factors * upstream.to(WIDE).unsqueeze(-1)
    bonus = None if entropy_weights is None else entropy_weights.to(WIDE).unsqueeze(-1)
    mass = parts.mass()
    of_slots = (-factors * parts.weights).to(dtype)
    of_shared = [(-factors * share).to(dtype) for _, share in parts.shared]
    of_backgrounds = [(-factors * share).to(dtype) for _, share in parts.backgrounds]
    of_full = (-factors * parts.common).to(dtype)
    of_bonus = None if bonus is None else (factors * bonus).to(dtype)
    outside = [sorted(set(table.excluded)) for table, _ in parts.backgrounds]

    best, top = logits.new_empty(count, 1, dtype=dtype), logits.new_empty(count, 1, dtype=dtype)
    chosen = logits.new_empty(read.shape, dtype=dtype)
    of_rows = torch.zeros_like(best)  # <q, z> of rows in full
    entropies = torch.zeros_like(best)  # <p, z>
    product = logits.new_zeros(count, 1, dtype=WIDE)
    apart = gradient is not None and gradient.data_ptr() != logits.data_ptr()
    direct = gradient is not None and apart and gradient.dtype == dtype
    rows = min(count, max(1, CACHED // vocab_size))

    def memory(used: bool) -> Tensor:
        return logits.new_empty(rows if used else 0, vocab_size, dtype=dtype)

    own, stored, products = memory(not direct), memory(bool(parts.full)), memory(bool(parts.full) or bonus is not None)
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        size = part.stop - start
        scores = widen(logits[part])
        slopes = gradient[part] if direct and gradient is not None else own[:size]
        here = best[part]
        torch.softmax(scores, -1, out=slopes)
        torch.amax(slopes, -1, keepdim=True, out=top[part])  # the best has probability 1 / sum
        torch.amax(scores, -1, keepdim=True, out=here)
        if not float(torch.linalg.vector_norm(here, torch.inf)) <= FAR:  # or NaN, as ignored rows may hold
            scores = scores - here
            here.zero_()
        torch.gather(scores, -1, read[part], out=chosen[part])

        if parts.full:
            values = parts.rows(part, stored[:size], products[:size])
            _dot(values, scores, products[:size], of_rows[part])
            mass[part] += parts.common[part] * values.sum(-1, keepdim=True)
        if parts.shared:
            for row, share in parts.shared:
                product[part] += _times(share[part], _dot_with_one(row, scores))
        if parts.backgrounds:
            total = scores.sum(-1, keepdim=True)
            for (_, share), excluded in zip(parts.backgrounds, outside, strict=True):
                product[part] += _times(share[part], _without(excluded, total, scores))
        if bonus is not None:
            _dot(slopes, scores, weighted := products[:size], entropies[part])
        if gradient is None:
            continue

        of_powers = (factors[part] * mass[part]).to(dtype)
        if of_bonus is None:
            slopes.mul_(of_powers)
        else:
            slopes.mul_(of_powers - of_bonus[part] * entropies[part]).addcmul_(weighted, of_bonus[part])
        if parts.full:
            slopes.addcmul_(values, of_full[part])
        for (row, _), factor in zip(parts.shared, of_shared, strict=True):
            slopes.addcmul_(row, factor[part])
        for excluded, shift in zip(outside, of_backgrounds, strict=True):
            slopes.add_(shift[part])
            if excluded:
                slopes[:, excluded] -= shift[part]
        slopes.scatter_add_(-1, parts.ids[part], of_slots[part])
        if lost is not None:
            slopes.masked_fill_(lost[part], 0)
        if not direct:
            gradient[part] = slopes

    log_total = best.to(WIDE) - top.to(WIDE).log()
    product += _times(parts.common, of_rows.to(WIDE))
    scores_of_slots = chosen[:, : parts.ids.shape[1]].to(WIDE)
    smoothed = mass * log_total - product - masked_dot(parts.weights, scores_of_slots).unsqueeze(-1)
    if bonus is not None:
        smoothed = smoothed - bonus * (log_total - entropies.to(WIDE))
    results[0].copy_((smoothed if lost is None else smoothed.masked_fill(lost, 0)).squeeze(-1))
    if no_label is None:
        results[1].zero_()
    else:
        nothing = no_label if lost is None else no_label | lost
        results[1].copy_((log_total - chosen[:, -1:].to(WIDE)).masked_fill(nothing, 0).squeeze(-1))


@dataclass(frozen=True, eq=False)
class _Parts:
    """A settled target, by how much of it has V numbers."""

    ids: Tensor  # (N, K)
    weights: Tensor  # (N, K) WIDE
    backgrounds: list[tuple[UniformTable, Tensor]]
    """A table, and what each of its tokens gets (N, 1)."""
    shared: list[tuple[Tensor, Tensor]]
    """A row (V,) of all positions, and its weight (N, 1)."""
    full: list[Rows]
    """Rows that each position has of its own."""
    common: Tensor  # (N, 1) WIDE
    """What all entries of `rows` are yet to be multiplied by."""

    def mass(self) -> Tensor:  # (N, 1) WIDE
        """The mass of each position, but for that of the rows it has of its own."""
        total = self.weights.sum(-1, keepdim=True)
        for table, share in self.backgrounds:
            total = total + share * table.tokens
        for row, share in self.shared:
            total = total + share * row.sum(dtype=WIDE)
        return total

    def rows(
        self,
        part: slice,  # of n positions
        into: Tensor,  # (n, V)
        spare: Tensor,  # (n, V)
    ) -> Tensor:  # (n, V)
        """The sums of the rows that positions have of their own."""
        if len(self.full) == 1:
            row = self.full[0]
            return _read(row.table, row.index[part], into) if _is_alone(row) else _combined(row, part, into)
        for number, row in enumerate(self.full):
            place = spare if number else into
            values = _read(row.table, row.index[part], place) if _is_alone(row) else _combined(row, part, into)
            weight = row.weights[part].to(into.dtype) if _is_alone(row) else torch.ones_like(into[:, :1])
            _ = into.addcmul_(values, weight) if number else torch.mul(values, weight, out=into)
        return into


def _sorted(target: SoftTarget, vocab_size: int, dtype: torch.dtype) -> _Parts:
    """Sort the parts of a settled target."""
    ids, weights = [target.ids], [target.weights.to(WIDE)]
    backgrounds: list[tuple[UniformTable, Tensor]] = []
    shared: list[tuple[Tensor, Tensor]] = []
    full: list[Rows] = []
    one = target.weights.new_ones(target.weights.shape[0], 1, dtype=WIDE)
    for row in target.rows:
        table, shares = row.table, row.weights.to(WIDE)
        if isinstance(table, UniformTable):
            if table.tokens:
                backgrounds.append((table, shares.sum(-1, keepdim=True) / table.tokens))
            continue
        if isinstance(table, SparseTable):
            length = table.ids.shape[1]
            if row.index.shape[1] * length * LONG <= vocab_size and (table.size > 1 or length <= SHORT):
                listed, masses = table.gather(row.index, row.weights)
                ids.append(listed)
                weights.append(masses.to(WIDE))
                continue
            table = SparseTable(table.ids, table.weights, vocab_size)
        if table.size == 1 and row.index.shape[1]:
            first = torch.zeros_like(row.index[:1, :1])
            shared.append((table.combine(first, one[:1].to(dtype))[0].to(dtype), shares.sum(-1, keepdim=True)))
        else:
            full.append(Rows(table, row.index, row.weights))
    lone = len(full) == 1 and _is_alone(full[0])
    common = full[0].weights.to(WIDE) if lone else one
    return _Parts(torch.cat(ids, -1), torch.cat(weights, -1), backgrounds, shared, full, common)


def _is_alone(row: Rows) -> bool:
    """Whether a position has one row of a table that stores it."""
    return row.index.shape[1] == 1 and isinstance(row.table, (DenseTable, SetTable))


def _read(
    table: object,
    index: Tensor,  # (n, 1)
    into: Tensor,  # (n, V)
) -> Tensor:  # (n, V)
    """Copy a row for each position."""
    index = index.squeeze(1)
    if isinstance(table, SetTable):
        return into.copy_(table.flags(index))
    assert isinstance(table, DenseTable)
    values = table.values[:, : table.vocab_size]
    if values.dtype == into.dtype:
        return torch.index_select(values, 0, index, out=into)
    return into.copy_(values.index_select(0, index))


def _combined(
    row: Rows,
    part: slice,  # of n positions
    like: Tensor,
) -> Tensor:  # (n, V)
    return row.table.combine(row.index[part], row.weights[part].to(like.dtype)).to(like.dtype)


def _dot(
    left: Tensor,  # (n, V)
    right: Tensor,  # (n, V)
    products: Tensor,  # (n, V) to write
    sums: Tensor,  # (n, 1) to write
) -> None:
    """Products and their sums, in which a 0 on the left silences what is on the right, even minus infinity."""
    torch.mul(left, right, out=products)
    torch.sum(products, -1, keepdim=True, out=sums)
    if not math.isfinite(float(sums.sum())):
        torch.mul(left, right.masked_fill(left == 0, 0), out=products)
        torch.sum(products, -1, keepdim=True, out=sums)


def _dot_with_one(
    row: Tensor,  # (V,)
    scores: Tensor,  # (n, V)
) -> Tensor:  # (n, 1)
    sums = scores @ row
    if not math.isfinite(float(sums.sum())):
        sums = scores.masked_fill(row == 0, 0) @ row
    return sums.unsqueeze(-1).to(WIDE)


def _times(weight: Tensor, product: Tensor) -> Tensor:  # (n, 1) each
    return torch.where(weight == 0, 0, weight * product)


def _without(
    excluded: Sequence[int],
    total: Tensor,  # (n, 1) of all scores
    scores: Tensor,  # (n, V)
) -> Tensor:  # (n, 1)
    """The sum of the scores of a background's tokens."""
    if not excluded:
        return total.to(WIDE)
    beyond = scores[:, excluded]
    if bool(beyond.abs().amax() <= FAR):  # or else the others are lost in a sum with them
        return total.to(WIDE) - beyond.sum(-1, keepdim=True)
    inside = scores.clone()
    inside[:, excluded] = 0
    return inside.sum(-1, keepdim=True).to(WIDE)
