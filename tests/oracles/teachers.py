"""A teacher, a student, and what is kept of the teacher."""

from __future__ import annotations

import torch
from torch import Tensor

import seqsmooth as ss

V = 9


def pair(seed: int, k: int, shape: tuple[int, ...] = (2, 3)) -> tuple[Tensor, Tensor, ss.TopK]:
    """A student's logits, a teacher's log-probabilities in full, and its k best."""
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (2 * torch.randn(*shape, V, generator=generator, dtype=torch.double) for _ in range(2))
    teacher = teacher.log_softmax(-1)
    best = teacher.topk(k, -1)
    return student, teacher, ss.TopK(best.indices, best.values)
