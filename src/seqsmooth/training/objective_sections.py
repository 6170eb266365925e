"""The section `objective` of a config: one frozen record a law or reward, by its `kind`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Pool = Literal["vocab", "batch", "refs"]


@dataclass(frozen=True)
class GroundTruth:
    """The ground truth alone."""

    kind: Literal["ground_truth"] = "ground_truth"


@dataclass(frozen=True)
class Hamming:
    """`seqsmooth.Hamming`, as a law or as a proposal."""

    tau: float | None = None
    rate: float | None = None
    pool: Pool = "vocab"
    alpha: float = 1.0
    samples: int | None = None
    substitutes: Uniform | Similarity | None = None
    integrate: bool = True
    kind: Literal["hamming"] = "hamming"


@dataclass(frozen=True)
class Edit:
    """`seqsmooth.Edit`, as a law or as a proposal."""

    tau: float
    pool: Pool = "vocab"
    alpha: float = 1.0
    samples: int = 1
    max_insertions: int | None = None
    kind: Literal["edit"] = "edit"


@dataclass(frozen=True)
class CiderReward:
    """CIDEr-D with the document frequencies of the corpus; `clip` keeps it in [0, clip], as the authors' 1."""

    order: int = 4
    sigma: float = 6.0
    clip: float | None = None
    kind: Literal["cider"] = "cider"


@dataclass(frozen=True)
class BleuReward:
    """Sentence BLEU."""

    order: int = 4
    smoothing: str = "exp"
    effective_order: bool = False
    value: float | None = None
    clip: float | None = None
    kind: Literal["bleu"] = "bleu"


@dataclass(frozen=True)
class HammingReward:
    """Minus the Hamming distance to the nearest reference."""

    kind: Literal["hamming"] = "hamming"


@dataclass(frozen=True)
class EditReward:
    """Minus the edit distance to the nearest reference."""

    kind: Literal["edit"] = "edit"


@dataclass(frozen=True)
class ConstantReward:
    """The same for all: the control."""

    value: float = 0.0
    kind: Literal["constant"] = "constant"


@dataclass(frozen=True)
class Rewarded:
    """`seqsmooth.Rewarded`."""

    reward: CiderReward | BleuReward | HammingReward | EditReward | ConstantReward
    proposal: Hamming | Edit
    tau: float
    samples: int
    alpha: float = 1.0
    weights: Literal["tilted", "literal", "batch"] = "tilted"
    against: Literal["references", "target"] = "references"
    kind: Literal["rewarded"] = "rewarded"


@dataclass(frozen=True)
class Dirac:
    """No spread around a token."""

    kind: Literal["dirac"] = "dirac"


@dataclass(frozen=True)
class Uniform:
    """Label smoothing."""

    alpha: float = 0.1
    kind: Literal["uniform"] = "uniform"


@dataclass(frozen=True)
class Similarity:
    """`seqsmooth.Similarity` over word vectors; `eos` lets EOS have the vector that the file has for it."""

    vectors: str
    tau: float
    beta: float = 0.0
    alpha: float = 1.0
    eos: bool = True
    mode: Literal["dense", "sampled", "top-k"] = "dense"
    k: int | None = None
    tail: Literal["renormalise", "zero"] = "renormalise"
    stored: Literal["auto", "always", "never", "float16"] = "auto"
    kind: Literal["similarity"] = "similarity"


@dataclass(frozen=True)
class Anneal:
    """A number of the objective that moves from `start` to `end`; it changes at the start of an epoch."""

    key: str
    start: float
    end: float
    epochs: int
    delay: int = 0
    shape: Literal["linear", "cosine", "step"] = "linear"


@dataclass(frozen=True)
class Objective:
    """The loss: see `seqsmooth.Objective`."""

    sequence: GroundTruth | Hamming | Edit | Rewarded = field(default_factory=GroundTruth)
    token: Dirac | Uniform | Similarity = field(default_factory=Dirac)
    lazy: bool = True
    entropy: float = 0.0
    anneal: tuple[Anneal, ...] = ()


def needs_references(section: Objective) -> bool:
    """Whether the loss asks for all that people wrote, beside the target."""
    law: Any = section.sequence
    if isinstance(law, Rewarded):
        if law.against == "references":
            return True
        law = law.proposal
    return getattr(law, "pool", None) == "refs"
