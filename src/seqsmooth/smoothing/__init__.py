"""The mathematics of targets: which sequences, how much around each token, on whose prefix."""

from seqsmooth.ops.candidates import Candidates
from seqsmooth.smoothing.dirac import Dirac
from seqsmooth.smoothing.edit import Edit
from seqsmooth.smoothing.ground_truth import GroundTruth
from seqsmooth.smoothing.hamming import Hamming
from seqsmooth.smoothing.objective import Objective
from seqsmooth.smoothing.presets import label_smoothing, mle, seq, tok, tok_seq
from seqsmooth.smoothing.records import Loss
from seqsmooth.smoothing.refresh import Refresh
from seqsmooth.smoothing.rewarded import Rewarded
from seqsmooth.smoothing.similarity import Similarity
from seqsmooth.smoothing.specials import Specials
from seqsmooth.smoothing.teacher import Teacher
from seqsmooth.smoothing.uniform import Uniform

__all__ = [
    "Candidates",
    "Dirac",
    "Edit",
    "GroundTruth",
    "Hamming",
    "Loss",
    "Objective",
    "Refresh",
    "Rewarded",
    "Similarity",
    "Specials",
    "Teacher",
    "Uniform",
    "label_smoothing",
    "mle",
    "seq",
    "tok",
    "tok_seq",
]
