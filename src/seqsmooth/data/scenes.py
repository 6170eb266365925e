"""A toy captioning corpus, made on the fly from a small grammar: nothing to download, seconds to learn.

A scene is a combination of attributes (who, doing what, the colour, the look, where). The model sees it as a
one-hot vector; five reference captions say it in words. They differ the way human captions differ: near-synonyms with
skewed frequencies ("man" often, "gentleman" seldom), attributes that may go unsaid, several sentence patterns. So
there is something for a smoothed loss to use: words that can replace each other, rare words, several right answers.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from seqsmooth.ops import checks

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL_WORDS = ("<pad>", "<bos>", "<eos>", "<unk>")
REFERENCES = 5

Wordings = Mapping[str, Sequence[tuple[str, float]]]

_WHO: Wordings = {
    "man": (("man", 60), ("guy", 22), ("person", 13), ("gentleman", 5)),
    "woman": (("woman", 60), ("lady", 27), ("person", 13)),
    "boy": (("boy", 60), ("kid", 20), ("child", 15), ("youngster", 5)),
    "girl": (("girl", 60), ("kid", 18), ("child", 17), ("youngster", 5)),
    "dog": (("dog", 70), ("puppy", 22), ("hound", 8)),
    "cat": (("cat", 72), ("kitten", 22), ("feline", 6)),
    "horse": (("horse", 75), ("pony", 19), ("mare", 6)),
}
_PEOPLE = ("man", "woman", "boy", "girl")

_DOING: Wordings = {
    "run": (("running", 60), ("racing", 20), ("dashing", 12), ("sprinting", 8)),
    "jump": (("jumping", 65), ("leaping", 25), ("hopping", 10)),
    "sit": (("sitting", 65), ("resting", 20), ("seated", 15)),
    "sleep": (("sleeping", 60), ("napping", 20), ("lying down", 14), ("dozing", 6)),
    "eat": (("eating food", 50), ("eating a meal", 22), ("having a snack", 20), ("munching on food", 8)),
    "play": (("playing with a ball", 60), ("chasing a ball", 25), ("having fun with a ball", 15)),
    "ride": (("riding a bike", 50), ("riding a bicycle", 28), ("cycling", 15), ("pedaling a bike", 7)),
    "read": (("reading a book", 62), ("looking at a book", 20), ("reading a novel", 12), ("studying a book", 6)),
    "call": (("talking on a phone", 55), ("chatting on a phone", 20), ("speaking on a cellphone", 25)),
    "shelter": (("holding an umbrella", 60), ("carrying an umbrella", 30), ("holding a parasol", 10)),
}
_FOR_PEOPLE_ONLY = ("ride", "read", "call", "shelter")

_COLOUR: Wordings = {
    "red": (("red", 85), ("scarlet", 9), ("crimson", 6)),
    "blue": (("blue", 85), ("navy", 15)),
    "black": (("black", 80), ("dark", 20)),
    "white": (("white", 82), ("pale", 18)),
    "brown": (("brown", 75), ("tan", 25)),
    "none": (("", 1),),
}
_CLOTHES = (("in a {} shirt", 60), ("wearing a {} shirt", 25), ("in {}", 15))

_LOOK: Wordings = {
    "small": (("small", 50), ("little", 36), ("tiny", 14)),
    "large": (("large", 45), ("big", 43), ("huge", 12)),
    "none": (("", 1),),
}

_WHERE: Wordings = {
    "beach": (("on the beach", 55), ("at the beach", 25), ("on the sand", 12), ("by the sea", 8)),
    "park": (("in the park", 50), ("in a park", 25), ("on the grass", 17), ("on the lawn", 8)),
    "street": (("on the street", 48), ("on a road", 28), ("in the city", 15), ("on the sidewalk", 9)),
    "kitchen": (("in the kitchen", 62), ("in a kitchen", 30), ("near the stove", 8)),
    "snow": (("in the snow", 70), ("on a snowy hill", 18), ("on the ice", 12)),
    "yard": (("in the yard", 50), ("in the garden", 32), ("in a backyard", 18)),
    "river": (("by the river", 55), ("near the water", 30), ("next to a stream", 15)),
    "room": (("on the couch", 50), ("on a sofa", 30), ("in the living room", 20)),
}

# {thing} is "a small brown dog", {doing} "running", {where} "in the park".
_SENTENCES = (
    ("{thing} {doing} {where}", 55),
    ("{thing} is {doing} {where}", 25),
    ("there is {thing} {doing} {where}", 12),
    ("{where} {thing} is {doing}", 8),
)

_SAID = {"colour": 0.75, "look": 0.6, "where": 0.95}


@dataclass(frozen=True)
class Scene:
    """What there is to say: one value for each attribute, "none" where there is nothing."""

    who: str
    doing: str
    colour: str
    look: str
    where: str


_ATTRIBUTES: Mapping[str, Wordings] = {
    "who": _WHO,
    "doing": _DOING,
    "colour": _COLOUR,
    "look": _LOOK,
    "where": _WHERE,
}


@dataclass(frozen=True)
class Split:
    """The scenes of one split, as attributes and as tensors."""

    scenes: tuple[Scene, ...]
    features: Tensor  # (N, F) float, one-hot for each attribute
    captions: Tensor  # (N, 5, T) int64, each caption ends in EOS and is padded with PAD

    def __len__(self) -> int:
        """The number of scenes."""
        return len(self.scenes)


@dataclass(frozen=True)
class Scenes:
    """The corpus: a vocabulary and three splits that share no scene."""

    vocabulary: tuple[str, ...]
    train: Split
    validation: Split
    test: Split

    def words(self, ids: Sequence[int]) -> str:
        """Turn ids into a sentence, up to EOS and without the other specials."""
        kept = itertools.takewhile(lambda index: index != EOS, ids)
        return " ".join(self.vocabulary[index] for index in kept if index not in (PAD, BOS))


def make_scenes(seed: int = 0, train: int = 400, validation: int = 200, test: int = 200) -> Scenes:
    """Make the corpus.

    Args:
        seed: Everything follows from it: the scenes, the split, the wording of the captions.
        train: The number of training scenes.
        validation: The number of validation scenes.
        test: The number of test scenes. No combination of attributes is in two splits.

    Returns:
        The corpus. Its vocabulary is that of the grammar, whatever the seed.
    """
    sizes = {"train": train, "validation": validation, "test": test}
    for name, size in sizes.items():
        checks.at_least(name, size, 1)
    possible = possible_scenes()
    wanted = sum(sizes.values())
    checks.must(wanted <= len(possible), "train + validation + test", f"at most {len(possible)}", wanted)

    source = random.Random(seed)
    drawn = source.sample(possible, wanted)
    sentences = [tuple(describe(scene, source) for _ in range(REFERENCES)) for scene in drawn]
    words = vocabulary()
    index = {word: i for i, word in enumerate(words)}
    length = 1 + max(len(sentence.split()) for five in sentences for sentence in five)
    captions = torch.full((wanted, REFERENCES, length), PAD)
    for n, five in enumerate(sentences):
        for r, sentence in enumerate(five):
            ids = [index[word] for word in sentence.split()] + [EOS]
            captions[n, r, : len(ids)] = torch.tensor(ids)
    features = torch.stack([encode(scene) for scene in drawn])

    splits = {}
    start = 0
    for name, size in sizes.items():
        part = slice(start, start + size)
        splits[name] = Split(tuple(drawn[part]), features[part], captions[part])
        start += size
    return Scenes(words, **splits)


def possible_scenes() -> list[Scene]:
    """List every scene the grammar allows: animals neither read nor ride."""
    everything = (Scene(*values) for values in itertools.product(*_ATTRIBUTES.values()))
    return [scene for scene in everything if scene.who in _PEOPLE or scene.doing not in _FOR_PEOPLE_ONLY]


def encode(scene: Scene) -> Tensor:
    """Turn a scene into its features: one one-hot block for each attribute, (F,)."""
    blocks = []
    for field in fields(scene):
        values = list(_ATTRIBUTES[field.name])
        value = getattr(scene, field.name)
        checks.one_of(field.name, value, values)
        blocks.append(torch.tensor([float(value == other) for other in values]))
    return torch.cat(blocks)


def describe(scene: Scene, source: random.Random) -> str:
    """Say a scene in words, drawing the sentence pattern, the synonyms and what goes unsaid from `source`."""

    def say(attribute: str) -> str:
        if source.random() >= _SAID.get(attribute, 1.0):
            return ""
        return _draw(_ATTRIBUTES[attribute][getattr(scene, attribute)], source)

    colour = say("colour")
    is_person = scene.who in _PEOPLE
    before = "" if is_person else colour
    after = _draw(_CLOTHES, source).format(colour) if is_person and colour else ""
    noun = " ".join(part for part in (say("look"), before, say("who"), after) if part)
    sentence = _draw(_SENTENCES, source).format(thing=f"a {noun}", doing=say("doing"), where=say("where"))
    return " ".join(sentence.split())


def vocabulary() -> tuple[str, ...]:
    """List the specials, then every word the grammar can say in alphabetical order."""
    wordings = [wording for values in _ATTRIBUTES.values() for choices in values.values() for wording, _ in choices]
    frames = [frame.format("") for frame, _ in _CLOTHES]
    patterns = [pattern.format(thing="a", doing="", where="") for pattern, _ in _SENTENCES]
    return SPECIAL_WORDS + tuple(sorted({word for text in wordings + frames + patterns for word in text.split()}))


def word_vectors(
    captions: Tensor,  # (..., T) ids, padded with PAD
    vocab_size: int,
    dim: int = 32,
    *,
    window: int = 4,
    missing: Sequence[int] = (PAD, BOS, UNK),
) -> Tensor:
    """Make word vectors from co-occurrence: positive pointwise mutual information, cut to `dim` by an SVD.

    A small stand-in for GloVe. As there, a pair of words d places apart counts 1/d. EOS is a word like any other and
    gets a vector of its own: a sharp EOS beside smoothed words would shorten what a model writes.

    Args:
        captions: The sentences to count in.
        vocab_size: V, the number of rows of the result.
        dim: The size of a vector.
        window: Words at most this far apart are counted together.
        missing: Ids that get no vector.

    Returns:
        (V, dim) float32. Zero are the rows of `missing` and of words that occur with no word more often than by chance.
    """
    checks.integers("captions", captions)
    checks.at_least("dim", dim, 1)
    checks.at_least("window", window, 1)
    checks.ids_below("captions", captions, vocab_size)
    rows = captions.reshape(-1, captions.shape[-1]).numpy(force=True)
    counts = np.zeros((vocab_size, vocab_size))
    for distance in range(1, min(window, rows.shape[1] - 1) + 1):
        np.add.at(counts, (rows[:, :-distance], rows[:, distance:]), 1.0 / distance)
    counts += counts.T
    counts[list(missing)] = 0.0
    counts[:, list(missing)] = 0.0

    each = counts.sum(1)
    expected = np.outer(each, each) / (each.sum() or 1.0)
    ratio = np.divide(counts, expected, out=np.ones_like(counts), where=counts > 0)
    information = np.log(np.maximum(ratio, 1.0))
    left, values, _ = np.linalg.svd(information)
    kept = min(dim, vocab_size)
    vectors = np.zeros((vocab_size, dim), dtype=np.float32)
    vectors[:, :kept] = left[:, :kept] * np.sqrt(values[:kept])
    vectors[~(information > 0).any(1)] = 0.0
    return torch.from_numpy(vectors)


def _draw(choices: Sequence[tuple[str, float]], source: random.Random) -> str:
    words, weights = zip(*choices, strict=True)
    return str(source.choices(words, weights)[0])
