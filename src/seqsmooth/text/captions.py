"""Captions of images from json: Karpathy's (COCO, Flickr8k, Flickr30k), or COCO's own annotations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from seqsmooth import checks
from seqsmooth.files.collector import pause_collector
from seqsmooth.files.reading import read_json

_KARPATHY = 'an image with "split" and "sentences", each with "tokens" or "raw"'


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption as it was written, and its words where the file has them."""

    raw: str
    words: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image of a file of captions.

    Attributes:
        id: what results and scores call it: COCO's number, else Karpathy's, else its place in the file.
        split: of Karpathy's; empty in COCO's annotations.
        captions: of the image.
        names: all that features may call it by: "cocoid", "filename", "stem", "imgid".
    """

    id: int | str
    split: str
    captions: tuple[Caption, ...]
    names: Mapping[str, int | str]


@pause_collector()
def read_captions(path: str | os.PathLike[str], name: str = "captions") -> list[CaptionedImage]:
    """Return the images of a file, in its order."""
    content = read_json(path, name)
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        images = _coco_annotations(content, path)
    elif isinstance(content, dict) and isinstance(content.get("images"), list):
        images = _karpathy_images(content, path)
    else:
        rule = 'Karpathy\'s json (with "images") or COCO\'s annotations (with "annotations")'
        raise ValueError(f"`{name}` must be {rule}, but {path} is neither.")
    checks.must(len(images) > 0, name, "a file with images", f"{path}, which has none")
    seen: set[int | str] = set()
    for image in images:
        checks.must(image.id not in seen, name, "a file with each image once", f"{path}, with {image.id!r} twice")
        seen.add(image.id)
    return images


def _karpathy_images(content: dict[str, Any], path: str | os.PathLike[str]) -> list[CaptionedImage]:
    images = []
    for place, image in enumerate(content["images"], 1):
        try:
            captions = tuple(_caption(sentence) for sentence in image["sentences"])
            names: dict[str, int | str] = {}
            for key in ("cocoid", "filename", "imgid"):
                if key in image:
                    names[key] = _identity(image[key])
            if "filename" in names:
                names["stem"] = PurePath(str(names["filename"])).stem
            identity = names.get("cocoid", names.get("imgid", place - 1))
            images.append(CaptionedImage(identity, str(image["split"]), captions, names))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"Image {place} of {path} must be {_KARPATHY}; it is something else.") from error
    return images


def _caption(sentence: dict[str, Any]) -> Caption:
    words = sentence.get("tokens")
    if words is not None:
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise TypeError("tokens are strings")
        words = tuple(words)
    raw = sentence["raw"] if "raw" in sentence or words is None else " ".join(words)
    if not isinstance(raw, str):
        raise TypeError("a caption is a string")
    return Caption(raw, words)


def _coco_annotations(content: dict[str, Any], path: str | os.PathLike[str]) -> list[CaptionedImage]:
    rule = 'an object with "image_id" and "caption"'
    captions: dict[int | str, list[Caption]] = {}
    files: dict[int | str, str] = {}
    try:
        for image in content.get("images", []):
            # An image without a caption is still one to be captioned.
            captions[_identity(image["id"])] = []
            if "file_name" in image:
                files[image["id"]] = str(image["file_name"])
    except (KeyError, TypeError) as error:
        raise ValueError(f'The "images" of {path} must be objects with "id", but are something else.') from error
    for place, entry in enumerate(content["annotations"], 1):
        try:
            caption = _caption({"raw": entry["caption"]})
            captions.setdefault(_identity(entry["image_id"]), []).append(caption)
        except (KeyError, TypeError) as error:
            raise ValueError(f"Annotation {place} of {path} must be {rule}; it is something else.") from error
    images = []
    for identity, several in captions.items():
        names: dict[str, int | str] = {"cocoid": identity}
        if identity in files:
            names |= {"filename": files[identity], "stem": PurePath(files[identity]).stem}
        images.append(CaptionedImage(identity, "", tuple(several), names))
    return images


def _identity(value: object) -> int | str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError("an id is a whole number or a string")
    return value
