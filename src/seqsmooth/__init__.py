"""Token-level and sequence-level loss smoothing for anything that generates sequences."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqsmooth.version import __version__

if TYPE_CHECKING:
    from seqsmooth import integrations, metrics, rewards
    from seqsmooth.distillation import TopK, forward_kl
    from seqsmooth.memory import keep_memory
    from seqsmooth.ops import Philox, SoftTarget, cross_entropy, linear_cross_entropy
    from seqsmooth.smoothing import (
        Candidates,
        Dirac,
        Edit,
        GroundTruth,
        Hamming,
        Loss,
        Objective,
        Refresh,
        Rewarded,
        Similarity,
        Specials,
        Teacher,
        Uniform,
        label_smoothing,
        mle,
        seq,
        tok,
        tok_seq,
    )

__all__ = [
    "Candidates",
    "Dirac",
    "Edit",
    "GroundTruth",
    "Hamming",
    "Loss",
    "Objective",
    "Philox",
    "Refresh",
    "Rewarded",
    "Similarity",
    "SoftTarget",
    "Specials",
    "Teacher",
    "TopK",
    "Uniform",
    "__version__",
    "cross_entropy",
    "forward_kl",
    "integrations",
    "keep_memory",
    "label_smoothing",
    "linear_cross_entropy",
    "metrics",
    "mle",
    "rewards",
    "seq",
    "tok",
    "tok_seq",
]

# A name is imported when it is first used, so that `seqsmooth --help` does not wait for torch.
_ROOMS = ("distillation", "integrations", "metrics", "ops", "rewards", "smoothing")
_HOMES = {
    "keep_memory": "memory",
    **dict.fromkeys(("TopK", "forward_kl"), "distillation"),
    **dict.fromkeys(("Philox", "SoftTarget", "cross_entropy", "linear_cross_entropy"), "ops"),
}  # all other names are of `smoothing`


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'smoothing')}"), name)
    globals()[name] = value  # so the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
