"""Sequences without some of their tokens, moved together."""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops import checks, dispatch


def compact(
    tokens: Tensor,  # (..., T) of whole numbers
    mask: Tensor | None,  # (..., T) bool; None keeps what is not negative
    dropped: tuple[int, ...] = (),
) -> Tensor:  # (..., T)
    """Keep the tokens where `mask` holds that are none of `dropped`, moved to the left, with -1 after them."""
    if dispatch.uses_kernels(tokens, mask):
        from seqsmooth.ops.kernels import compaction

        if compaction.fit(tokens, mask, dropped):
            return compaction.compact(tokens, mask, dropped)
    kept = tokens >= 0 if mask is None else mask
    for token in dropped:
        kept = kept & (tokens != token)
    if (
        not dispatch.is_followed() and checks.visible(kept) and bool((kept[..., 1:] <= kept[..., :-1]).all())
    ):  # nothing has to move
        return tokens.masked_fill(~kept, -1)
    order = (~kept).to(torch.int8).argsort(dim=-1, stable=True)
    return torch.where(kept, tokens, -1).gather(-1, order)
