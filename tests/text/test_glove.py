from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seqsmooth.text import GloVe, Vocabulary, WordCounts
from seqsmooth.text.cooccurrence import Cooccurrence
from seqsmooth.text.corpus import read_sentences
from seqsmooth.text.glove import Factors, PairBatch

CPU = torch.device("cpu")


@pytest.fixture
def counted() -> Cooccurrence:
    generator = torch.Generator().manual_seed(3)
    dense = (torch.rand(7, 7, generator=generator, dtype=torch.float64) * 30).round() * 5
    dense[2] = 0  # a word that is nowhere near another
    rows, columns = dense.nonzero(as_tuple=True)
    return Cooccurrence(7, rows, columns, dense[rows, columns])


def loss_of(counted: Cooccurrence, words: Tensor, contexts: Tensor, x_max: float) -> Tensor:
    """Eq. 8 of the paper of GloVe (halved, as the program does), entry by entry."""
    total = torch.zeros((), dtype=torch.float64)
    for i, j, x in zip(counted.rows.tolist(), counted.columns.tolist(), counted.values.tolist(), strict=True):
        weight = 1.0 if x > x_max else (x / x_max) ** 0.75
        dim = words.shape[1] - 2
        product = (words[i, :dim] * contexts[j, :dim]).sum() + words[i, dim] + contexts[j, dim + 1]
        total = total + 0.5 * weight * (product - math.log(x)) ** 2
    return total


def test_gradients_are_those_of_the_equation(counted: Cooccurrence) -> None:
    generator = torch.Generator().manual_seed(0)
    factors = Factors.initial(7, 5, generator, CPU, torch.float64)
    factors.words[:, :-1] += torch.randn(7, 6, generator=generator, dtype=torch.float64)
    everything = PairBatch.of(counted, torch.arange(len(counted.values)), 50.0, 0.75, CPU, torch.float64)
    loss, words, contexts = factors.gradients(everything)
    variables = [table.clone().requires_grad_() for table in (factors.words, factors.contexts)]
    wanted = loss_of(counted, *variables, x_max=50.0)
    wanted.backward()
    assert torch.allclose(loss, wanted.detach(), rtol=1e-12)
    for ours, variable in zip((words, contexts), variables, strict=True):
        assert variable.grad is not None
        assert torch.allclose(ours, variable.grad, rtol=1e-10, atol=1e-12)


def test_with_one_entry_a_batch_it_is_the_plain_loop(counted: Cooccurrence) -> None:
    settings = GloVe(dim=4, iterations=3, x_max=50.0, batches=len(counted.values), seed=5)
    told: list[float] = []
    fitted = settings.factorise(counted, dtype=torch.float64, progress=lambda _, __, loss: told.append(loss))

    # The same first values and the same order, then the program of Stanford as it is written: number after number.
    generator = torch.Generator().manual_seed(5)
    order = torch.randperm(len(counted.values), generator=generator).tolist()
    first = Factors.initial(7, 4, generator, CPU, torch.float64)
    w, c = first.words.tolist(), first.contexts.tolist()
    bias, context_bias = [row[4] for row in w], [row[5] for row in c]
    squares, context_squares = ([[1.0] * 5 for _ in range(7)] for _ in range(2))
    losses = []
    for _ in range(3):
        total = 0.0
        for entry in torch.randperm(len(order), generator=generator).tolist():
            i, j = int(counted.rows[order[entry]]), int(counted.columns[order[entry]])
            x = float(counted.values[order[entry]])
            error = sum(w[i][k] * c[j][k] for k in range(4)) + bias[i] + context_bias[j] - math.log(x)
            pull = error if x > 50 else (x / 50) ** 0.75 * error
            total += 0.5 * pull * error
            pull *= 0.05
            for k in range(4):
                step, context_step = pull * c[j][k], pull * w[i][k]
                w[i][k] -= step / math.sqrt(squares[i][k])
                c[j][k] -= context_step / math.sqrt(context_squares[j][k])
                squares[i][k] += step**2
                context_squares[j][k] += context_step**2
            bias[i] -= pull / math.sqrt(squares[i][4])
            context_bias[j] -= pull / math.sqrt(context_squares[j][4])
            squares[i][4] += pull**2
            context_squares[j][4] += pull**2
        losses.append(total / len(order))
    assert told == pytest.approx(losses, rel=1e-10)
    assert torch.allclose(fitted.words[:, :4], torch.tensor([row[:4] for row in w], dtype=torch.float64), rtol=1e-10)
    assert torch.allclose(fitted.contexts[:, 5], torch.tensor(context_bias, dtype=torch.float64), rtol=1e-10)


def grammar() -> list[list[str]]:
    """Sentences in which cats and dogs, and red and blue, are interchangeable."""
    texts = []
    for animal in ("cat", "dog"):
        for verb in ("sleeps", "eats", "runs"):
            for place in ("bed", "sofa", "grass"):
                texts.append(f"a {animal} {verb} on the {place}".split())
    for colour in ("red", "blue"):
        for thing in ("car", "bus", "train"):
            texts.append(f"one {colour} {thing} parked outside".split())
    return texts * 3


def fitted(
    seed: int = 0, texts: Sequence[Sequence[str]] = (), **settings: object
) -> tuple[Vocabulary, dict[str, Tensor]]:
    texts = texts or grammar()
    vocabulary = WordCounts.of(texts).vocabulary(min_count=2)
    made = GloVe(dim=8, iterations=30, seed=seed, **settings).fit(texts, vocabulary)  # type: ignore[arg-type]
    return vocabulary, dict(zip(made.words, made.values, strict=True))


def test_words_that_are_interchangeable_become_neighbours() -> None:
    texts = grammar()
    vocabulary = WordCounts.of(texts).vocabulary(min_count=2)
    vectors = GloVe(dim=8, iterations=60, x_max=10.0).fit(texts, vocabulary)
    content = ["cat", "dog", "red", "blue", "car", "bus", "train", "bed", "sofa", "grass", "sleeps", "eats", "runs"]
    for word, like in (("cat", "dog"), ("dog", "cat"), ("red", "blue"), ("blue", "red")):
        near = [other for other, _ in vectors.nearest(word, len(vectors.words)) if other in content]
        assert near[0] == like


@pytest.mark.slow
def test_captions_of_coco_give_the_neighbours_one_expects(coco_data: Path) -> None:
    sentences, _ = read_sentences(coco_data / "coco/dataset.json", splits=("restval",))
    losses: list[float] = []
    vocabulary = WordCounts.of(sentences).vocabulary()
    vectors = GloVe().fit(sentences, vocabulary, progress=lambda _, __, loss: losses.append(loss))
    assert len(sentences) > 150_000
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.4 * losses[0]
    expected = {
        "man": {"woman"},
        "woman": {"man", "girl"},
        "dog": {"cat"},
        "red": {"blue", "yellow"},
        "two": {"three"},
        "kitchen": {"stove"},
        "skateboard": {"trick"},
        "giraffe": {"zebra"},
    }
    for word, near in expected.items():
        assert near <= {other for other, _ in vectors.nearest(word, 10)}, word


def test_the_same_seed_gives_the_same_vectors() -> None:
    _, first = fitted(4)
    _, again = fitted(4)
    _, other = fitted(5)
    assert all(torch.equal(first[word], again[word]) for word in first)
    assert not any(torch.equal(first[word], other[word]) for word in first)


def test_eos_has_a_vector_only_if_asked_and_other_specials_never() -> None:
    vocabulary, held = fitted()
    assert set(held) == {*vocabulary.words[4:], "<eos>"}
    assert held["<eos>"].norm() > 0.1
    _, without = fitted(eos=False)
    assert set(without) == set(vocabulary.words[4:])


def test_the_mean_is_half_the_sum_and_the_word_is_a_part_of_it() -> None:
    _, total = fitted(combine="sum")
    _, mean = fitted(combine="mean")
    _, word = fitted(combine="word")
    assert torch.allclose(total["cat"], 2 * mean["cat"])
    assert not torch.allclose(total["cat"], word["cat"])


def test_a_rate_at_which_it_diverges_is_refused(counted: Cooccurrence) -> None:
    with pytest.raises(ValueError, match="`rate` must be small enough for the loss to fall; it is 1e"):
        GloVe(dim=4, rate=1e30, batches=1).factorise(counted)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dim": 0}, "`dim` must be 1 or more; it is 0."),
        ({"iterations": 0}, "`iterations` must be 1 or more; it is 0."),
        ({"x_max": 0.0}, "`x_max` must be greater than 0; it is 0.0."),
        ({"rate": -1.0}, "`rate` must be greater than 0; it is -1.0."),
        ({"combine": "cat"}, "`combine` must be one of 'sum', 'mean', 'word'; it is 'cat'."),
        ({"batches": 0}, "`batches` must be 1 or more; it is 0."),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        GloVe(**settings)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


def test_sentences_without_pairs_are_refused() -> None:
    vocabulary = Vocabulary.build({"a": 9}, sentences=1)
    with pytest.raises(ValueError, match="`sentences` must be at least two words of the vocabulary near each other"):
        GloVe(eos=False).fit([["a"], ["b"]], vocabulary)
