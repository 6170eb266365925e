from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from oracles import small_corpora
from oracles.chi_square import assert_follows
from seqsmooth.data import Corpus, FeatureStore, Side, write_captions
from seqsmooth.models import Model, RNNsearch, ShowTell
from seqsmooth.reports import forcing
from seqsmooth.reports.forcing import SEED, corrupt, force, unigrams

CPU = torch.device("cpu")
BOS, EOS, UNK = 1, 2, 3
SHARES = (0.0, 0.25, 0.6)
CAPTIONS = ["a dog", "the dog runs on the grass", "a cat", "one small cat sleeps", "an okapi", "a cat on the grass"]


def captions(folder: Path) -> Corpus:
    """Items of one to three references of two to six words; the okapi is not in the vocabulary."""
    source = np.random.default_rng(0)
    names = [f"image{n}" for n in range(27)]
    features = FeatureStore(names, source.normal(size=(27, 6)).astype(np.float32))
    several = [[CAPTIONS[(n + k) % 6] for k in range(1 + n % 3)] for n in range(27)]
    items = list(zip(names, several, strict=True))
    train = [(name, [text for text in texts if "okapi" not in text] or ["a dog"]) for name, texts in items[:14]]
    splits = {"train": train, "val": items[14:16], "test": items[16:]}
    return write_captions(folder, splits, features, side=Side(min_count=1))


def corpus_and_model(kind: str, folder: Path) -> tuple[Corpus, Model]:
    corpus = captions(folder / "c") if kind == "captions" else small_corpora.pairs(folder / "c", vectors=None)
    words = len(corpus.vocabulary)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Model = ShowTell(words, 6, 5, 7)
        if corpus.source_vocabulary is not None:
            model = RNNsearch(len(corpus.source_vocabulary), words, 5, 4, 6)
        for parameter in model.parameters():
            torch.nn.init.uniform_(parameter, -1.5, 1.5)
    return corpus, model.eval()


def corrupted_by_hand(words: Sequence[int], corpus: Corpus, shares: Sequence[float]) -> list[list[int]]:
    """The definition: a place among all other words of the training text, in the order of their ids."""
    text = sorted(word for word in corpus.split("train").targets.ids.tolist() if word > UNK)
    source = np.random.default_rng(SEED)
    places, luck = source.random(len(words)).tolist(), source.random(len(words)).tolist()
    made = []
    for share in shares:
        line = []
        for word, place, chance in zip(words, places, luck, strict=True):
            others = [other for other in text if other != word]
            line.append(others[int(place * len(others))] if word != EOS and chance < share else word)
        made.append(line)
    return made


@pytest.mark.parametrize("rows", [6, 2048])
@pytest.mark.parametrize("kind", ["captions", "translation"])
def test_all_is_what_a_loop_over_tokens_finds(
    kind: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forcing, "PORTION", 17)
    corpus, model = corpus_and_model(kind, tmp_path)
    bins, corrupted = force(model, corpus, "test", CPU, shares=SHARES, rows=rows)
    texts = [
        (row, corpus.vocabulary.encode(words, eos=True))
        for row, several in enumerate(corpus.references("test"))
        for words in several
    ]
    flat = [word for _, words in texts for word in words]
    counts, confidences, right = [0] * 10, [0.0] * 10, [0] * 10
    with torch.no_grad():
        for share, read, told in zip(SHARES, corrupted_by_hand(flat, corpus, SHARES), corrupted, strict=True):
            total, hits, place = 0.0, 0, 0
            for row, words in texts:
                memory = model.encode(*corpus.inputs("test", [row]))
                state, last = model.start(memory), BOS
                for token in words:
                    hidden, state = model.step(memory, state, torch.tensor([last]))
                    probabilities = model.logits(hidden)[0].softmax(-1)
                    best, hit = float(probabilities.max()), int(probabilities.argmax()) == token
                    total -= float(probabilities[token].log())
                    hits += hit
                    last = read[place]
                    place += 1
                    if share == 0:
                        tenth = min(int(best * 10), 9)
                        counts[tenth] += 1
                        confidences[tenth] += best
                        right[tenth] += hit
            assert told.share == share
            assert told.nll == pytest.approx(total / len(flat), abs=1e-5)
            assert told.accuracy == pytest.approx(hits / len(flat))
    assert [held.tokens for held in bins] == counts
    assert [held.right for held in bins] == right
    assert [held.confidence for held in bins] == pytest.approx(confidences, abs=1e-4)
    assert corrupted[0].nll != pytest.approx(corrupted[2].nll, abs=1e-3), "the prefix is read"


def test_words_are_replaced_by_others_as_frequent_as_they_are() -> None:
    counts = np.array([0, 0, 0, 0, 6, 3, 0, 1])
    share = 0.3
    for word in (5, 7, UNK):
        (made,) = corrupt(np.full(20000, word), counts, [share])
        others = {other: int(count) for other, count in enumerate(counts) if other != word and count > 0}
        law = {other: share * count / sum(others.values()) for other, count in others.items()}
        assert_follows(made.tolist(), law | {word: 1 - share})


def test_what_is_replaced_stays_so_and_eos_is_never() -> None:
    counts = np.array([0, 0, 0, 0, 6, 3, 1, 1])
    ids = np.array([4, 5, 6, EOS, 7, 4, EOS] * 200)
    none, some, more, all_of_them = corrupt(ids, counts, [0.0, 0.2, 0.5, 1.0])
    assert np.array_equal(none, ids)
    changed = some != ids
    assert np.array_equal(more[changed], some[changed])
    assert ((more != ids) & ~changed).any()
    assert np.array_equal(all_of_them == ids, ids == EOS)
    assert np.array_equal(corrupt(ids, counts, [0.5])[0], more), "the seed alone decides"
    assert np.array_equal(corrupt(ids, np.zeros(8, dtype=np.int64), [1.0])[0], ids), "there is no other word"


def test_the_unigram_law_is_of_the_training_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forcing, "_BLOCK", 5)
    corpus = captions(tmp_path / "c")
    words = [word for text in corpus.texts("train") for word in text.split()]
    assert unigrams(corpus).tolist() == [0] * 4 + [words.count(word) for word in corpus.vocabulary.words[4:]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["captions", "translation"])
def test_a_gpu_finds_the_same_and_the_host_does_not_wait(kind: str, tmp_path: Path) -> None:
    corpus, model = corpus_and_model(kind, tmp_path)
    bins, corrupted = force(model, corpus, "test", CPU)
    there, cuda = model.to("cuda"), torch.device("cuda")
    ours, also = force(there, corpus, "test", cuda)
    assert sum(held.tokens for held in ours) == sum(held.tokens for held in bins)
    assert sum(held.confidence for held in ours) == pytest.approx(sum(held.confidence for held in bins), rel=1e-2)
    assert [held.nll for held in also] == pytest.approx([held.nll for held in corrupted], rel=1e-2)  # cuDNN has TF32
    torch.cuda.set_sync_debug_mode("error")
    try:
        forcing.sum_up(there, corpus, "test", cuda, *forcing._references(corpus, "test"), SHARES, 6)
    finally:
        torch.cuda.set_sync_debug_mode("default")
