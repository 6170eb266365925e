"""Image encoders: features from a file, EfficientNet-Lite, and any vision model of transformers."""

from seqsmooth.models.vision.efficientnet import EfficientNetLite
from seqsmooth.models.vision.encoder import CachedFeatures, ImageEncoder
from seqsmooth.models.vision.hub import HubEncoder
from seqsmooth.models.vision.images import read_image, read_images

__all__ = ["CachedFeatures", "EfficientNetLite", "HubEncoder", "ImageEncoder", "read_image", "read_images"]
