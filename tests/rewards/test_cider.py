from __future__ import annotations

import math
import random
import re
from collections import Counter

import pytest
import torch
from pycocoevalcap.cider.cider import Cider as CocoCider

from seqsmooth.rewards import Cider, DocumentFrequencies

Caption = list[int]


def draw(rows: int, seed: int, words: int = 8) -> tuple[list[list[Caption]], list[list[Caption]]]:
    """Three candidates a row, the first near a reference, and one to four references."""
    chance = random.Random(seed)
    candidates, references = [], []
    for _ in range(rows):
        held = [[chance.randrange(words) for _ in range(chance.randint(1, 9))] for _ in range(chance.randint(1, 4))]
        near = [token if chance.random() < 0.8 else chance.randrange(words + 3) for token in chance.choice(held)]
        others = [[chance.randrange(words + 3) for _ in range(chance.randrange(10))] for _ in range(2)]
        candidates.append([near, *others])
        references.append(held)
    return candidates, references


def padded(rows: list[list[Caption]]) -> torch.Tensor:
    most, longest = max(map(len, rows)), max(len(caption) for row in rows for caption in row)
    return torch.tensor([[c + [-1] * (longest - len(c)) for c in row + [[]] * (most - len(row))] for row in rows])


def words(caption: Caption) -> str:
    return " ".join(map(str, caption))


def by_dictionary(
    caption: Caption, held: list[Caption], documents: list[list[Caption]], order: int, sigma: float
) -> float:
    """The definition of the paper, with sparse vectors."""

    def grams(tokens: Caption, n: int) -> list[tuple[int, ...]]:
        return [tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1)]

    total = 0.0
    for n in range(1, order + 1):
        frequency: Counter[tuple[int, ...]] = Counter()
        for document in documents:
            frequency.update({gram for tokens in document for gram in grams(tokens, n)})

        def vector(tokens: Caption, n: int = n, frequency: Counter = frequency) -> dict[tuple[int, ...], float]:
            return {
                gram: times * (math.log(len(documents)) - math.log(max(1, frequency[gram])))
                for gram, times in Counter(grams(tokens, n)).items()
            }

        ours = vector(caption)
        for reference in held:
            theirs = vector(reference)
            product = sum(min(weight, theirs.get(gram, 0)) * theirs.get(gram, 0) for gram, weight in ours.items())
            norms = math.hypot(*ours.values()) * math.hypot(*theirs.values())
            apart = len(grams(caption, 2)) - len(grams(reference, 2))
            total += product / (norms or 1) * math.exp(-(apart**2) / (2 * sigma**2)) / len(held)
    return 10 * total / order


@pytest.mark.parametrize("sigma", [6.0, 2.5])
@pytest.mark.parametrize("rows", [1, 2, 60])
def test_the_number_is_coco_captions(rows: int, sigma: float):
    candidates, references = draw(rows, seed=rows)
    reward = Cider(DocumentFrequencies.build(references), sigma=sigma, dtype=torch.float64)
    got = reward(padded(candidates), padded(references))
    assert got.shape == (rows, 3)
    gold = {row: [words(reference) for reference in held] for row, held in enumerate(references)}
    for column in range(3):
        ours = {row: [words(held[column])] for row, held in enumerate(candidates)}
        _, expected = CocoCider(sigma=sigma).compute_score(gold, ours)
        torch.testing.assert_close(got[:, column], torch.tensor(expected), rtol=0, atol=1e-9)
    assert rows < 60 or got.max() > 3


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("sigma", [6.0, math.inf])
def test_frequencies_may_come_from_elsewhere(order: int, sigma: float):
    candidates, references = draw(20, seed=3)
    _, elsewhere = draw(40, seed=4, words=7)
    reward = Cider(DocumentFrequencies.build(elsewhere, 5), order, sigma, dtype=torch.float64)
    got = reward(padded(candidates), padded(references))
    for row, (captions, held) in enumerate(zip(candidates, references, strict=True)):
        expected = [by_dictionary(caption, held, elsewhere, order, sigma) for caption in captions]
        assert got[row].tolist() == pytest.approx(expected, abs=1e-9)


def test_a_word_of_all_documents_weighs_exactly_nothing():
    # Its weight is ln D - ln D: any rounding there would be divided by itself and come out as a perfect match.
    documents = [[[1, 2 + row]] for row in range(7)]
    for dtype in (torch.float32, torch.float64):
        reward = Cider(DocumentFrequencies.build(documents), dtype=dtype)
        assert reward(torch.tensor([[[1]]]), torch.tensor([[[1]]])).item() == 0


def test_a_copy_of_the_only_reference_scores_10():
    frequencies = DocumentFrequencies.build([[[1, 2, 3, 4, 5]], [[6, 7]], [[1, 8]]])
    got = Cider(frequencies, dtype=torch.float64)(torch.tensor([[[1, 2, 3, 4, 5]]]), torch.tensor([[[1, 2, 3, 4, 5]]]))
    assert got.item() == pytest.approx(10)


def test_repeating_a_word_of_the_reference_does_not_pay():
    frequencies = DocumentFrequencies.build([[[1]], [[2]]])
    reward = Cider(frequencies, order=1, sigma=math.inf, dtype=torch.float64)
    got = reward(torch.tensor([[[1, -1, -1], [1, 1, 1]]]), torch.tensor([[[1, 2]]]))
    # By hand, in units of ln 2: (1,0).(1,1)/(1 sqrt2), and clipped min(3,1) 1 / (3 sqrt2).
    assert got[0].tolist() == pytest.approx([10 / math.sqrt(2), 10 / (3 * math.sqrt(2))])


def test_rows_without_references_and_empty_candidates_score_0():
    reward = Cider(DocumentFrequencies.build([[[1, 2, 3]], [[4]]]))
    got = reward(torch.tensor([[[1, 2], [-1, -1]], [[1, 2], [-1, -1]]]), torch.tensor([[[-1, -1]], [[1, 2]]]))
    assert got[0].tolist() == [0, 0]
    assert got[1, 0] > 0
    assert got[1, 1] == 0


def test_single_precision_is_near_double():
    candidates, references = (padded(rows) for rows in draw(60, seed=5))
    frequencies = DocumentFrequencies.build(references.tolist())
    double = Cider(frequencies, dtype=torch.float64)(candidates, references)
    torch.testing.assert_close(Cider(frequencies)(candidates, references).double(), double, rtol=1e-5, atol=1e-5)


def test_the_module_around_may_change_its_precision_and_save_its_state():
    candidates, references = (padded(rows) for rows in draw(8, seed=6))
    reward = Cider(DocumentFrequencies.build(references.tolist()))
    before = reward(candidates, references)
    around = torch.nn.ModuleList([reward]).to(torch.bfloat16)
    assert torch.equal(reward(candidates, references), before)
    assert around.state_dict() == {}


def test_names():
    reward = Cider(DocumentFrequencies.build([[[1]]] * 5000))
    assert reward.signature().startswith("cider:D|sigma:6|n:4|docs:5000|crc:")
    assert repr(reward) == "Cider(documents=5000, order=4, sigma=6)"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"sigma": -1.0}, "`sigma` must be greater than 0; it is -1.0."),
        ({"order": 0}, "`order` must be 1 or more; it is 0."),
        ({"order": 3}, "`order` must be at most 2, the order of `document_frequencies`; it is 3."),
        ({"dtype": torch.int64}, "`dtype` must be torch.float32 or torch.float64; it is torch.int64."),
        (
            {"document_frequencies": {(1,): 2}},
            "`document_frequencies` must be a DocumentFrequencies; it is a dict.",
        ),
    ],
)
def test_wrong_arguments(arguments: dict, sentence: str):
    given = {"document_frequencies": DocumentFrequencies.build([[[1, 2]]], 2), "order": 2} | arguments
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Cider(**given)


def test_ids_must_be_where_the_reward_is():
    reward = Cider(DocumentFrequencies.build([[[1]]])).to("meta")
    with pytest.raises(ValueError, match=r"^`candidates` must be on meta, where this reward is; it is on cpu.$"):
        reward(torch.tensor([[[1]]]), torch.tensor([[[1]]]))
