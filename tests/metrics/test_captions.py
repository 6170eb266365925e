"""BLEU, CIDEr-D and ROUGE-L are coco-caption's, item by item and over the corpus."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

import seqsmooth as ss
from seqsmooth.metrics import Scores, coco_bleu
from seqsmooth.metrics.evaluation_set import EvaluationSet
from seqsmooth.text.ptb import PUNCTUATION

Words = Sequence[str]


def oracle(hypotheses: Mapping[object, Words], references: Mapping[object, Sequence[Words]]) -> dict[str, tuple]:
    """What pycocoevalcap says: the corpus score and those of the items, by the name of the metric."""
    gold = {key: [" ".join(one) for one in several] for key, several in references.items()}
    told = {key: [" ".join(hypotheses[key])] for key in references}
    values, each = Bleu(4).compute_score(gold, told, verbose=0)
    said = {f"BLEU-{n}": (values[n - 1], each[n - 1]) for n in (1, 2, 3, 4)}
    return said | {"CIDEr-D": Cider().compute_score(gold, told), "ROUGE-L": Rouge().compute_score(gold, told)}


def ours(hypotheses: Mapping[object, Words], references: Mapping[object, Sequence[Words]]) -> list[Scores]:
    corpus = EvaluationSet.align(hypotheses, references)
    return [
        *coco_bleu.score_bleus(corpus),
        ss.metrics.cider(hypotheses, references),
        ss.metrics.rouge_l(hypotheses, references),
    ]


def check(hypotheses: Mapping[object, Words], references: Mapping[object, Sequence[Words]]) -> None:
    expected = oracle(hypotheses, references)
    scores = ours(hypotheses, references)
    assert [made.metric for made in scores] == list(expected)
    for made in scores:
        value, each = expected[made.metric]
        assert made.value == pytest.approx(value, rel=0, abs=1e-9), made.metric
        assert list(made) == list(references)
        assert list(made.values()) == pytest.approx(list(each), rel=0, abs=1e-9), made.metric
        again = made.total(made.statistics.sum(0, keepdims=True), len(made))
        assert again == pytest.approx([value], rel=0, abs=1e-9), made.metric


@pytest.mark.parametrize("part", range(10))
def test_a_hundred_random_candidate_sets(part: int) -> None:
    draw = random.Random(part)
    for _ in range(100):
        vocabulary = ["a", "b'", "ü", "d-e", "1", "the", "x", "y", "z"][: draw.randint(2, 9)]

        def sentence(least: int, vocabulary: list[str] = vocabulary) -> list[str]:
            return draw.choices(vocabulary, k=draw.randint(least, 12))

        # Empty hypotheses and empty references too; but the scorer of CIDEr wants a word in some reference.
        references = {key: [sentence(0) for _ in range(draw.randint(1, 5))] for key in range(draw.randint(1, 6))}
        references[0][0] = sentence(1)
        check({key: sentence(0) for key in references}, references)


@pytest.fixture(scope="module")
def references(coco_data: Path) -> dict[int, list[list[str]]]:
    with (coco_data / "coco" / "dataset.json").open() as file:
        test = [image for image in json.load(file)["images"] if image["split"] == "test"]
    return {image["cocoid"]: [clean(sentence["tokens"]) for sentence in image["sentences"]] for image in test}


def clean(words: Sequence[str]) -> list[str]:
    return [word.lower() for word in words if word not in PUNCTUATION]


def captions(folder: Path, model: str) -> dict[int, list[str]]:
    path = folder / "authors-captions" / f"{model}.captions.json"
    if not path.is_file():
        pytest.skip("no authors-captions beside the COCO captions")
    return {entry["image_id"]: clean(entry["caption"].split()) for entry in json.loads(path.read_text())}


@pytest.mark.slow
def test_the_authors_captions(coco_data: Path, references: dict[int, list[list[str]]]) -> None:
    assert len(references) == 5000
    check(captions(coco_data, "base"), references)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "cider"), [("base", 1.010), ("comb", 1.036)])
def test_what_the_authors_published(
    coco_data: Path, references: dict[int, list[list[str]]], model: str, cider: float
) -> None:
    published = json.loads((coco_data / "authors-captions" / f"{model}.scores.json").read_text())
    scores = ss.metrics.cider(captions(coco_data, model), references)
    assert scores.value == pytest.approx(cider, abs=0.001)
    near = [abs(score - published[str(key)]["CIDEr"]) < 0.02 for key, score in scores.items()]
    assert sum(near) > 0.97 * len(near)


def test_words_and_their_numbers_score_the_same() -> None:
    words = {"p": "a man on a horse", "q": "two dogs"}
    gold = {"p": ["a man rides a horse", "a horse"], "q": ["two dogs run", "dogs"]}
    numbers = {word: place for place, word in enumerate(["a", "man", "on", "horse", "two", "dogs", "rides", "run"])}

    def ids(text: str) -> list[int]:
        return [numbers[word] for word in text.split()]

    for metric in (ss.metrics.bleu, ss.metrics.cider, ss.metrics.rouge_l):
        named = metric(words, gold)
        numbered = metric(
            {key: ids(text) for key, text in words.items()},
            {key: [ids(text) for text in several] for key, several in gold.items()},
        )
        assert dict(named) == dict(numbered)
        assert named.value == numbered.value > 0


def test_a_perfect_system_and_a_hopeless_one() -> None:
    gold = {1: ["a man rides a brown horse"], 2: ["two dogs play in the snow"]}
    right, wrong = {key: one for key, (one,) in gold.items()}, {1: "x y z", 2: "x"}
    assert ss.metrics.bleu(right, gold).value == pytest.approx(1)
    assert ss.metrics.rouge_l(right, gold).value == pytest.approx(1)
    assert ss.metrics.cider(right, gold).value == pytest.approx(10)
    for metric in (ss.metrics.bleu, ss.metrics.cider, ss.metrics.rouge_l):
        assert metric(wrong, gold).value == pytest.approx(0, abs=1e-6)


def test_signatures_name_what_matters() -> None:
    hypotheses, gold = {1: "a b", 2: "c d"}, {1: ["a b"], 2: ["c d", "c"]}
    plain = ss.metrics.bleu(hypotheses, gold).signature
    turned = ss.metrics.bleu(dict(reversed(hypotheses.items())), dict(reversed(gold.items()))).signature
    assert plain == turned
    assert "nrefs:1-2|items:2" in plain
    assert f"version:seqsmooth-{ss.__version__}" in plain
    others = {
        ss.metrics.bleu(hypotheses, gold, 3).signature,
        ss.metrics.bleu(hypotheses, gold, tokenised="ptb").signature,
        ss.metrics.bleu(hypotheses, {1: ["a b"], 2: ["c d", "d"]}).signature,
        ss.metrics.bleu(hypotheses, {1: ["c d", "c"], 2: ["a b"]}).signature,  # the same sentences, elsewhere
        ss.metrics.rouge_l(hypotheses, gold).signature,
        ss.metrics.cider(hypotheses, gold).signature,
    }
    assert len(others | {plain}) == 7
    # A change of the hypotheses is none of the metric.
    assert ss.metrics.bleu({1: "a", 2: "c"}, gold).signature == plain


@pytest.mark.parametrize("made", [torch.tensor, np.array, lambda ids: list(np.array(ids)), iter])
@pytest.mark.parametrize("name", ["bleu", "cider", "rouge_l", "sacrebleu"])
def test_ids_may_come_as_tensors_and_arrays(made: Callable[[list[int]], Any], name: str) -> None:
    metric = getattr(ss.metrics, name)
    ids = {1: [5, 6, 7, 8, 9], 2: [4, 5, 7, 9, 11]}
    gold = {1: [[5, 6, 7, 8, 4], [5]], 2: [[4, 5, 7, 9, 11]]}
    plain = metric(ids, gold)
    assert plain.value > 0.5
    there = metric(
        {key: made(sentence) for key, sentence in ids.items()},
        {key: [made(sentence) for sentence in several] for key, several in gold.items()},
    )
    assert (there.value, dict(there), there.signature) == (plain.value, dict(plain), plain.signature)


@pytest.mark.parametrize(
    ("hypotheses", "references", "sentence"),
    [
        (
            {1: "a", 3: "b"},
            {1: ["a"], 2: ["b"], 3: ["c"]},
            "There must be a hypothesis for each item, but 2 hypotheses and 3 items with references are given: "
            "id 2 has none.",
        ),
        (
            {1: "a", "1": "b"},
            {1: ["a"]},
            "There must be references for each item, but 2 hypotheses and 1 items with references are given: "
            "id '1' has none.",
        ),
        ({}, {}, "`references` must be of at least one item; it is empty."),
        ({1: "a"}, {1: []}, "`references` must be at least one for each id; it is none for id 1."),
        (
            {1: "a"},
            {1: "a b"},
            "`references` must be a sequence of sentences for each id; it is 'a b' for id 1.",
        ),
        (["a"], {1: ["a"]}, "`hypotheses` must be a mapping from ids; it is a list."),
        (["a"], ["a"], "`hypotheses` must be a mapping from ids; it is a list."),
        (
            {1: [4]},
            {1: torch.zeros(2, 3)},
            "`references` must be a sequence of sentences for each id; it is a Tensor for id 1.",
        ),
        ({1: 5}, {1: ["a"]}, "`sentence` must be a string or a sequence of tokens; it is 5."),
        ({1: b"a"}, {1: ["a"]}, "`sentence` must be a string or a sequence of tokens; it is b'a'."),
        ({1: [1.5]}, {1: [[1]]}, "`tokens` must be words (str) or ids (int); it is of the type float."),
        ({1: [1]}, {1: [[True]]}, "`tokens` must be words (str) or ids (int); it is of the type bool."),
        (
            {1: list(torch.tensor([4, 5]))},
            {1: [[4, 5]]},
            "`tokens` must be words (str) or ids (int); it is of the type Tensor.",
        ),
        (
            {1: [4, 5]},
            {1: ["a b"]},
            "`tokens` must be all words or all ids; it is ids in the hypotheses and words in the references.",
        ),
    ],
)
def test_mistakes_are_one_sentence(hypotheses: object, references: object, sentence: str) -> None:
    for metric in (ss.metrics.bleu, ss.metrics.cider, ss.metrics.rouge_l, ss.metrics.sacrebleu):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
            metric(hypotheses, references)
        assert str(raised.value) == sentence


def test_metrics_are_imported_when_they_are_asked_for() -> None:
    import subprocess
    import sys

    code = "import sys, seqsmooth; print('seqsmooth.metrics' in sys.modules, seqsmooth.metrics.bleu.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "bleu"]
    with pytest.raises(AttributeError, match="no attribute 'metric'"):
        _ = ss.metric
