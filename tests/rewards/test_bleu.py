from __future__ import annotations

import math
import random
import re
import warnings

import pytest
import torch
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from pycocoevalcap.bleu.bleu import Bleu as CocoBleu
from sacrebleu.metrics.bleu import BLEU

from seqsmooth.rewards import Bleu

Caption = list[int]
NLTK = [f"method{k}" for k in range(8)]


def draw(rows: int, seed: int) -> tuple[list[Caption], list[list[Caption]]]:
    """Captions of few words and all lengths, a part of them near a reference so that long n-grams match too."""
    chance = random.Random(seed)
    candidates, references = [], []
    for row in range(rows):
        held = [[chance.randrange(6) for _ in range(chance.randint(1, 9))] for _ in range(chance.randint(1, 4))]
        if row % 3:
            caption = [token if chance.random() < 0.85 else chance.randrange(7) for token in chance.choice(held)]
        else:
            caption = [chance.randrange(7) for _ in range(chance.randrange(9))]
        candidates.append(caption)
        references.append(held)
    return candidates, references


def tensors(candidates: list[Caption], references: list[list[Caption]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, candidates))
    most, longest = max(map(len, references)), max(len(caption) for held in references for caption in held)
    ours = [[caption + [-1] * (width - len(caption))] for caption in candidates]
    filled = [held + [[]] * (most - len(held)) for held in references]
    return torch.tensor(ours), torch.tensor([[c + [-1] * (longest - len(c)) for c in held] for held in filled])


def words(caption: Caption) -> str:
    return " ".join(map(str, caption))


CANDIDATES, REFERENCES = draw(150, seed=1)
CANDIDATES[7] = []


def agree(reward: Bleu, expected: list[float]) -> None:
    got = reward(*tensors(CANDIDATES, REFERENCES))
    torch.testing.assert_close(got[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)
    assert max(expected) > 0.5
    assert expected[7] == 0


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("effective", [False, True])
@pytest.mark.parametrize(
    ("smoothing", "value"),
    [("none", None), ("exp", None), ("floor", None), ("floor", 0.02), ("add-k", None), ("add-k", 0.3)],
)
def test_the_number_is_sacrebleus(smoothing: str, value: float | None, effective: bool, order: int):
    oracle = BLEU(
        tokenize="none",
        smooth_method=smoothing,
        smooth_value=value,
        effective_order=effective,
        max_ngram_order=order,
        force=True,
    )
    expected = [
        oracle.sentence_score(words(caption), [words(reference) for reference in held]).score / 100
        for caption, held in zip(CANDIDATES, REFERENCES, strict=True)
    ]
    agree(Bleu(order, smoothing, effective, value=value, dtype=torch.float64), expected)


def nltk(caption: Caption, held: list[Caption], order: int, method: str, **constants: float) -> float:
    smoothing = getattr(SmoothingFunction(**constants), method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sentence_bleu(held, caption, weights=(1 / order,) * order, smoothing_function=smoothing)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("method", [method for method in NLTK if method != "method6"])
def test_the_number_is_nltks(method: str, order: int):
    expected = [nltk(caption, held, order, method) for caption, held in zip(CANDIDATES, REFERENCES, strict=True)]
    agree(Bleu(order, method, dtype=torch.float64), expected)


@pytest.mark.parametrize(
    ("method", "constant"), [("method1", "epsilon"), ("method4", "k"), ("method6", "alpha"), ("method7", "k")]
)
def test_the_value_is_the_constant_of_the_method(method: str, constant: str):
    caption, held = [1, 2, 3, 5, 1, 2, 3], [[1, 2, 3, 4], [3, 1, 2, 3]]
    expected = nltk(caption, held, 4, method, **{constant: 0.7})
    got = Bleu(4, method, value=0.7, dtype=torch.float64)(*tensors([caption], [held]))
    assert got.item() == pytest.approx(expected, abs=1e-9)
    assert abs(expected - nltk(caption, held, 4, method)) > 1e-3


@pytest.mark.parametrize("order", [3, 4, 6])
def test_method_6_is_nltks_where_nltk_has_it(order: int):
    got = Bleu(order, "method6", dtype=torch.float64)(*tensors(CANDIDATES, REFERENCES))[:, 0]
    compared = 0
    for score, caption, held in zip(got.tolist(), CANDIDATES, REFERENCES, strict=True):
        try:
            expected = nltk(caption, held, order, "method6")
        except AssertionError:  # no trigram matches
            continue
        assert score == pytest.approx(expected, abs=1e-9)
        compared += expected > 0
    assert compared > 40


def test_method_6_goes_on_where_nltk_stops():
    third = 5 * (2 / 3) ** 2 / (2 + 5)  # no trigram of two, and a prior from 4/4 words and 2/3 bigrams
    fourth = 5 * third**2 / (2 / 3) / (1 + 5)
    expected = (1 * 2 / 3 * third * fourth) ** 0.25 * math.exp(1 - 5 / 4)
    got = Bleu(4, "method6", dtype=torch.float64)(*tensors([[1, 2, 3, 4], [2, 9, 1]], [[[1, 2, 9, 3, 4]], [[1, 2, 3]]]))
    assert got[0].item() == pytest.approx(expected, abs=1e-9)
    assert got[1].item() == 0  # words match, bigrams do not


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_number_is_coco_captions(order: int):
    gold = {row: [words(reference) for reference in held] for row, held in enumerate(REFERENCES)}
    ours = {row: [words(caption)] for row, caption in enumerate(CANDIDATES)}
    _, scores = CocoBleu(4).compute_score(gold, ours, verbose=0)
    agree(Bleu(order, "coco", dtype=torch.float64), scores[order - 1])


@pytest.mark.parametrize("smoothing", ["none", "floor", "add-k", "exp", "coco", *NLTK])
def test_a_copy_of_a_reference_scores_1_if_long_enough(smoothing: str):
    caption = [4, 1, 5, 2, 1, 3]
    got = Bleu(4, smoothing, dtype=torch.float64)(*tensors([caption], [[[9, 9], caption, [4, 1]]]))
    if smoothing in ("method5", "method7"):  # these add 1 to the precision of the words
        assert got.item() > 1
    else:
        assert got.item() == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("smoothing", ["none", "floor", "add-k", "exp", "coco", *NLTK])
def test_nothing_in_common_and_nothing_at_all_are_0(smoothing: str):
    ours = torch.tensor([[[1, 2, 3, 4, 5], [-1, -1, -1, -1, -1]], [[1, 2, 3, 4, 5], [-1, -1, -1, -1, -1]]])
    theirs = torch.tensor([[[6, 7, 8, 9, 6], [7, -1, -1, -1, -1]], [[-1] * 5, [-1] * 5]])
    for dtype in (torch.float32, torch.float64):
        got = Bleu(4, smoothing, dtype=dtype)(ours, theirs)
        assert got[:, 1].tolist() == [0, 0]
        assert (got[:, 0] < 1e-14).all()
    assert Bleu(4, smoothing)(ours[..., :0], theirs).tolist() == [[0, 0], [0, 0]]


def test_single_precision_is_near_double():
    ids = tensors(CANDIDATES, REFERENCES)
    for smoothing in ("exp", "coco", "method4"):
        double = Bleu(4, smoothing, dtype=torch.float64)(*ids)
        torch.testing.assert_close(Bleu(4, smoothing)(*ids).double(), double, rtol=1e-5, atol=1e-6)


def test_names():
    assert Bleu(effective_order=True).signature() == "bleu:4|smooth:exp|eff:yes"
    assert Bleu(2, "floor").signature() == "bleu:2|smooth:floor[0.1]|eff:no"
    assert Bleu(3, "method4", value=2).signature() == "bleu:3|smooth:method4[2]|eff:no"
    assert repr(Bleu()) == "Bleu(order=4, smoothing='exp', effective_order=False)"
    assert repr(Bleu(1, "add-k")) == "Bleu(order=1, smoothing='add-k', effective_order=False, value=1)"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"order": 0}, "`order` must be 1 or more; it is 0."),
        ({"order": 2.0}, "`order` must be a whole number; it is 2.0."),
        ({"order": 2, "smoothing": "method6"}, "`order` must be 3 or more; it is 2."),
        ({"smoothing": "floor", "value": -0.1}, "`value` must be greater than 0; it is -0.1."),
        ({"smoothing": "exp", "value": 0.1}, "`value` must be None with 'exp'; it is 0.1."),
        (
            {"smoothing": "method1", "effective_order": True},
            "`effective_order` must be False with 'method1'; it is True.",
        ),
        ({"dtype": torch.float16}, "`dtype` must be torch.float32 or torch.float64; it is torch.float16."),
    ],
)
def test_wrong_arguments(arguments: dict, sentence: str):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Bleu(**arguments)


def test_an_unknown_smoothing_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"^`smoothing` must be one of 'none', .* 'method7'; it is 'method8'.$"):
        Bleu(smoothing="method8")
