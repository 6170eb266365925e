from __future__ import annotations

import itertools
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import seqsmooth as ss
from data.corpora import caption_corpus, pair_corpus
from seqsmooth.data import Batch, Corpus, FeatureStore, Side, write_captions
from seqsmooth.data.buckets import make_buckets
from seqsmooth.data.sources import Resident
from seqsmooth.models import RNNsearch, ShowTell
from seqsmooth.training import TrainingStep, adam

EOS, PAD = 2, 0


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return caption_corpus(tmp_path_factory.mktemp("captions") / "corpus")


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return caption_corpus(tmp_path_factory.mktemp("regions") / "corpus", varying=True)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return pair_corpus(tmp_path_factory.mktemp("pairs") / "corpus")


def by_hand(corpus: Corpus, words: list[str], width: int, longest: int | None) -> list[int]:
    """A row of targets, written down plainly."""
    ids = [corpus.vocabulary.id(word) for word in words[:longest]] + [EOS]
    return ids + [PAD] * (width - len(ids))


def same(one: Batch, other: Batch) -> bool:
    ours, theirs = one.tensors(), other.tensors()
    return ours.keys() == theirs.keys() and all(
        torch.equal(value, theirs[name]) and value.dtype == theirs[name].dtype for name, value in ours.items()
    )


@pytest.mark.parametrize("longest", [None, 7])
def test_every_caption_comes_once_an_epoch_with_its_image_and_references(images: Corpus, longest: int | None) -> None:
    texts = images.references("train")
    store, ids = images.features, images.ids("train")
    assert store is not None
    seen: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for batch in images.batches("train", 16, max_words=longest, references=3):
        assert batch.references is not None
        assert batch.items is not None
        width = batch.targets.shape[1]
        for row, item in enumerate(batch.items.tolist()):
            target = batch.targets[row].tolist()
            if item < 0:
                assert not any(target)
                assert not batch.references[row].any()
                continue
            rows = [by_hand(images, words, width, longest) for words in texts[item]]
            assert target in rows
            seen[item, tuple(token for token in target if token)] += 1
            features = store.read(store.rows([ids[item]]))[0][0].astype(np.float32)
            assert np.array_equal(batch.inputs[0][row].numpy(), features)
            given_rows = [reference.tolist() for reference in batch.references[row]]
            assert [token for token in given_rows[0] if token] == [token for token in target if token]
            known = Counter(tuple(by_hand(images, words, batch.references.shape[2], longest)) for words in texts[item])
            several = Counter(tuple(reference) for reference in given_rows if any(reference))
            assert several.total() == min(3, len(texts[item]))
            assert several <= known
        assert int(batch.tokens) == int((batch.targets != PAD).sum())  # type: ignore[arg-type]
    expected: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for item, several_texts in enumerate(texts):
        for words in several_texts:
            expected[item, tuple(by_hand(images, words, 0, longest))] += 1
    assert seen == expected


def test_translation_pairs_stay_together(pairs: Corpus) -> None:
    assert pairs.source_vocabulary is not None
    sources = [text.split(" ") for text in pairs.texts("train", "sources")]
    targets = pairs.references("train")
    seen = []
    for batch in pairs.batches("train", 16):
        assert batch.items is not None
        assert torch.equal(batch.references[:, 0], batch.targets)  # type: ignore[index]
        for row, item in enumerate(batch.items.tolist()):
            if item >= 0:
                seen.append(item)
                ids = [token for token in batch.inputs[0][row].tolist() if token]
                assert ids == [*map(pairs.source_vocabulary.id, sources[item]), EOS]
                assert batch.targets[row].tolist() == by_hand(pairs, targets[item][0], batch.targets.shape[1], None)
    assert sorted(seen) == list(range(len(sources)))


@pytest.mark.parametrize("which", ["images", "regions", "pairs"])
@pytest.mark.parametrize("settings", [{}, {"captions_per_image": 3}, {"max_words": 5, "references": 0}])
def test_on_the_device_as_on_the_host(which: str, settings: dict[str, int], request: pytest.FixtureRequest) -> None:
    corpus: Corpus = request.getfixturevalue(which)
    host = corpus.batches("train", 12, seed=3, **settings)
    device = corpus.batches("train", 12, seed=3, resident=True, **settings)
    assert isinstance(device._source, Resident)
    for _ in range(2):
        for one, other in itertools.zip_longest(host, device):
            assert same(one, other)


def test_features_of_bytes_become_floats(tmp_path: Path) -> None:
    store = FeatureStore([1, 2], np.array([[1, 2], [3, 255]], dtype=np.uint8))
    corpus = write_captions(tmp_path / "c", {"train": [(1, ["a"]), (2, ["b"])]}, store, side=Side(min_count=1))
    for resident in (False, True):
        (batch,) = corpus.batches("train", 2, shuffle=False, resident=resident)
        assert batch.inputs[0].dtype == torch.float32
        assert batch.inputs[0].tolist() == [[1, 2], [3, 255]]


@pytest.mark.parametrize("which", ["images", "regions", "pairs"])
def test_shapes_are_those_announced(which: str, request: pytest.FixtureRequest) -> None:
    corpus: Corpus = request.getfixturevalue(which)
    batches = corpus.batches("train", 12, buckets=3)
    assert len(batches.shapes()) <= 3
    found = {(tuple(tuple(value.shape) for value in batch.inputs), batch.targets.shape[1]) for batch in batches}
    assert found == set(batches.shapes())
    assert len(list(batches)) == len(batches)


def test_several_captions_of_an_image_are_different_and_side_by_side(images: Corpus) -> None:
    split = images.split("train")
    counts = np.diff(split.firsts)
    seen: list[int] = []
    for batch in images.batches("train", 12, captions_per_image=4):
        assert batch.items is not None
        for group in range(3):
            (item,) = set(batch.items[4 * group : 4 * group + 4].tolist())
            if item >= 0:
                seen.append(item)
                rows = [tuple(row) for row in batch.targets[4 * group : 4 * group + 4].tolist()]
                assert len(set(rows)) == min(4, counts[item])
    assert sorted(seen) == list(range(len(split)))


def test_an_epoch_follows_from_the_seed_and_its_number(images: Corpus) -> None:
    first, again, other = (images.batches("train", 16, seed=seed) for seed in (1, 1, 2))
    epochs = [[batch.items for batch in first] for _ in range(2)]
    again.set_epoch(1)
    second = [batch.items for batch in again]
    assert all(map(torch.equal, epochs[1], second))
    assert not all(map(torch.equal, epochs[0], second))
    assert not all(map(torch.equal, epochs[0], [batch.items for batch in other]))
    still = images.batches("train", 16, shuffle=False)
    assert all(map(torch.equal, [batch.items for batch in still], [batch.items for batch in still]))


@pytest.mark.parametrize("resident", [False, True])
@given(stop=st.integers(0, 25))
def test_it_resumes_in_the_middle_of_an_epoch(images: Corpus, resident: bool, stop: int) -> None:
    def make():  # type: ignore[no-untyped-def]
        return images.batches("train", 16, seed=5, resident=resident)

    endless = make()
    whole = [batch for _ in range(2) for batch in endless]
    interrupted = make()
    both = (batch for _ in range(2) for batch in interrupted)
    stop = min(stop, len(whole) - 1)
    for _ in range(stop):
        next(both)
    state = interrupted.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    resumed.set_epoch(state["epoch"])  # as trainers do: the place is kept
    rest = [*resumed, *(resumed if stop < len(resumed) else ())]
    assert len(rest) == len(whole) - stop
    assert all(same(one, other) for one, other in zip(rest, whole[stop:], strict=True))


def test_a_state_of_other_batches_is_refused(images: Corpus) -> None:
    state = images.batches("train", 16, seed=5).state_dict()
    with pytest.raises(ValueError, match=r"`state\['seed'\]` must be 6, as here; it is 5"):
        images.batches("train", 16, seed=6).load_state_dict(state)
    with pytest.raises(ValueError, match="batch"):
        images.batches("train", 32, seed=5).load_state_dict(state)


@pytest.mark.parametrize("settings", [{}, {"captions_per_image": 2}])
def test_two_ranks_share_each_batch(images: Corpus, settings: dict[str, int]) -> None:
    alone = images.batches("train", 16, **settings)
    ranks = [images.batches("train", 16, rank=rank, world=2, **settings) for rank in range(2)]
    copies = settings.get("captions_per_image", 1)
    for whole, *parts in zip(alone, *ranks, strict=True):
        grouped = [part.targets.view(-1, copies, part.targets.shape[1]) for part in parts]
        together = torch.stack(grouped, 1).flatten(0, 2)
        assert torch.equal(together, whole.targets)
        assert [int(part.tokens) for part in parts] == [int(whole.tokens)] * 2  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{}, {"captions_per_image": 2}, {"fraction": 0.5}], ids=str)
def test_a_batch_is_no_larger_than_what_there_is(images: Corpus, settings: dict[str, Any]) -> None:
    most = sum(int((batch.items >= 0).sum()) for batch in images.batches("train", 16, **settings))  # type: ignore[operator]
    (batch,) = images.batches("train", 100_000, **settings)
    assert batch.targets.shape[0] == most
    assert int((batch.items >= 0).sum()) == most  # type: ignore[operator]
    parts = [next(iter(images.batches("train", 100_000, rank=rank, world=4, **settings))) for rank in range(4)]
    assert len({part.targets.shape for part in parts}) == 1
    assert sum(int((part.items >= 0).sum()) for part in parts) == most  # type: ignore[operator]
    assert sum(part.targets.shape[0] for part in parts) < most + 4 * settings.get("captions_per_image", 1)


def test_a_thread_makes_the_same_batches_and_ends(images: Corpus) -> None:
    batches = images.batches("train", 16)
    plain = list(batches)
    batches._source.begin(batches._order(0))
    assert all(same(one, other) for one, other in zip(batches._ahead(0), plain, strict=True))
    some = batches._ahead(0)
    next(some)
    some.close()  # type: ignore[attr-defined]
    assert not any(thread.name == "seqsmooth batches" for thread in threading.enumerate())


def test_what_goes_wrong_in_the_thread_is_raised_to_who_waits(images: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = images.batches("train", 16)

    def fail(number: int) -> Batch:
        raise ValueError("the disk is gone")

    monkeypatch.setattr(batches._source, "batch", fail)
    with pytest.raises(ValueError, match="the disk is gone"):
        list(batches._ahead(0))


def _losses() -> dict[str, ss.Objective]:
    specials = ss.Specials(pad=0, bos=1, eos=2, unk=3)
    size = 44
    frequencies = ss.rewards.DocumentFrequencies.build([[[4, 5, 6], [7, 8]], [[9, 4]]])
    proposal = ss.Hamming(tau=0.5, pool="refs")
    return {
        "mle": ss.mle(specials=specials),
        "hamming": ss.Objective(ss.Hamming(0.5, pool="refs", alpha=0.5), specials=specials, vocab_size=size, lazy=True),
        "cider": ss.Objective(
            ss.Rewarded(ss.rewards.Cider(frequencies), proposal=proposal, tau=0.5, samples=3, alpha=0.5),
            lazy=False,
            specials=specials,
            vocab_size=size,
        ),
    }


@pytest.mark.parametrize("name", ["mle", "hamming", "cider"])
@pytest.mark.parametrize("task", ["images", "pairs"])
def test_rows_that_fill_a_batch_up_contribute_nothing(name: str, task: str, request: pytest.FixtureRequest) -> None:
    corpus: Corpus = request.getfixturevalue(task)
    torch.manual_seed(0)
    size = len(corpus.vocabulary)
    assert size == 44
    none = {"embedding_dropout": 0.0, "output_dropout": 0.0}
    model = (
        ShowTell(size, 4, 8, 8, **none)
        if task == "images"
        else RNNsearch(size, size, 8, 8, 8, source_dropout=0, **none)
    )
    batch = next(batch for batch in corpus.batches("train", 64) if (batch.items < 0).any())  # type: ignore[operator]
    assert batch.items is not None
    real = batch.items >= 0

    def trained(given_batch: Batch) -> list[Tensor]:
        source = torch.Generator().manual_seed(1)
        step = TrainingStep(model, _losses()[name], adam(model.parameters(), 0.0), generator=source)
        model.zero_grad()
        step.loss(given_batch).total.backward()
        return [value.grad.clone() for value in model.parameters() if value.grad is not None]

    filled = trained(batch)
    assert all(bool(value.isfinite().all()) for value in filled)
    if name == "cider":  # its draws depend on the number of rows
        return
    references = None if batch.references is None else batch.references[real]
    alone = trained(Batch(tuple(value[real] for value in batch.inputs), batch.targets[real], references))
    for one, other in zip(filled, alone, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_buckets_hold_their_rows_and_splitting_never_costs(
    rows: list[tuple[int, int]], batch_size: int, most: int
) -> None:
    lengths = np.array(rows)

    def cost(buckets: int) -> int:
        found = make_buckets(lengths, batch_size, buckets)
        assert len(found.widths) <= buckets
        total = 0
        for number, widths in enumerate(found.widths):
            members = lengths[found.member == number]
            assert len(members) > 0
            assert tuple(members.max(0)) == widths
            total += -(-len(members) // batch_size) * batch_size * sum(widths)
        return total

    assert cost(most) <= cost(1)


def test_two_lengths_apart_make_two_buckets() -> None:
    lengths = np.array([[3]] * 20 + [[30]] * 20)
    assert make_buckets(lengths, 10, 4).widths == ((3,), (30,))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"batch_size": 0}, "`batch_size` must be 1 or more; it is 0."),
        (
            {"batch_size": 7, "captions_per_image": 2},
            "`batch_size` must be a multiple of 2 captions an image x 1 ranks",
        ),
        ({"rank": 2, "world": 2}, r"`rank` must be in \[0, 2\); it is 2"),
        ({"max_words": 0}, "`max_words` must be 1 or more"),
        ({"buckets": 0}, "`buckets` must be 1 or more"),
        ({"split": "dev"}, "`split` must be one of 'train', 'val'; it is 'dev'"),
    ],
)
def test_mistakes_are_one_sentence(images: Corpus, settings: dict[str, int], told: str) -> None:
    given_settings = {"split": "train", "batch_size": 16} | settings
    with pytest.raises(ValueError, match=told):
        images.batches(given_settings.pop("split"), given_settings.pop("batch_size"), **given_settings)  # type: ignore[arg-type]


def test_inputs_for_decoding_are_those_of_the_batches(regions: Corpus, pairs: Corpus, tmp_path: Path) -> None:
    for corpus in (regions, pairs):
        batch = next(iter(corpus.batches("train", 8, buckets=1, shuffle=False)))
        assert batch.items is not None
        found = corpus.inputs("train", batch.items)
        for one, other in zip(found, batch.inputs, strict=True):
            if one.shape[1] < other.shape[1]:  # sources, as wide as the longest of these
                other = other[:, : one.shape[1]]
            assert torch.equal(one, other)
