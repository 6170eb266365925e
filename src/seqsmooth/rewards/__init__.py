"""Rewards: token ids in, one number for each candidate out."""

from seqsmooth.rewards.bleu import Bleu
from seqsmooth.rewards.cider import Cider
from seqsmooth.rewards.clip import Clip
from seqsmooth.rewards.constant import Constant
from seqsmooth.rewards.document_frequencies import DocumentFrequencies
from seqsmooth.rewards.edit import Edit
from seqsmooth.rewards.hamming import Hamming
from seqsmooth.rewards.protocol import Reward

__all__ = ["Bleu", "Cider", "Clip", "Constant", "DocumentFrequencies", "Edit", "Hamming", "Reward"]
