"""The rewards by the name that a config gives them. One that is listed here is a `reward` in YAML."""

from __future__ import annotations

from typing import Any

from seqsmooth.rewards.bleu import Bleu
from seqsmooth.rewards.cider import Cider
from seqsmooth.rewards.constant import Constant
from seqsmooth.rewards.edit import Edit
from seqsmooth.rewards.hamming import Hamming

REWARDS: dict[str, type[Any]] = {
    "cider": Cider,
    "bleu": Bleu,
    "hamming": Hamming,
    "edit": Edit,
    "constant": Constant,
}
