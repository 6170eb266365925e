"""Models from plain values: a name and sizes, as a YAML file or a checkpoint holds them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from seqsmooth.models.captioner import Captioner
from seqsmooth.models.luong import Luong
from seqsmooth.models.model import Model
from seqsmooth.models.plain import STARTS
from seqsmooth.models.rnnsearch import RNNsearch
from seqsmooth.models.show_tell import ShowTell
from seqsmooth.models.top_down import TopDown
from seqsmooth.models.vision import CachedFeatures, EfficientNetLite, HubEncoder, ImageEncoder
from seqsmooth.ops import checks

Made = TypeVar("Made")
MODELS: dict[str, type[Model[Any, Any]]] = {each.kind: each for each in (ShowTell, TopDown, RNNsearch, Luong)}
ENCODERS: dict[str, type[ImageEncoder]] = {
    encoder.kind: encoder for encoder in (CachedFeatures, EfficientNetLite, HubEncoder)
}


def build(kind: str, **sizes: Any) -> Model[Any, Any]:
    """Make a model: `build(**model.config())` makes one like `model`, with weights of its own.

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
            checks.must("kind" in sizes[name], f"{name}.kind", "given", "missing")
        encoder, decoder = build_encoder(**sizes["encoder"]), build(**sizes["decoder"])
        return Captioner(encoder, decoder, **{name: sizes[name] for name in sizes.keys() & {"tuned"}})
    model = _look_up(kind, MODELS, (Captioner.kind,))
    check_arguments(kind, model, sizes)
    return model(**sizes)


def build_encoder(kind: str, **options: Any) -> ImageEncoder:
    """Make an image encoder: "cached", "efficientnet_lite" or "transformers", and the arguments of its class.

    Examples:
        >>> build_encoder("cached", shape=[49, 2048]).feature_shape
        (49, 2048)
    """
    encoder = _look_up(kind, ENCODERS)
    check_arguments(kind, encoder, options)
    return encoder(**options)


def arguments(kind: str) -> tuple[str, ...]:
    """The names of the plain arguments of a kind of model."""
    return tuple(name for name in _parameters(_look_up(kind, MODELS)) if name not in STARTS)


def check_arguments(kind: str, model: type, given: Iterable[str]) -> None:
    """Check that arguments are those of a class, and all that it needs."""
    known, given = _parameters(model), list(given)
    for name in given:
        checks.must(name in known, name, f"an argument of {kind}{nearest(name, known)}", "unknown")
    for name, parameter in known.items():
        needed = parameter.default is inspect.Parameter.empty
        checks.must(not needed or name in given, name, f"given for {kind}", "missing")


def nearest(word: object, known: Iterable[str]) -> str:
    """A hint at what may have been meant, or nothing."""
    matches = difflib.get_close_matches(str(word), list(known), 1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def _parameters(model: type) -> dict[str, inspect.Parameter]:
    initialise: Callable[..., None] = model.__init__  # type: ignore[misc]
    return {name: value for name, value in inspect.signature(initialise).parameters.items() if name != "self"}


def _look_up(kind: str, kinds: Mapping[str, type[Made]], others: tuple[str, ...] = ()) -> type[Made]:
    names = (*kinds, *others)
    checks.must(kind in kinds, "kind", f"one of {', '.join(names)}{nearest(kind, names)}", repr(kind))
    return kinds[kind]
