"""The pass over rows of logits in plain torch: a few rows at a time, which stay in the cache of a CPU.

With p = softmax(z), a target q of mass c and an entropy weight w:

    loss = c lse(z) - <q, z> - w H(p)
    gradient = scale (c p - q + w p (ln p + H(p)))
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.tables import DenseTable, SparseTable, UniformTable, masked_dot

CACHED = 2**18
"""Logits of a chunk: 1 MiB of fp32."""
FAR = 100.0
"""Logits beyond are centred first: the difference of two large numbers has few digits left."""
LONG = 8
"""A list of more than one in so many tokens of the vocabulary is summed like a row in full."""


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
    torch.any(target.kept(ignore_index).unsqueeze(-1), -1, out=kept)
    settled = target.settle(ignore_index)
    count, vocab_size = logits.shape
    rows = max(1, CACHED // vocab_size)
    whole = bool(kept.all())
    factors = None if upstream is None else upstream.unsqueeze(-1)
    apart = gradient is not None and gradient.data_ptr() != logits.data_ptr()
    direct = gradient is not None and apart and gradient.dtype in (torch.float32, torch.float64)
    memory = None
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        scores = widen(logits[part])
        if direct:
            assert gradient is not None
            slopes = gradient[part]
        else:
            memory = torch.empty_like(scores) if memory is None else memory
            slopes = memory[: len(scores)]
        chosen = None if labels is None else labels[part]
        weights = None if entropy_weights is None else entropy_weights[part, None].to(scores.dtype)
        smoothed, nll = _chunk(settled[part], chosen, weights, ignore_index, scale, scores, slopes, gradient is None)
        if not whole:
            lost = ~kept[part]
            smoothed, nll = smoothed.masked_fill(lost, 0), nll.masked_fill(lost, 0)
        results[0][part], results[1][part] = smoothed, nll
        if gradient is None:
            continue
        if factors is not None:
            slopes.mul_(factors[part].to(slopes.dtype))
        if not whole:
            slopes.masked_fill_(lost.unsqueeze(-1), 0)
        if not direct:
            gradient[part] = slopes


def _chunk(
    target: SoftTarget,  # settled
    labels: Tensor | None,  # (n,)
    entropy_weights: Tensor | None,  # (n, 1)
    ignore_index: int,
    scale: float,
    scores: Tensor,  # (n, V)
    slopes: Tensor,  # (n, V)
    only_losses: bool,
) -> tuple[Tensor, Tensor]:  # (n,) twice
    """Losses and NLL of a few rows; their gradient is written into `slopes`."""
    wide = torch.float64
    best = scores.amax(-1, keepdim=True)
    if bool(best.abs().amax() > FAR):
        scores = scores - best
        best = torch.zeros_like(best)
    torch.softmax(scores, -1, out=slopes)
    log_total = best.to(wide) - slopes.amax(-1, keepdim=True).to(wide).log()  # the best has probability 1 / sum

    ids, weights, even, full = _sorted(target, scores)
    mass = weights.sum(-1)
    product = masked_dot(weights, scores.gather(-1, ids).to(wide))
    for table, share in even:
        mass += share.squeeze(-1) * table.tokens
        product += torch.where(share == 0, 0, share * _sum(table, scores).unsqueeze(-1)).squeeze(-1)
    for values, weight in full:
        of_row = values.sum(-1).to(wide)
        mass += of_row if weight is None else of_row * weight.squeeze(-1)
        product += _full_product(values, weight, scores)
    loss = mass * log_total.squeeze(-1) - product

    nll = torch.zeros_like(loss)
    if labels is not None:
        empty = labels == ignore_index
        of_label = scores.gather(-1, labels.masked_fill(empty, 0).unsqueeze(-1)).to(wide)
        nll = (log_total - of_label).squeeze(-1).masked_fill(empty, 0)

    if entropy_weights is not None:
        mean = _product(slopes, scores).unsqueeze(-1)
        if not bool(mean.isfinite().all()):  # a probability of 0 has met a logit of minus infinity
            scores = scores.masked_fill(slopes == 0, 0)
            mean = _product(slopes, scores).unsqueeze(-1)
        entropy = log_total - mean.to(wide)
        loss -= (entropy_weights * entropy).squeeze(-1)
    if only_losses:
        return loss, nll

    of_power = scale * mass.unsqueeze(-1)
    if entropy_weights is None:
        slopes.mul_(of_power.to(slopes.dtype))
    else:
        bonus = scale * entropy_weights.to(wide)
        offset = of_power + bonus * (entropy - log_total)
        slopes.mul_((scores * bonus.to(scores.dtype)).add_(offset.to(scores.dtype)))
    for table, share in even:
        shift = (scale * share).to(slopes.dtype)
        slopes.sub_(shift)
        if table.excluded:
            slopes[:, sorted(set(table.excluded))] += shift
    for values, weight in full:
        if weight is None:
            slopes.sub_(values, alpha=scale)
        else:
            slopes.addcmul_(values, weight.to(slopes.dtype), value=-scale)
    slopes.scatter_add_(-1, ids, (-scale * weights).to(slopes.dtype))
    return loss, nll


Even = tuple[UniformTable, Tensor]
"""A table, and what each of its tokens gets (n, 1)."""
Full = tuple[Tensor, Tensor | None]
"""Rows (n, V), and the weight (n, 1) of each; None for 1."""


def _sorted(target: SoftTarget, like: Tensor) -> tuple[Tensor, Tensor, list[Even], list[Full]]:
    """A target as slots (ids and weights), backgrounds, and rows in full."""
    ids, weights = [target.ids], [target.weights.double()]
    even: list[Even] = []
    full: list[Full] = []
    for row in target.rows:
        table = row.table
        if isinstance(table, UniformTable):
            even.append((table, row.weights.double().sum(-1, keepdim=True) / max(table.tokens, 1)))
        elif isinstance(table, SparseTable):
            listed, shares = table.gather(row.index, row.weights)
            if listed.shape[1] * LONG <= like.shape[1]:
                ids.append(listed)
                weights.append(shares.double())
            else:
                full.append((torch.zeros_like(like).scatter_add_(-1, listed, shares.to(like.dtype)), None))
        elif isinstance(table, DenseTable) and row.index.shape[1] == 1:
            values = table.values.index_select(0, row.index.squeeze(1))[:, : table.vocab_size]
            full.append((values.to(like.dtype), row.weights))
        else:
            full.append((table.combine(row.index, row.weights).to(like.dtype), None))
    return torch.cat(ids, -1), torch.cat(weights, -1), even, full


def _product(left: Tensor, right: Tensor) -> Tensor:  # (n,)
    """Inner products of rows."""
    return torch.bmm(left.unsqueeze(1), right.unsqueeze(2)).view(-1)


def _full_product(values: Tensor, share: Tensor | None, scores: Tensor) -> Tensor:  # (n,)
    product = _product(values, scores)
    if not bool(product.isfinite().all()):  # mass of 0 has met a logit of minus infinity
        product = masked_dot(values, scores)
    if share is None:
        return product.double()
    share = share.squeeze(-1).double()
    return torch.where(share == 0, 0, share * product.double())


def _sum(table: UniformTable, scores: Tensor) -> Tensor:  # (n,)
    """The sum of the scores of a background's tokens."""
    total = scores.sum(-1).double()
    if not table.excluded:
        return total
    outside = sorted(set(table.excluded))
    total -= scores[:, outside].sum(-1)
    if bool(total.isfinite().all()):
        return total
    inside = scores.clone()
    inside[:, outside] = 0
    return inside.sum(-1).double()
