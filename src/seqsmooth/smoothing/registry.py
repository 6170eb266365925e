"""The laws by the name that a config gives them. A law that is listed here is one of `objective` in YAML."""

from __future__ import annotations

from seqsmooth.smoothing.dirac import Dirac
from seqsmooth.smoothing.edit import Edit
from seqsmooth.smoothing.ground_truth import GroundTruth
from seqsmooth.smoothing.hamming import Hamming
from seqsmooth.smoothing.rewarded import Rewarded
from seqsmooth.smoothing.sequence_law import SequenceLaw
from seqsmooth.smoothing.similarity import Similarity
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.smoothing.uniform import Uniform

SEQUENCE_LAWS: dict[str, type[SequenceLaw]] = {
    "ground_truth": GroundTruth,
    "hamming": Hamming,
    "edit": Edit,
    "rewarded": Rewarded,
}
TOKEN_LAWS: dict[str, type[TokenLaw]] = {
    "dirac": Dirac,
    "uniform": Uniform,
    "similarity": Similarity,
}
