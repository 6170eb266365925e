from __future__ import annotations

import io
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.data import open_corpus
from seqsmooth.data.scenes import Scene, SceneGroup, Scenes, make_scenes, png
from seqsmooth.data.scenes.annotators import CAPTIONS, PEOPLE, Annotator, annotate, describe, vocabulary
from seqsmooth.data.scenes.corpus import draw_again
from seqsmooth.data.scenes.drawing import PAINT, SIDE, draw, place
from seqsmooth.data.scenes.preparing import draw_pictures, prepare_scenes, train_vectors
from seqsmooth.data.scenes.seeing import Encoder, components, see
from seqsmooth.data.scenes.shapes import THINGS, box, disc, polygon
from seqsmooth.data.scenes.world import COLOURS, KINDS, SETTINGS, SIZES, SKY, WATER, draw_index, invent

SMALL = {"train": 24, "val": 6, "test": 8}

# What a word says, written out once more by hand: it is a lie where the scene does not hold that.
TELLING = {
    "house": {"house", "houses", "home", "homes", "cottage", "cabin", "cottages", "cabins"},
    "car": {"car", "cars", "vehicle", "vehicles", "automobile", "automobiles", "auto", "autos"},
    "cat": {"cat", "cats", "kitten", "kittens", "kitty", "kitties", "feline", "felines"},
    "boat": {"boat", "boats", "sailboat", "sailboats", "ship", "ships", "yacht", "yachts"},
    "rocket": {"rocket", "rockets", "spaceship", "spaceships", "spacecraft"},
    "red": {"red", "scarlet", "crimson"},
    "purple": {"purple", "violet"},
    "blue": {"blue", "navy"},
    "small": {"small", "little", "tiny"},
    "large": {"large", "big", "huge"},
    "snow": {"snow", "snowy", "winter"},
    "desert": {"desert", "dunes", "plain"},
    "night": {"night", "moon"},
}


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return make_scenes(3, **SMALL)


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_captions_tell_the_truth(seed: int) -> None:
    scene = invent(random(seed))
    groups = [group for group in (scene.first, scene.second) if group is not None]
    held = {scene.setting} | {value for group in groups for value in (group.kind, group.colour, group.size)}
    captions = annotate(scene, random(seed))
    assert len(captions) == CAPTIONS
    for caption in captions:
        words = set(caption.split())
        assert words <= vocabulary()
        for what, telling in TELLING.items():
            assert what in held or not words & telling, (what, caption, scene)
        numbers = {"two": 2, "three": 3, "four": 4}
        assert all(numbers[word] in {group.count for group in groups} for word in words & numbers.keys()), caption


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_sides_and_heights_are_as_said(seed: int) -> None:
    scene = invent(random(seed))
    horizon = 32.0
    things = place(scene, horizon, random(seed))
    assert len(things) == sum(group.count for group in (scene.first, scene.second) if group is not None)
    if scene.second is None:
        assert scene.relation is None
        return
    ours = [thing for thing in things if thing.kind == scene.first.kind]
    theirs = [thing for thing in things if thing.kind == scene.second.kind]
    axis, first, second = {
        "left": ("x", ours, theirs),
        "right": ("x", theirs, ours),
        "above": ("y", ours, theirs),
        "below": ("y", theirs, ours),
    }[str(scene.relation)]
    middles = [np.mean([getattr(thing, axis) for thing in several]) for several in (first, second)]
    assert middles[0] < middles[1]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_scene_is_one_of_the_world(seed: int) -> None:
    scene = invent(random(seed))
    assert scene.setting in SETTINGS
    for group in (scene.first, scene.second):
        if group is not None:
            assert group.kind in KINDS
            assert group.colour in COLOURS
            assert group.size in SIZES
            assert 1 <= group.count <= 4
            assert (group.kind in WATER) <= (scene.setting == "sea")
            assert group.kind in (*SKY, *WATER) or scene.setting != "sea"


def test_draws_follow_their_weights() -> None:
    generator, weights = random(0), (1, 3, 6)
    for sharpness in (1.0, 2.0):
        counts = Counter(draw_index(generator, weights, sharpness) for _ in range(4000))
        powers = np.array(weights) ** sharpness
        expected = 4000 * powers / powers.sum()
        seen = np.array([counts[n] for n in range(3)])
        assert ((seen - expected) ** 2 / expected).sum() < 13.8  # chi-square, 2 degrees of freedom, 1 in 1000


def test_habits_show() -> None:
    scene = Scene("meadow", SceneGroup("house", "red", "large", 1))
    silent = Annotator(colour=0.0, size=0.0, where=0.0, second=1.0, doing=0.0, plain=1.0)
    chatty = Annotator(colour=1.0, size=1.0, where=1.0, second=1.0, doing=0.0, plain=1.0)
    told = [" ".join(describe(scene, who, random(n)) for n in range(30)).split() for who in (silent, chatty)]
    for words in (TELLING["red"], TELLING["large"]):
        assert not words & set(told[0])
        assert len([word for word in told[1] if word in words]) == 30
    rare = [sum(word in ("home", "cottage", "cabin") for word in words) for words in told]
    assert all(0 < count < 25 for count in rare), "the common word is the most frequent, and not the only one"


def test_an_article_fits_what_follows() -> None:
    for seed in range(300):
        words = describe(invent(random(seed)), PEOPLE[4], random(seed)).split()
        for one, following in pairwise(words):
            assert one not in ("a", "an") or (one == "an") == (following[0] in "aeiou"), words


@pytest.mark.parametrize(
    ("inside", "point", "outside"),
    [
        (disc(0.0, 0.0, 0.5, 0.25), (0.4, 0.0), (0.0, 0.4)),
        (box(-1.0, 0.0, 0.0, 1.0), (-0.5, 0.5), (0.5, 0.5)),
        (polygon((0.0, -1.0), (1.0, 1.0), (-1.0, 1.0)), (0.0, 0.5), (0.9, -0.5)),
    ],
)
def test_shapes(inside: object, point: tuple[float, float], outside: tuple[float, float]) -> None:
    assert callable(inside)
    for (x, y), held in ((point, True), (outside, False)):
        assert bool(inside(np.array([x]), np.array([y]))[0]) is held


@pytest.mark.parametrize("kind", KINDS)
def test_every_thing_shows_its_colour(kind: str) -> None:
    assert kind in THINGS
    found = []
    for colour in ("red", "blue"):
        picture = draw(Scene("sea" if kind in WATER else "snow", SceneGroup(kind, colour, "large", 1)), random(1)) / 255
        near = np.linalg.norm(picture - np.array(PAINT[colour]), axis=-1) < 0.2
        found.append(int(near.sum()))
    assert min(found) > 20


def test_pictures_come_from_the_seed_alone(scenes: Scenes) -> None:
    again = make_scenes(3, **SMALL)
    for name, split in scenes.splits.items():
        assert (split.pictures == again.splits[name].pictures).all()
        assert split.captions == again.splits[name].captions
        assert torch.equal(split.features, again.splits[name].features)
    other = make_scenes(4, **SMALL)
    assert other.splits["test"].captions != scenes.splits["test"].captions
    redrawn = draw_again(3, [25, 30])
    together = np.concatenate([split.pictures for split in scenes.splits.values()])
    assert (redrawn[25] == together[25]).all()
    assert (redrawn[30] == together[30]).all()


def test_splits_share_no_scene(scenes: Scenes) -> None:
    everything = [scene for split in scenes.splits.values() for scene in split.scenes]
    assert len(set(everything)) == len(everything) == sum(SMALL.values())
    assert {name: len(split) for name, split in scenes.splits.items()} == SMALL
    assert scenes.splits["val"].pictures.shape == (6, SIDE, SIDE, 3)


def test_test_pictures_do_not_change_what_is_seen_of_training(scenes: Scenes) -> None:
    pictures = np.concatenate([split.pictures for split in scenes.splits.values()])
    dark = pictures.copy()
    dark[24:] = 0
    assert torch.allclose(see(pictures, 24)[:24], see(dark, 24)[:24], atol=1e-5)
    assert not torch.allclose(see(pictures, 24)[24:], see(dark, 24)[24:], atol=1e-2)


def test_components_are_uncorrelated_and_ordered() -> None:
    torch.manual_seed(0)
    raw = torch.randn(200, 6) @ torch.randn(6, 9) + 5
    found = components(raw, 150, 4)
    assert found.shape == (200, 4)
    covariance = found[:150].T @ found[:150] / 150
    assert torch.allclose(covariance, torch.diag(covariance.diag()), atol=1e-4)
    spreads = covariance.diag()
    assert (spreads[:-1] >= spreads[1:]).all()
    # Divided by the root of the standard deviation, against the singular values of numpy.
    standard = ((raw - raw[:150].mean(0)) / raw[:150].std(0, unbiased=False)).numpy()
    singular = np.linalg.svd(standard[:150], compute_uv=False)[:4]
    assert np.allclose((spreads / spreads[0]).numpy(), singular / singular[0], atol=1e-3)


def test_likeness_is_greatest_for_the_picture_a_template_is_from(scenes: Scenes) -> None:
    pictures = scenes.splits["train"].pictures
    one = Encoder.fit(pictures[:1])
    found = one(pictures)["both"][:, :96]  # the greatest likeness over the whole picture
    assert (found[0] >= found.amax(0) - 1e-4).float().mean() > 0.9


def test_a_png_is_read_by_others(scenes: Scenes) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = scenes.splits["test"].pictures[0]
    assert (np.asarray(image.open(io.BytesIO(png(picture)))) == picture).all()
    assert image.open(io.BytesIO(png(picture, 3))).size == (3 * SIDE, 3 * SIDE)


def test_a_prepared_corpus_is_made_once(tmp_path: object) -> None:
    folder = tmp_path / "data" / "demo"  # type: ignore[operator]
    seen: list[tuple[int, int]] = []
    corpus = prepare_scenes(folder, 3, progress=lambda done, of: seen.append((done, of)), **SMALL)
    assert seen[-1] == (38, 38)
    assert dict(corpus.splits) == SMALL
    told = make_scenes(3, **SMALL).splits["val"].captions[2]
    assert [" ".join(words) for words in corpus.references("val")[2]] == list(told)
    (features,) = corpus.inputs("val", [2])
    assert torch.allclose(features[0], make_scenes(3, **SMALL).splits["val"].features[2], atol=1e-6)
    again = prepare_scenes(folder, 3, progress=lambda done, of: pytest.fail("drawn twice"), **SMALL)
    assert again.fingerprint == corpus.fingerprint == open_corpus(folder).fingerprint
    with pytest.raises(ValueError, match="the scenes of seed 4"):
        prepare_scenes(folder, 4, **SMALL)
    vectors = train_vectors(corpus)
    assert "a" in vectors.words
    assert train_vectors(corpus).words == vectors.words
    draw_pictures(folder.parent / "pictures", corpus, "test")
    assert sorted(path.name for path in (folder.parent / "pictures").iterdir()) == [f"{n}.png" for n in range(30, 38)]


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [({"train": 0}, "`train` must be 1 or more; it is 0."), ({"seed": -1}, "`seed` must be 0 or more")],
)
def test_a_wrong_size_is_one_sentence(sizes: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_scenes(**sizes)
