"""The arithmetic: soft targets and their cross entropy, n-grams, edit distance, draws. Imports nothing of ours."""

from seqsmooth.ops.cross_entropy import cross_entropy
from seqsmooth.ops.head import linear_cross_entropy
from seqsmooth.ops.philox import Philox
from seqsmooth.ops.soft_target import SoftTarget

__all__ = ["Philox", "SoftTarget", "cross_entropy", "linear_cross_entropy"]
