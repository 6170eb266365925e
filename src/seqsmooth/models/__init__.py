"""Sequence generators: Show and Tell, Top-Down attention, RNNsearch, Luong's; one protocol: encode, decode, step."""

from seqsmooth.models.encoder import BidirectionalEncoder
from seqsmooth.models.luong import Luong
from seqsmooth.models.model import Model
from seqsmooth.models.registry import build
from seqsmooth.models.rnnsearch import RNNsearch
from seqsmooth.models.show_tell import ShowTell
from seqsmooth.models.top_down import TopDown

__all__ = ["BidirectionalEncoder", "Luong", "Model", "RNNsearch", "ShowTell", "TopDown", "build"]
