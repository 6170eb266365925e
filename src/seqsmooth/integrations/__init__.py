"""Objectives inside other people's trainers. Nothing here imports them: what they hand over is enough."""

from seqsmooth.integrations.own_prefix import WithReferences
from seqsmooth.integrations.smoothed import Smoothed
from seqsmooth.integrations.token_mean import TokenMean
from seqsmooth.integrations.trainer_loss import TrainerLoss, huggingface

__all__ = ["Smoothed", "TokenMean", "TrainerLoss", "WithReferences", "huggingface"]
