"""Sentence BLEU, with the smoothings of sacreBLEU, of NLTK and of coco-caption."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks, dispatch, ngrams
from seqsmooth.rewards.protocol import check_dtype, check_ids


class Bleu(nn.Module):
    """BLEU of Papineni et al. (2002), section 2.3, for single sentences against several references.

    The brevity penalty times the geometric mean of the precisions of the n-grams up to `order`. An n-gram of the
    candidate counts as often as the reference richest in it has it; the length of the references is that of the one
    closest in length, the shorter of two. A candidate without a single matching token scores 0 (with "coco" next to
    nothing), and so does an empty one.

    A sentence often has no match of the longest n-grams, and the tools fill the gap differently. Each name gives that
    tool's number:

    - "none", "floor", "add-k", "exp" are sacreBLEU's. Where a candidate is shorter than `order` they give 0 ("add-k"
      does not), unless `effective_order` lets only the orders count that the candidate has n-grams of.
    - "method0" to "method7" are those of `nltk.translate.bleu_score.SmoothingFunction`, after Chen and Cherry (2014).
      "method5" and "method7" average neighbouring orders, so they can exceed 1, and like NLTK they take the 5-grams for
      the order after the last, whatever the order. "method6" is not defined without a matching trigram, and NLTK stops
      there: here its formula goes on, with a prior from the bigrams, and is 0 where not even a bigram matches.
    - "coco" is coco-caption's: 1e-15 and 1e-9 beside every count.

    Args:
        order: the length of the longest n-grams.
        smoothing: one of the names above.
        effective_order: as in sacreBLEU, and only for its smoothings.
        value: what a smoothing adds: `smooth_value` of sacreBLEU's "floor" (0.1) and "add-k" (1), epsilon of NLTK's
            "method1" (0.1), k of "method4" and "method7" (5), alpha of "method6" (5). None for the value in brackets.
        dtype: the type of the arithmetic, torch.float32 or torch.float64.

    Examples:
        >>> from seqsmooth.rewards import Bleu
        >>> candidates = torch.tensor([[[4, 5, 6, 7], [4, 5, 9, 7]]])  # (B, L, T): two for one item
        >>> references = torch.tensor([[[4, 5, 6, 7, -1], [4, 5, 9, 8, 7]]])  # (B, R, S), padded
        >>> Bleu()(candidates, references)  # the second: (4/4 * 2/3 * 1/2 * 0.5/1) ** (1/4)
        tensor([[1.0000, 0.6389]])
        >>> Bleu(smoothing="method1").signature()
        'bleu:4|smooth:method1[0.1]|eff:no'
    """

    def __init__(
        self,
        order: int = 4,
        smoothing: str = "exp",
        effective_order: bool = False,
        *,
        value: float | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.one_of("smoothing", smoothing, list(_SMOOTHINGS))
        self.smoothing = smoothing
        self.order = checks.at_least("order", order, 3 if smoothing == "method6" else 1)
        if smoothing not in ("none", "floor", "add-k", "exp"):
            checks.must(not effective_order, "effective_order", f"False with {smoothing!r}", effective_order)
        self.effective_order = bool(effective_order)
        default, _ = _SMOOTHINGS[smoothing]
        if default == 0:
            checks.must(value is None, "value", f"None with {smoothing!r}", value)
        self.value = default if value is None else checks.positive("value", value)
        self.dtype = check_dtype(dtype)

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)
        """Score each candidate against the references of its row."""
        check_ids(candidates, references)
        fusable = self.dtype == torch.float32 and self.order <= ngrams.FUSED
        if fusable and dispatch.uses_kernels(candidates, references):
            from seqsmooth.ops.kernels import bleu
            from seqsmooth.ops.kernels.ngrams import fit

            if self.smoothing in bleu.SMOOTHINGS and fit(candidates, references):
                how = (self.order, self.smoothing, self.effective_order, self.value)
                return bleu.bleu(candidates, references, *how)
        matched, totals = self._tally(candidates, references)
        length = totals[..., 0]
        closest = _closest_length(candidates, references).to(self.dtype)
        _, smooth = _SMOOTHINGS[self.smoothing]
        logs = smooth(matched, totals, self.value).log()  # (B, L, N)
        if self.smoothing == "coco":
            return (logs.mean(-1) + (1 - (closest + _SMALL) / (length + _TINY)).clamp(max=0)).exp()
        orders: Tensor | int = self.order
        if self.smoothing in ("none", "floor", "exp"):
            beyond = totals == 0  # sacreBLEU stops before the first order that the candidate has no n-gram of
            logs = logs.masked_fill(beyond, 0 if self.effective_order else -torch.inf)
            orders = (~beyond).sum(-1).clamp(min=1) if self.effective_order else orders
        penalty = (1 - closest / length.clamp(min=1)).clamp(max=0)
        return torch.where(matched[..., 0] > 0, (logs.sum(-1) / orders + penalty).exp(), 0)

    def _tally(
        self,
        candidates: Tensor,  # (B, L, T)
        references: Tensor,  # (B, R, S)
    ) -> tuple[Tensor, Tensor]:  # (B, L, N), (B, L, N)
        # The clipped matches and the n-grams of each order; for methods 5 and 7 of NLTK, the 5-grams behind the others.
        orders = [*range(1, self.order + 1), *([5] if self.smoothing in ("method5", "method7") else [])]
        lengths = ngrams.lengths(candidates)
        of_all = ngrams.matches(candidates, references, max(orders))
        matched = torch.stack([of_all[..., n - 1] for n in orders], -1)
        totals = torch.stack([(lengths - n + 1).clamp(min=0) for n in orders], -1)
        return matched.to(self.dtype), totals.to(self.dtype)

    def extra_repr(self) -> str:
        """List the arguments."""
        value = f", value={self.value:.12g}" if self.value else ""
        return f"order={self.order}, smoothing={self.smoothing!r}, effective_order={self.effective_order}{value}"

    def signature(self) -> str:
        """Name the reward exactly, in the manner of sacreBLEU."""
        value = f"[{self.value:.12g}]" if self.value else ""
        return f"bleu:{self.order}|smooth:{self.smoothing}{value}|eff:{'yes' if self.effective_order else 'no'}"


def _closest_length(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> Tensor:  # (B, L)
    # Distance first, length second, packed into one number whose least is then the answer.
    theirs = ngrams.lengths(references)[:, None]  # (B, 1, R)
    apart = (ngrams.lengths(candidates)[:, :, None] - theirs).abs()
    farther = candidates.shape[-1] + references.shape[-1] + 1
    base = references.shape[-1] + 1
    return (apart.masked_fill(theirs == 0, farther) * base + theirs).amin(-1) % base


# Each smoothing takes the matches and the n-grams of every order, (B, L, N), and its value, and gives the precisions.
_Smoothing = Callable[[Tensor, Tensor, float], Tensor]
_TINY, _SMALL = 1e-15, 1e-9


def _plain(matched: Tensor, totals: Tensor, _: float) -> Tensor:
    return matched / totals.clamp(min=1)


def _floor(matched: Tensor, totals: Tensor, value: float) -> Tensor:
    return torch.where(matched > 0, matched, value) / totals.clamp(min=1)


def _add(matched: Tensor, totals: Tensor, value: float) -> Tensor:
    first = _plain(matched[..., :1], totals[..., :1], value)
    return torch.cat([first, (matched[..., 1:] + value) / (totals[..., 1:] + value)], dim=-1)


def _halve(matched: Tensor, totals: Tensor, _: float) -> Tensor:
    gap = matched == 0
    return torch.where(gap, 0.5 ** gap.cumsum(-1).to(matched.dtype), matched) / totals.clamp(min=1)


def _coco(matched: Tensor, totals: Tensor, _: float) -> Tensor:
    return (matched + _TINY) / (totals + _SMALL)


def _method0(matched: Tensor, totals: Tensor, _: float) -> Tensor:
    # NLTK writes the smallest number of its type for zero, and so a score that is only almost zero.
    return torch.where(matched > 0, _plain(matched, totals, 0), torch.finfo(matched.dtype).tiny)


def _method2(matched: Tensor, totals: Tensor, _: float) -> Tensor:
    return _add(matched, totals.clamp(min=1), 1)


def _method4(matched: Tensor, totals: Tensor, value: float) -> Tensor:
    precisions = _halve_by_length(matched, totals, value)
    return torch.where(precisions > 0, precisions, 1)  # NLTK passes over a zero, which is to multiply by 1


def _halve_by_length(matched: Tensor, totals: Tensor, value: float) -> Tensor:
    scale = totals[..., :1].clamp(min=1).log() / value
    return torch.where(matched > 0, _plain(matched, totals, 0), scale * _halve(matched, totals, 0))


def _method5(matched: Tensor, totals: Tensor, _: float) -> Tensor:
    return _average(_plain(matched, totals, 0))


def _average(
    precisions: Tensor,  # (B, L, N+1)
) -> Tensor:  # (B, L, N)
    averages = [precisions[..., 0] + 1]
    for here, after in zip(precisions.unbind(-1)[:-1], precisions.unbind(-1)[1:], strict=True):
        averages.append((averages[-1] + here + after) / 3)
    return torch.stack(averages[1:], dim=-1)


def _method6(matched: Tensor, totals: Tensor, value: float) -> Tensor:
    precisions = list(_plain(matched[..., :2], totals[..., :2], 0).unbind(-1))
    for n in range(2, matched.shape[-1]):
        before, last = precisions[-2:]
        prior = last**2 / torch.where(before > 0, before, 1)
        precisions.append((matched[..., n] + value * prior) / (totals[..., n] + value))
    return torch.stack(precisions, dim=-1)


def _method7(matched: Tensor, totals: Tensor, value: float) -> Tensor:
    precisions = _halve_by_length(matched[..., :-1], totals[..., :-1], value)
    return _average(torch.cat([precisions, _plain(matched[..., -1:], totals[..., -1:], 0)], dim=-1))


# By name: the value it takes unless told, 0 if it takes none, and the smoothing.
_SMOOTHINGS: dict[str, tuple[float, _Smoothing]] = {
    "none": (0.0, _plain),
    "floor": (0.1, _floor),
    "add-k": (1.0, _add),
    "exp": (0.0, _halve),
    "coco": (0.0, _coco),
    "method0": (0.0, _method0),
    "method1": (0.1, _floor),
    "method2": (0.0, _method2),
    "method3": (0.0, _halve),
    "method4": (5.0, _method4),
    "method5": (0.0, _method5),
    "method6": (5.0, _method6),
    "method7": (5.0, _method7),
}
