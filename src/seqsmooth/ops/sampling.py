"""Draws from a generator, without a look from the host.

Uniform numbers have 53 bits where the device can: with the 24 bits of fp32, some of 100,000 tokens would be drawn one
per cent more often than others.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import finest
from seqsmooth.ops.philox import Philox

Generator = torch.Generator | Philox
"""A source of random numbers."""
PIECE = 16


def uniforms(shape: tuple[int, ...], like: Tensor, generator: Generator | None) -> Tensor:
    """Uniform numbers in [0, 1) on the device of `like`."""
    check_device(generator, like)
    if isinstance(generator, Philox):
        return generator.uniforms(shape)
    return torch.rand(shape, dtype=finest(like.device), device=like.device, generator=generator)


def check_generator(generator: Generator | None) -> None:
    """Refuse what is no generator, as a seed."""
    if generator is not None:
        rule = "a torch.Generator (`torch.Generator().manual_seed(seed)` makes one) or a Philox"
        checks.must(isinstance(generator, Generator), "generator", rule, checks.describe(generator))


def check_device(generator: Generator | None, like: Tensor) -> None:
    """Refuse a generator of another device."""
    check_generator(generator)
    if generator is not None:
        here = like.device.type
        checks.must(
            generator.device.type == here, "generator", f"on the device of the targets, {here}", generator.device
        )


def categorical(
    probabilities: Tensor,  # (M, V), rows need not sum to 1
    count: int,
    generator: Generator | None,
    rows: Tensor | None = None,  # (N,) row numbers; N = M and each row if None
) -> Tensor:  # (N, count) int64
    """Independent draws from each row, by inverting its cumulative sums. A row of zeros gives 0."""
    each = torch.arange(probabilities.shape[0], device=probabilities.device) if rows is None else rows
    pieces = in_pieces(probabilities)
    return draw_pieces(pieces, cumulate(piece_sums(pieces))[each], each, count, generator)


def in_pieces(
    probabilities: Tensor,  # (M, V)
) -> Tensor:  # (M, P, 16)
    """Rows cut into pieces of 16 tokens."""
    short = -probabilities.shape[1] % PIECE
    pieces = F.pad(probabilities, (0, short)) if short else probabilities  # a copy, even where nothing is short
    return pieces.view(pieces.shape[0], pieces.shape[1] // PIECE, PIECE)


def piece_sums(
    pieces: Tensor,  # (M, P, 16)
) -> Tensor:  # (M, P)
    """The mass of each piece; in fp32 off by no more than its entries are."""
    return pieces.sum(-1)


def cumulate(
    sums: Tensor,  # (M, P)
) -> Tensor:  # (M, P)
    """Cumulative sums, as `draw_pieces` wants them."""
    return sums.to(finest(sums.device)).cumsum(-1)


def draw_pieces(
    pieces: Tensor,  # (M, P, 16)
    cumulative: Tensor,  # (N, P) of the row of each position
    rows: Tensor,  # (N,) the number of that row
    count: int,
    generator: Generator | None,
) -> Tensor:  # (N, count) int64
    """Independent draws: first a piece, by its sum, and then a token of it."""
    points = uniforms((rows.shape[0], count), pieces, generator) * cumulative[:, -1:]
    piece = _invert(cumulative, points)
    before = cumulative.gather(-1, (piece - 1).clamp_min(0)).masked_fill(piece == 0, 0)
    points = points - before  # never below 0
    tokens = pieces[rows.unsqueeze(-1), piece].to(cumulative.dtype).cumsum(-1)  # (N, count, 16)
    return PIECE * piece + _invert(tokens, points.unsqueeze(-1)).squeeze(-1)


def _invert(
    cumulative: Tensor,  # (..., n)
    points: Tensor,  # (..., m)
) -> Tensor:  # (..., m)
    """The first place whose cumulative sum is greater than a point."""
    # A uniform below 1 can still round up to the last sum; right=True then points past the end, hence the clamp to the
    # last place with any mass.
    last = (cumulative < cumulative[..., -1:]).sum(-1, keepdim=True)
    return torch.searchsorted(cumulative, points, right=True).minimum(last)
