"""A captioning corpus that the package draws itself: pictures of small scenes, five captions each."""

from seqsmooth.data.scenes.corpus import Scenes, Split, make_scenes
from seqsmooth.data.scenes.png import png
from seqsmooth.data.scenes.world import Group, Scene

__all__ = ["Group", "Scene", "Scenes", "Split", "make_scenes", "png"]
