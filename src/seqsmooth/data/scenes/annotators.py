"""Five captions a picture, each by somebody with habits: what to mention, which words to like, how to begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seqsmooth.data.scenes import wording
from seqsmooth.data.scenes.wording import Wordings
from seqsmooth.data.scenes.world import SKY, Scene, SceneGroup, draw_index

CAPTIONS = 5
VOWELS = "aeiou"


@dataclass(frozen=True)
class Annotator:
    """Somebody who describes pictures.

    Attributes:
        colour: how often colours are mentioned.
        size: how often sizes are.
        where: how often the setting is.
        second: how often the second group is.
        doing: how often "in the sky" is said of what flies.
        plain: how much common words are preferred to rare ones; 1 as everybody on average.
    """

    colour: float
    size: float
    where: float
    second: float
    doing: float
    plain: float


# Some see colours, some places; one says next to nothing, one likes rare words.
PEOPLE = (
    Annotator(colour=0.97, size=0.50, where=0.75, second=0.97, doing=0.5, plain=1.0),
    Annotator(colour=0.90, size=0.80, where=0.55, second=0.95, doing=0.3, plain=1.2),
    Annotator(colour=0.35, size=0.40, where=0.95, second=0.92, doing=0.6, plain=1.0),
    Annotator(colour=0.85, size=0.15, where=0.40, second=0.85, doing=0.2, plain=1.5),
    Annotator(colour=0.95, size=0.60, where=0.90, second=1.00, doing=0.7, plain=0.7),
    Annotator(colour=0.20, size=0.10, where=0.80, second=0.60, doing=0.3, plain=1.2),
    Annotator(colour=0.92, size=0.70, where=0.85, second=0.98, doing=0.4, plain=0.5),
    Annotator(colour=0.75, size=0.30, where=0.70, second=0.90, doing=0.5, plain=1.0),
)


def annotate(scene: Scene, random: np.random.Generator) -> list[str]:
    """Five captions, by five people."""
    chosen = random.choice(len(PEOPLE), CAPTIONS, replace=False)
    return [describe(scene, PEOPLE[who], random) for who in chosen]


def describe(scene: Scene, who: Annotator, random: np.random.Generator) -> str:
    """Describe a scene as one annotator does: words in lower case, with blanks between them."""
    two = scene.second is not None and random.random() < who.second
    pattern = _say(wording.OF_TWO if two else wording.OF_ONE, who, random)
    first, second, relation = scene.first, scene.second, scene.relation
    # What is beside something may as well be what is looked at first.
    if two and second is not None and relation in ("left", "right") and random.random() < 0.25:
        first, second, relation = second, first, wording.OPPOSITES[relation]
    parts = {
        "first": _group(first, who, random),
        "doing": _say(wording.DOING[first.kind], who, random),
        "be": "is" if first.count == 1 else "are",
        "where": _where(scene, first, who, random, two=two),
    }
    if two and second is not None and relation is not None:
        parts["second"] = _group(second, who, random)
        parts["relation"] = _say(wording.RELATIONS[relation], who, random)
        parts["it"] = "it" if second.count == 1 else "them"
    return " ".join(pattern.format(**parts).split())


def vocabulary() -> set[str]:
    """Every word that can be said."""
    tables: list[Wordings] = [*wording.DOING.values(), *wording.COLOURS.values(), *wording.SIZES.values()]
    tables += [*wording.COUNTS.values(), *wording.RELATIONS.values(), *wording.SETTINGS.values()]
    tables += [wording.ALOFT, wording.OF_ONE, wording.OF_TWO]
    texts = [words for table in tables for words, _ in table]
    texts += [name for names in wording.THINGS.values() for one, many, _ in names for name in (one, many)]
    words = {word for text in texts for word in text.split() if not word.startswith("{")}
    return words | {"a", "an", "is", "are", "it", "them"}


def _group(group: SceneGroup, who: Annotator, random: np.random.Generator) -> str:
    """A noun with what goes before it, as in "a small red house" or "two cars"."""
    names = wording.THINGS[group.kind]
    one, many, _ = names[draw_index(random, tuple(weight for _, _, weight in names), who.plain)]
    size = _say(wording.SIZES[group.size], who, random) if random.random() < who.size else ""
    colour = _say(wording.COLOURS[group.colour], who, random) if random.random() < who.colour else ""
    noun = " ".join(word for word in (size, colour, one if group.count == 1 else many) if word)
    if group.count == 1:
        return f"{'an' if noun[0] in VOWELS else 'a'} {noun}"
    return f"{_say(wording.COUNTS[group.count], who, random)} {noun}"


def _where(scene: Scene, first: SceneGroup, who: Annotator, random: np.random.Generator, *, two: bool) -> str:
    if random.random() >= who.where:
        return ""
    if not two and first.kind in SKY and random.random() < who.doing:
        return _say(wording.ALOFT, who, random)
    return _say(wording.SETTINGS[scene.setting], who, random)


def _say(table: Wordings, who: Annotator, random: np.random.Generator) -> str:
    return table[draw_index(random, tuple(weight for _, weight in table), who.plain)][0] if table else ""
