"""Sections of a config that are derived from the constructors of models, laws and rewards: a frozen record each.

A section has an argument of the constructor under its own name, with its type and default, but for what the corpus
knows and for what a YAML file cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, field, fields, is_dataclass, make_dataclass, replace
from functools import cache
from typing import Any, Literal

from seqsmooth.training.signatures import (
    REQUIRED,
    Argument,
    Class,
    SourceClass,
    arguments,
    class_name,
    has_method,
    registered,
)

Sections = dict[str, type]
"""Records by the `kind` that chooses one."""
Key = tuple[str, Any, Any]
"""The name, the type and the field of a key."""
FROM_CORPUS = (
    *("vocab_size", "source_size", "feature_size", "source_pad"),  # of models
    *("document_frequencies", "counts", "missing"),  # of rewards and token laws
)
"""Arguments that the corpus knows."""
STORED = ("auto", "always", "never", "float16")
"""What a YAML file calls the values of the argument `stored`."""
MODELS, LAWS, REWARDS = (f"seqsmooth.{room}.registry" for room in ("models", "smoothing", "rewards"))
UNCLIPPED = ("hamming", "edit", "constant")
"""Rewards without a key `clip`: distances, which are 0 or less, and a constant."""


def model_sections() -> Sections:
    """List the sections for `model`."""
    captioner = SourceClass("seqsmooth.models.captioner", "Captioner")
    return _sections({**registered(MODELS, "MODELS"), "captioner": captioner})


def encoder_sections() -> Sections:
    """List the sections for `model.encoder`; cached features are no encoder here, since a decoder reads them alone."""
    encoders = registered(MODELS, "ENCODERS")
    return _sections({kind: encoder for kind, encoder in encoders.items() if kind != "cached"})


def decoder_sections() -> Sections:
    """List the sections for `model.decoder`: models that read features."""
    return {kind: model_sections()[kind] for kind in ("show_tell", "top_down")}


def sequence_sections() -> Sections:
    """List the sections for `objective.sequence`."""
    return _sections(registered(LAWS, "SEQUENCE_LAWS"))


def proposal_sections() -> Sections:
    """List the sections for `objective.sequence.proposal`: laws that can be sampled."""
    laws = registered(LAWS, "SEQUENCE_LAWS")
    return _sections({kind: law for kind, law in laws.items() if has_method(law, "draw")})


def token_sections() -> Sections:
    """List the sections for `objective.token`."""
    return _sections(registered(LAWS, "TOKEN_LAWS"))


def reward_sections() -> Sections:
    """List the sections for `objective.sequence.reward`; `clip` limits a reward to [0, clip], the authors' to 1."""
    rewards = registered(REWARDS, "REWARDS")
    return _sections(rewards, clipped=rewards.keys() - UNCLIPPED)


CHOICES: dict[str, Callable[[], Sections]] = {
    "encoder": encoder_sections,
    "decoder": decoder_sections,
    "reward": reward_sections,
    "proposal": proposal_sections,
    "substitutes": token_sections,
}
"""The sections to choose from, for arguments that are built from a section themselves."""


def choices(item: Field[Any]) -> Sections | None:
    """List the sections to choose from for a field, by its metadata; None for a field that is a plain value."""
    function = item.metadata.get("choices")
    return None if function is None else function()


def without_starts(section: Any) -> Any:
    """Drop from a model's section what only sets initial weights, for weights that will be loaded."""
    changes: dict[str, Any] = {}
    for item in fields(section):
        value = getattr(section, item.name)
        if is_dataclass(value):
            changes[item.name] = without_starts(value)
        elif item.name.endswith("vectors"):
            changes[item.name] = None
        elif item.name == "pretrained":
            changes[item.name] = False
    return replace(section, **changes)


def _sections(classes: Mapping[str, Class], clipped: Collection[str] = ()) -> Sections:
    return {kind: _section(kind, built, clip=kind in clipped) for kind, built in classes.items()}


@cache
def _section(kind: str, built: Class, *, clip: bool) -> type:
    """Make the record of a constructor's arguments; its attribute `built` is the class."""
    keys = [key for argument in arguments(built) for key in _keys(argument)]
    keys += [("clip", float | None, field(default=None))] if clip else []
    keys += [("kind", Literal[kind], field(default=kind))]
    whole = property(lambda section: built.load() if isinstance(built, SourceClass) else built)
    return make_dataclass(class_name(built), keys, frozen=True, kw_only=True, namespace={"built": whole})


def _keys(argument: Argument) -> Iterator[Key]:
    """Yield the keys that stand for an argument: none for what the corpus knows or YAML cannot express."""
    name, required = argument.name, argument.default is REQUIRED
    if name == "embeddings":  # a file of word vectors, in which EOS may have one
        yield from (("vectors", str, field()), ("eos", bool, field(default=True)))
    elif name == "stored":
        yield name, Literal[STORED], field(default="auto")
    elif name in CHOICES:  # without it, the constructor's default
        metadata = {"choices": CHOICES[name]}
        yield name, Any, field(metadata=metadata) if required else field(metadata=metadata, default=None)
    elif name.endswith("vectors"):
        yield name, str | None, field(default=None)
    elif name not in FROM_CORPUS and argument.hint is not None:
        yield name, argument.hint, field() if required else field(default=argument.default)
