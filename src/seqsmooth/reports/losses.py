"""The loss of a run in the words of the paper's tables: loss, reward, V_sub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

REWARDS = {"cider": "CIDEr", "bleu": "BLEU", "hamming": "Hamming", "edit": "Edit", "constant": "Constant"}
POOLS = {"vocab": "V", "batch": "V_batch", "refs": "V_refs"}


class LossName(NamedTuple):
    """The first three columns of a table."""

    loss: str
    reward: str
    pool: str

    def __str__(self) -> str:
        return ", ".join(part for part in self if part)


def name_loss(objective: Mapping[str, Any]) -> LossName:
    """Name the loss of the section `objective` of a config.

    >>> name_loss({"sequence": {"kind": "hamming", "pool": "refs"}, "token": {"kind": "dirac"}, "lazy": True})
    LossName(loss='Seq, lazy', reward='Hamming', pool='V_refs')
    """
    sequence, token = objective.get("sequence") or {}, objective.get("token") or {}
    law, spread = sequence.get("kind", "ground_truth"), token.get("kind", "dirac")
    entropy = " + gamma H" if objective.get("entropy") else ""
    if law == "ground_truth":
        if spread == "dirac":
            return LossName(f"MLE{entropy}", "", "")
        if spread == "uniform":
            return LossName(f"Label smoothing{entropy}", "", "")
        similar = f"GloVe sim{' r^freq' if token.get('beta') else ''}"
        return LossName(f"Tok{entropy}", similar if spread == "similarity" else spread, "")
    lazy = ", lazy" if objective.get("lazy", True) else ""
    proposal = sequence.get("proposal", sequence)
    reward = sequence["reward"]["kind"] if law == "rewarded" else law
    kind = {"dirac": "Seq", "uniform": "Tok-Seq", "similarity": "Tok-Seq"}.get(spread, f"Tok-Seq, {spread}")
    pool = POOLS.get(proposal.get("pool", "vocab"), "")
    return LossName(f"{kind}{lazy}{entropy}", REWARDS.get(reward, reward), pool)
