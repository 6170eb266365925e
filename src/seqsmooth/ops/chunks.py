"""The pass over rows of logits in plain torch: some rows at a time, which stay in the cache of a CPU.

With p = softmax(z), a target q of mass c and an entropy weight w:

    loss = c lse(z) - <q, z> - w H(p)
    gradient = scale (c p - q + w p (ln p + H(p)))

What has V numbers a row is done chunk by chunk, in as few calls as there can be; the rest for all rows at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SparseTable, UniformTable, masked_dot

CACHED = 2**18
"""Logits of a chunk: 1 MiB of fp32."""
FAR = 32.0
"""Logits beyond are centred first: the difference of two large numbers has few digits left."""
LONG = 8
"""A list of more than one in so many tokens of the vocabulary is summed like a row in full."""
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
    ids, weights, backgrounds, others = _sorted(target.settle(ignore_index), vocab_size)
    labels = None if labels is None else labels.unsqueeze(-1)
    no_label = None if labels is None else labels == ignore_index
    read = ids if labels is None else torch.cat([ids, labels.masked_fill(labels == ignore_index, 0)], -1)

    factors = scale if upstream is None else scale * upstream.to(WIDE).unsqueeze(-1)  # of the gradient
    mass = weights.sum(-1, keepdim=True)
    for table, share in backgrounds:
        mass = mass + share * table.tokens
    of_slots = (-factors * weights).to(dtype)
    of_backgrounds = [(-factors * share).to(dtype) for _, share in backgrounds]
    bonus = None if entropy_weights is None else entropy_weights.to(WIDE).unsqueeze(-1)

    best, top = logits.new_empty(count, 1, dtype=dtype), logits.new_empty(count, 1, dtype=dtype)
    chosen = logits.new_empty(read.shape, dtype=dtype)
    product = logits.new_zeros(count, 1, dtype=WIDE)
    entropy = logits.new_zeros(count, 1, dtype=WIDE)
    apart = gradient is not None and gradient.data_ptr() != logits.data_ptr()
    direct = gradient is not None and apart and gradient.dtype == dtype
    rows = min(count, max(1, CACHED // vocab_size))
    memory = None if direct else logits.new_empty(rows, vocab_size, dtype=dtype)
    products = logits.new_empty(rows if others or bonus is not None else 0, vocab_size, dtype=dtype)
    stored = [logits.new_empty(rows, vocab_size, dtype=dtype) for _ in others]
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        scores = widen(logits[part])
        if memory is None:
            assert gradient is not None
            slopes = gradient[part]
        else:
            slopes = memory[: len(scores)]
        torch.amax(scores, -1, keepdim=True, out=best[part])
        if not float(torch.linalg.vector_norm(best[part], torch.inf)) <= FAR:  # or NaN, as ignored rows may hold
            scores = scores - best[part]
            best[part] = 0
        torch.softmax(scores, -1, out=slopes)
        torch.amax(slopes, -1, keepdim=True, out=top[part])  # the best has probability 1 / sum
        torch.gather(scores, -1, read[part], out=chosen[part])

        full = [_full(row, part, into[: len(scores)]) for row, into in zip(others, stored, strict=True)]
        for values, weight in full:
            mass[part] += weight * values.sum(-1, keepdim=True)
            product[part] += _times(weight, _silenced(values, scores, products[: len(scores)]).sum(-1, keepdim=True))
        for table, share in backgrounds:
            product[part] += _times(share[part], _sum(table, scores))
        if bonus is not None:
            weighted = _silenced(slopes, scores, products[: len(scores)])
            log_total = best[part].to(WIDE) - top[part].to(WIDE).log()
            entropy[part] = log_total - weighted.sum(-1, keepdim=True)
        if gradient is None:
            continue

        of_part = factors if isinstance(factors, float) else factors[part]
        of_powers = of_part * mass[part]
        if bonus is None:
            slopes.mul_(of_powers.to(dtype))
        else:
            of_bonus = of_part * bonus[part]
            offset = of_powers + of_bonus * (entropy[part] - log_total)
            slopes.mul_(offset.to(dtype)).addcmul_(weighted, of_bonus.to(dtype))
        for (table, _), shift in zip(backgrounds, of_backgrounds, strict=True):
            slopes.add_(shift[part])
            if table.excluded:
                slopes[:, sorted(set(table.excluded))] -= shift[part]
        for values, weight in full:
            slopes.addcmul_(values, (-of_part * weight).to(dtype))
        slopes.scatter_add_(-1, ids[part], of_slots[part])
        if lost is not None:
            slopes.masked_fill_(lost[part], 0)
        if not direct:
            gradient[part] = slopes

    log_total = best.to(WIDE) - top.to(WIDE).log()
    scores_of_slots = chosen[:, : ids.shape[1]].to(WIDE)
    smoothed = mass * log_total - product - masked_dot(weights, scores_of_slots).unsqueeze(-1)
    if bonus is not None:
        smoothed = smoothed - bonus * entropy
    results[0].copy_((smoothed if lost is None else smoothed.masked_fill(lost, 0)).squeeze(-1))
    if no_label is None:
        results[1].zero_()
    else:
        nothing = no_label if lost is None else no_label | lost
        results[1].copy_((log_total - chosen[:, -1:].to(WIDE)).masked_fill(nothing, 0).squeeze(-1))


Background = tuple[UniformTable, Tensor]
"""A table, and what each of its tokens gets (N, 1)."""


def _sorted(target: SoftTarget, vocab_size: int) -> tuple[Tensor, Tensor, list[Background], list[Rows]]:
    """A settled target as slots (ids and weights), backgrounds, and rows that are summed in full."""
    ids, weights = [target.ids], [target.weights.to(WIDE)]
    backgrounds: list[Background] = []
    others: list[Rows] = []
    for row in target.rows:
        table = row.table
        if isinstance(table, UniformTable):
            if table.tokens:
                backgrounds.append((table, row.weights.to(WIDE).sum(-1, keepdim=True) / table.tokens))
        elif isinstance(table, SparseTable) and row.index.shape[1] * table.ids.shape[1] * LONG <= vocab_size:
            listed, shares = table.gather(row.index, row.weights)
            ids.append(listed)
            weights.append(shares.to(WIDE))
        elif isinstance(table, SparseTable) and table.vocab_size is None:
            others.append(Rows(SparseTable(table.ids, table.weights, vocab_size), row.index, row.weights))
        else:
            others.append(row)
    return torch.cat(ids, -1), torch.cat(weights, -1), backgrounds, others


def _full(row: Rows, part: slice, into: Tensor) -> tuple[Tensor, Tensor]:  # (n, V), (n, 1)
    """Rows in full, and the weight of each."""
    table, index, weights = row.table, row.index[part], row.weights[part].to(WIDE)
    if not isinstance(table, DenseTable) or index.shape[1] > 1:
        return into.copy_(table.combine(index, weights)), weights.new_ones(len(index), 1)
    values = table.values[:, : table.vocab_size]
    if values.dtype == into.dtype:
        return torch.index_select(values, 0, index.squeeze(1), out=into), weights
    return into.copy_(values.index_select(0, index.squeeze(1))), weights


def _silenced(left: Tensor, right: Tensor, into: Tensor) -> Tensor:  # (n, V) each
    """Products, in which a 0 on the left silences what is on the right, even minus infinity."""
    torch.mul(left, right, out=into)
    if not bool(into.sum().isfinite()):
        torch.mul(left, right.masked_fill(left == 0, 0), out=into)
    return into


def _times(weight: Tensor, product: Tensor) -> Tensor:  # (n, 1) each
    return torch.where(weight == 0, 0, weight * product)


def _sum(table: UniformTable, scores: Tensor) -> Tensor:  # (n, 1)
    """The sum of the scores of a background's tokens."""
    total = scores.sum(-1, keepdim=True).to(WIDE)
    if not table.excluded:
        return total
    outside = sorted(set(table.excluded))
    beyond = scores[:, outside]
    if bool(beyond.abs().amax() <= FAR):  # or else the others are lost in a sum with them
        return total - beyond.sum(-1, keepdim=True)
    inside = scores.clone()
    inside[:, outside] = 0
    return inside.sum(-1, keepdim=True).to(WIDE)
