"""Decoding: beam search, greedy, sampling; ensembles; hypotheses and their file. Over a model's `step` only."""

from seqsmooth.decoding.beam import BeamSearch
from seqsmooth.decoding.ensemble import Ensemble
from seqsmooth.decoding.files import HypothesisFile, load_hypotheses
from seqsmooth.decoding.hypotheses import Hypotheses, Hypothesis
from seqsmooth.decoding.protocol import Decodable
from seqsmooth.decoding.rules import Rules
from seqsmooth.decoding.sampling import Greedy, Sampling

__all__ = [
    "BeamSearch",
    "Decodable",
    "Ensemble",
    "Greedy",
    "Hypotheses",
    "Hypothesis",
    "HypothesisFile",
    "Rules",
    "Sampling",
    "load_hypotheses",
]
