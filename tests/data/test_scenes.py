from __future__ import annotations

import math
import random
import re
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize, pad

from oracles.chi_square import assert_follows
from seqsmooth.data import scenes as corpus
from seqsmooth.data.scenes import (
    BOS,
    EOS,
    PAD,
    UNK,
    Scene,
    describe,
    encode,
    make_scenes,
    possible_scenes,
    word_vectors,
)

SMALL = {"train": 40, "validation": 10, "test": 20}

# What a caption may say of whom and where, written out once more by hand: a word of the left set is a lie elsewhere.
TELLING = (
    ("who", {"dog"}, {"dog", "puppy", "hound"}),
    ("who", {"cat"}, {"cat", "kitten", "feline"}),
    ("who", {"horse"}, {"horse", "pony", "mare"}),
    ("who", {"man", "woman"}, {"person"}),
    ("who", {"boy", "girl"}, {"kid", "child", "youngster"}),
    ("who", {"man", "woman", "boy", "girl"}, {"shirt", "wearing", "book", "umbrella", "phone", "bike"}),
    ("doing", {"jump"}, {"jumping", "leaping", "hopping"}),
    ("colour", {"red"}, {"red", "scarlet", "crimson"}),
    ("colour", {"black"}, {"black", "dark"}),
    ("look", {"small"}, {"small", "little", "tiny"}),
    ("where", {"river"}, {"river", "water", "stream"}),
    ("where", {"room"}, {"couch", "sofa", "living"}),
)


def test_the_seed_decides_everything() -> None:
    first, again, other = make_scenes(3, **SMALL), make_scenes(3, **SMALL), make_scenes(4, **SMALL)
    for split in ("train", "validation", "test"):
        assert getattr(first, split).scenes == getattr(again, split).scenes
        assert torch.equal(getattr(first, split).captions, getattr(again, split).captions)
        assert torch.equal(getattr(first, split).features, getattr(again, split).features)
        assert getattr(first, split).scenes != getattr(other, split).scenes
    assert first.vocabulary == other.vocabulary


def test_the_global_generators_are_left_alone() -> None:
    random.seed(0)
    torch.manual_seed(0)
    before = random.getstate(), torch.get_rng_state()
    make_scenes(0, **SMALL)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_no_scene_is_in_two_splits_or_twice() -> None:
    scenes = make_scenes(0)
    everything = scenes.train.scenes + scenes.validation.scenes + scenes.test.scenes
    assert len(set(everything)) == len(everything) == 800
    assert (len(scenes.train), len(scenes.validation), len(scenes.test)) == (400, 200, 200)


def test_features_are_one_hot_for_each_attribute_and_tell_scenes_apart() -> None:
    possible = possible_scenes()
    features = torch.stack([encode(scene) for scene in possible])
    assert set(features.unique().tolist()) == {0.0, 1.0}
    assert features.sum(1).eq(5).all()
    assert len(features.unique(dim=0)) == len(possible)
    split = make_scenes(0, **SMALL).train
    assert torch.equal(split.features, torch.stack([encode(scene) for scene in split.scenes]))


def test_animals_neither_read_nor_ride() -> None:
    assert Scene("man", "read", "red", "small", "park") in possible_scenes()
    assert Scene("dog", "read", "red", "small", "park") not in possible_scenes()


def test_each_caption_is_words_then_one_eos_then_padding() -> None:
    scenes = make_scenes(0)
    for split in (scenes.train, scenes.validation, scenes.test):
        captions = split.captions
        assert captions.shape[:2] == (len(split), 5)
        assert captions.dtype == torch.int64
        assert captions.eq(EOS).sum(-1).eq(1).all()
        lengths = captions.eq(EOS).int().argmax(-1)
        places = torch.arange(captions.shape[-1])
        assert captions[places > lengths[..., None]].eq(PAD).all()
        words = captions[places < lengths[..., None]]
        assert words.gt(UNK).all()
        assert words.lt(len(scenes.vocabulary)).all()
        assert not captions.eq(BOS).any()


def test_ids_and_words_are_the_same_sentence() -> None:
    scenes = make_scenes(7, **SMALL)
    source = random.Random(7)
    drawn = source.sample(possible_scenes(), 70)
    told = [[describe(scene, source) for _ in range(5)] for scene in drawn]
    assert told[0] == [scenes.words(ids) for ids in scenes.train.captions[0].tolist()]
    assert told[-1] == [scenes.words(ids) for ids in scenes.test.captions[-1].tolist()]
    assert scenes.words([BOS, 4, EOS, 5]) == scenes.vocabulary[4]


def test_the_vocabulary_is_small_and_every_word_of_it_is_said() -> None:
    words = corpus.vocabulary()
    assert words[:4] == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert 80 <= len(words) <= 150
    assert len(set(words)) == len(words)
    source = random.Random(0)
    possible = possible_scenes()
    said = {word for _ in range(20_000) for word in describe(source.choice(possible), source).split()}
    assert said == set(words[4:])  # the rarest word has a chance of about 1 in 300 a caption


def test_captions_tell_the_truth() -> None:
    source = random.Random(1)
    for scene in source.sample(possible_scenes(), 2000):
        words = set(describe(scene, source).split())
        for attribute, values, telling in TELLING:
            assert getattr(scene, attribute) in values or not words & telling, (scene, words)


def test_an_animal_wears_its_colour_and_a_person_a_shirt() -> None:
    source = random.Random(0)
    dog, man = Scene("dog", "run", "brown", "none", "park"), Scene("man", "run", "brown", "none", "park")
    told = [describe(dog, source) for _ in range(200)]
    assert any(re.search(r"a (brown|tan) (dog|puppy|hound)", text) for text in told)
    assert not any("shirt" in text for text in told)
    told = [describe(man, source) for _ in range(200)]
    assert any(re.search(r"(in|wearing) a (brown|tan) shirt", text) for text in told)
    assert not any(re.search(r"(brown|tan) (man|guy|person|gentleman)", text) for text in told)


def test_synonyms_follow_their_law() -> None:
    source = random.Random(0)
    scene = Scene("man", "jump", "none", "none", "kitchen")
    told = [describe(scene, source).split() for _ in range(2000)]
    nouns = [word for words in told for word in words if word in {"man", "guy", "person", "gentleman"}]
    assert len(nouns) == 2000
    assert_follows(nouns, {"man": 0.60, "guy": 0.22, "person": 0.13, "gentleman": 0.05})
    said = ["kitchen" in words or "stove" in words for words in told]
    assert_follows(said, {True: 0.95, False: 0.05})


@pytest.mark.parametrize("name", ["train", "validation", "test"])
def test_a_split_needs_a_scene(name: str) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be 1 or more, but is 0 instead\."):
        make_scenes(0, **{**SMALL, name: 0})


def test_there_are_only_so_many_scenes() -> None:
    most = len(possible_scenes())
    with pytest.raises(ValueError, match=rf"must be at most {most}, but is {most + 1} instead\."):
        make_scenes(0, train=most - 1, validation=1, test=1)


def test_an_attribute_outside_the_grammar_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`colour` must be one of 'red', .*, but is 'mauve' instead\."):
        encode(Scene("man", "run", "mauve", "small", "park"))


def mutual_information(sentences: list[list[int]], size: int, window: int, missing: set[int]) -> np.ndarray:
    """Positive pointwise mutual information by counting pairs one after the other."""
    together = Counter[tuple[int, int]]()
    for words in sentences:
        for i, left in enumerate(words):
            for j in range(i + 1, min(i + window, len(words) - 1) + 1):
                if not {left, words[j]} & missing:
                    together[left, words[j]] += 1 / (j - i)
                    together[words[j], left] += 1 / (j - i)
    alone = Counter[int]()
    for (left, _), count in together.items():
        alone[left] += count
    total = sum(together.values())
    result = np.zeros((size, size))
    for (left, right), count in together.items():
        result[left, right] = max(0.0, math.log(count * total / (alone[left] * alone[right])))
    return result


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=5, max_size=5), min_size=1, max_size=4), st.integers(1, 6))
def test_vectors_are_those_of_the_mutual_information(sentences: list[list[int]], window: int) -> None:
    # With all dimensions kept, U S^(1/2) has the Gram matrix U S U' = (M M')^(1/2): M, its eigenvalues made positive.
    vectors = word_vectors(torch.tensor(sentences), 7, dim=7, window=window).double().numpy()
    information = mutual_information(sentences, 7, window, {PAD, BOS, UNK})
    values, axes = np.linalg.eigh(information)
    assert np.allclose(vectors @ vectors.T, (axes * np.abs(values)) @ axes.T, atol=1e-5)
    assert not vectors[[PAD, BOS, UNK]].any()
    assert np.allclose(vectors[~information.any(1)], 0, atol=1e-5)


def test_eos_has_a_vector_and_the_other_specials_have_none() -> None:
    scenes = make_scenes(0)
    vectors = word_vectors(scenes.train.captions, len(scenes.vocabulary))
    assert vectors.shape == (len(scenes.vocabulary), 32)
    assert vectors.dtype == torch.float32
    assert (vectors == 0).all(1).nonzero().flatten().tolist() == [PAD, BOS, UNK]


def test_neither_the_shape_nor_the_padding_matters_to_the_vectors() -> None:
    captions = make_scenes(0, **SMALL).train.captions
    size = len(corpus.vocabulary())
    expected = word_vectors(captions, size)
    assert torch.equal(word_vectors(captions.flatten(0, 1), size), expected)
    assert torch.equal(word_vectors(pad(captions, (0, 3), value=PAD), size), expected)


def test_dimensions_beyond_the_vocabulary_are_empty() -> None:
    vectors = word_vectors(torch.tensor([[4, 5, 6, 2]]), 7, dim=9)
    assert vectors.shape == (7, 9)
    assert not vectors[:, 7:].any()


def test_synonyms_are_nearer_than_strangers() -> None:
    scenes = make_scenes(0)
    index = {word: i for i, word in enumerate(scenes.vocabulary)}
    unit = normalize(word_vectors(scenes.train.captions, len(scenes.vocabulary)), dim=1)
    for word, synonym, stranger in (
        ("man", "guy", "couch"),
        ("dog", "puppy", "umbrella"),
        ("holding", "carrying", "a"),
    ):
        assert unit[index[word]] @ unit[index[synonym]] > 0.2 + unit[index[word]] @ unit[index[stranger]]


def test_vectors_say_what_is_wrong() -> None:
    captions = torch.tensor([[4, 5, 2]])
    with pytest.raises(ValueError, match=r"`captions` must be ids in \[0, 5\), but is 5 at its highest instead\."):
        word_vectors(captions, 5)
    with pytest.raises(ValueError, match=r"`dim` must be 1 or more, but is 0 instead\."):
        word_vectors(captions, 6, 0)
    with pytest.raises(ValueError, match=r"`window` must be 1 or more, but is 0 instead\."):
        word_vectors(captions, 6, window=0)
    with pytest.raises(ValueError, match="`captions` must be a tensor of whole numbers"):
        word_vectors(captions.float(), 6)
