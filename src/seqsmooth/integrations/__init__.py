"""Objectives inside the trainers of others, none of which is imported here."""

from seqsmooth.integrations.references import WithReferences
from seqsmooth.integrations.smoothed import Smoothed
from seqsmooth.integrations.token_mean import TokenMean
from seqsmooth.integrations.trainer_loss import TrainerLoss, huggingface

__all__ = ["Smoothed", "TokenMean", "TrainerLoss", "WithReferences", "huggingface"]
