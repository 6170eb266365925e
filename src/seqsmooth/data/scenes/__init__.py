"""A captioning corpus that the package draws itself: pictures of small scenes, five captions each."""

from seqsmooth.data.scenes.corpus import Scenes, SceneSplit, make_scenes
from seqsmooth.data.scenes.png import png
from seqsmooth.data.scenes.world import Scene, SceneGroup

__all__ = ["Scene", "SceneGroup", "SceneSplit", "Scenes", "make_scenes", "png"]
