"""Levenshtein distances of padded id tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.ngrams import lengths


def edit_distance(
    ids: Tensor,  # (..., T), right-padded with negative ids
    others: Tensor,  # (..., S), right-padded with negative ids, broadcastable
) -> Tensor:  # (...)
    """Count the insertions, deletions and substitutions that turn `ids` into `others`, at the least.

    Row t of the table of Wagner and Fischer (1974) holds the distances of the first t tokens of `ids` to every prefix
    of `others`. A row follows from the one above in one go: the best without a final insertion first, then the
    insertions, where d[k] = min over j <= k of c[j] + k - j is a running minimum of c[j] - j. So the only loop is over
    the T rows.
    """
    checks.integers("ids", ids)
    checks.integers("others", others)
    steps = torch.arange(others.shape[-1] + 1, device=others.device)  # (S+1,)
    end = lengths(others)
    batch = (lengths(ids) + end).shape
    row = steps.expand(*batch, -1)  # (..., S+1)
    for t in range(ids.shape[-1]):
        token = ids[..., t, None]  # (..., 1)
        substituted = row[..., :-1] + (token != others)
        deleted = row + 1
        best = torch.cat([deleted[..., :1], torch.minimum(substituted, deleted[..., 1:])], dim=-1)
        inserted = (best - steps).cummin(-1).values + steps
        # Past the end of `ids` the last row stays.
        row = torch.where(token >= 0, inserted, row)
    # Column k looks only at the first k tokens of `others`, so reading column |others| leaves its padding behind.
    return row.gather(-1, end.expand(batch)[..., None]).squeeze(-1)
