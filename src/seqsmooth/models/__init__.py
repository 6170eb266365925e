"""Sequence generators: Show and Tell, Top-Down attention, RNNsearch, Luong's; one protocol: encode, decode, step."""

from seqsmooth.models.captioner import Captioner, parameter_groups
from seqsmooth.models.encoder import BidirectionalEncoder
from seqsmooth.models.folder import load, save
from seqsmooth.models.luong import Luong
from seqsmooth.models.model import Model
from seqsmooth.models.registry import build, build_encoder
from seqsmooth.models.rnnsearch import RNNsearch
from seqsmooth.models.show_tell import ShowTell
from seqsmooth.models.top_down import TopDown
from seqsmooth.models.vision import CachedFeatures, EfficientNetLite, HubEncoder, ImageEncoder

__all__ = [
    "BidirectionalEncoder",
    "CachedFeatures",
    "Captioner",
    "EfficientNetLite",
    "HubEncoder",
    "ImageEncoder",
    "Luong",
    "Model",
    "RNNsearch",
    "ShowTell",
    "TopDown",
    "build",
    "build_encoder",
    "load",
    "parameter_groups",
    "save",
]
