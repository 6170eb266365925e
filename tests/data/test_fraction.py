"""A part of the items, for learning curves."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from data.corpora import caption_corpus, pair_corpus
from seqsmooth.data import Corpus

PAD = 0


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return caption_corpus(tmp_path_factory.mktemp("captions") / "corpus")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return pair_corpus(tmp_path_factory.mktemp("pairs") / "corpus")


def items_of(corpus: Corpus, fraction: float, seed: int = 3, **settings: Any) -> Counter[int]:
    """The items of an epoch, and how often each comes."""
    batches = corpus.batches("train", 4, fraction=fraction, seed=seed, **settings)
    found: Counter[int] = Counter()
    for batch in batches:
        found.update(batch.items[(batch.targets != PAD).any(1)].tolist())
    return found


@pytest.mark.parametrize("task", ["images", "pairs"])
def test_a_fraction_is_of_items_and_the_larger_holds_the_smaller(task: str, request: pytest.FixtureRequest) -> None:
    corpus = request.getfixturevalue(task)
    whole = items_of(corpus, 1.0)
    assert len(whole) == corpus.splits["train"]
    parts = [items_of(corpus, fraction) for fraction in (0.1, 0.3, 0.6)]
    assert [len(part) for part in parts] == [round(fraction * len(whole)) for fraction in (0.1, 0.3, 0.6)]
    for small, large in itertools.pairwise([*parts, whole]):
        assert small.items() <= large.items()  # each with as many of its targets
    assert items_of(corpus, 0.3, max_words=4, references=0) == parts[1]  # whatever else a loss asks for
    assert items_of(corpus, 0.3, resident=True) == parts[1]
    assert items_of(corpus, 0.3, seed=4) != parts[1]


def test_a_fraction_of_images_with_several_captions_is_the_same(images: Corpus) -> None:
    grouped = items_of(images, 0.4, captions_per_image=2)
    assert set(grouped) == set(items_of(images, 0.4))
    assert set(grouped.values()) == {2}
    one, other = images.batches("train", 4, fraction=0.4), images.batches("train", 4, fraction=0.41)
    with pytest.raises(ValueError, match=r"state\['(fraction|batches)'\]"):
        other.load_state_dict(one.state_dict())


@pytest.mark.parametrize(
    ("fraction", "told"), [(0.0, "greater than 0"), (1.5, "between 0 and 1"), (-0.1, "between 0 and 1")]
)
def test_a_fraction_that_is_none_is_refused(images: Corpus, fraction: float, told: str) -> None:
    with pytest.raises(ValueError, match=f"`fraction` must be {told}"):
        images.batches("train", 4, fraction=fraction)
