"""Distillation: what is stored of a teacher, and how far a student is from it."""

from seqsmooth.distillation.forward_kl import forward_kl
from seqsmooth.distillation.topk import TopK

__all__ = ["TopK", "forward_kl"]
