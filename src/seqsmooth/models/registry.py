"""Models from plain values: a kind and its arguments, as a YAML file or a checkpoint holds them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from seqsmooth.models.captioner import Captioner
from seqsmooth.models.configurable import STARTS
from seqsmooth.models.luong import Luong
from seqsmooth.models.model import Model
from seqsmooth.models.rnnsearch import RNNsearch
from seqsmooth.models.show_tell import ShowTell
from seqsmooth.models.top_down import TopDown
from seqsmooth.models.vision import CachedFeatures, EfficientNetLite, HubEncoder, ImageEncoder
from seqsmooth.ops import checks

ModelOrEncoder = TypeVar("ModelOrEncoder")
MODELS: dict[str, type[Model[Any, Any]]] = {
    "show_tell": ShowTell,
    "top_down": TopDown,
    "rnnsearch": RNNsearch,
    "luong": Luong,
}
ENCODERS: dict[str, type[ImageEncoder]] = {
    "cached": CachedFeatures,
    "efficientnet_lite": EfficientNetLite,
    "transformers": HubEncoder,
}


def build(kind: str, **sizes: Any) -> Model[Any, Any]:
    """Build a model; `build(**model.config())` builds one like `model`, with new weights.

    Args:
        kind: "show_tell", "top_down", "rnnsearch", "luong", or "captioner".
        sizes: the arguments of the class of that name; for a captioner `encoder` and `decoder` are dictionaries, each
            with a `kind` of its own.

    Examples:
        >>> build("show_tell", vocab_size=50, feature_size=8, units=16).config()["units"]
        16
    """
    if kind == Captioner.kind:
        check_arguments(kind, Captioner, sizes)
        for name in ("encoder", "decoder"):
            checks.must(isinstance(sizes[name], Mapping), name, "a dictionary with a `kind`", repr(sizes[name]))
            checks.require("kind" in sizes[name], f"`{name}.kind` is missing; it names the class of the {name}.")
        encoder, decoder = build_encoder(**sizes["encoder"]), build(**sizes["decoder"])
        return Captioner(encoder, decoder, **{name: sizes[name] for name in sizes.keys() & {"tuned"}})
    model = _class_of(kind, MODELS, (Captioner.kind,))
    check_arguments(kind, model, sizes)
    return model(**sizes)


def build_encoder(kind: str, **options: Any) -> ImageEncoder:
    """Build an image encoder: "cached", "efficientnet_lite" or "transformers", with the arguments of its class.

    Examples:
        >>> build_encoder("cached", shape=[49, 2048]).feature_shape
        (49, 2048)
    """
    encoder = _class_of(kind, ENCODERS)
    check_arguments(kind, encoder, options)
    return encoder(**options)


def arguments(kind: str) -> tuple[str, ...]:
    """The names of the plain arguments of a kind of model."""
    return tuple(name for name in _parameters(_class_of(kind, MODELS)) if name not in STARTS)


def check_arguments(kind: str, module: type, names: Iterable[str]) -> None:
    """Check that a class has the arguments `names`, and that none without a default is missing."""
    known, names = _parameters(module), list(names)
    for name in names:
        checks.require(name in known, f"`{name}` is no argument of {kind}{nearest(name, known)}.")
    for name, parameter in known.items():
        needed = parameter.default is inspect.Parameter.empty
        checks.require(not needed or name in names, f"`{name}` is missing; {kind} needs it.")


def nearest(word: object, known: Iterable[str]) -> str:
    """The hint " (did you mean ...?)" with the known word nearest to another, or an empty string."""
    matches = difflib.get_close_matches(str(word), list(known), 1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def _parameters(module: type) -> dict[str, inspect.Parameter]:
    initialise: Callable[..., None] = module.__init__  # type: ignore[misc]
    return {name: value for name, value in inspect.signature(initialise).parameters.items() if name != "self"}


def _class_of(
    kind: str, kinds: Mapping[str, type[ModelOrEncoder]], others: tuple[str, ...] = ()
) -> type[ModelOrEncoder]:
    names = (*kinds, *others)
    checks.must(kind in kinds, "kind", f"one of {', '.join(names)}{nearest(kind, names)}", repr(kind))
    return kinds[kind]
