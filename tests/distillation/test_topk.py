"""Stores of a teacher's best tokens, against whole distributions."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from oracles.teachers import V, pair


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_temperature_is_that_of_the_whole_distribution_where_the_tail_is_flat(temperature: float) -> None:
    logits = torch.tensor([3.0, 2.0, 1.0] + [-1.0] * (V - 3), dtype=torch.double)
    best = logits.log_softmax(-1).topk(3)
    store = ss.TopK(best.indices, best.values)
    found = store.tempered(temperature, vocab_size=V)
    torch.testing.assert_close(found.logprobs, (logits / temperature).log_softmax(-1)[:3], rtol=1e-12, atol=1e-12)
    alone = store.tempered(temperature)
    torch.testing.assert_close(alone.logprobs, (logits[:3] / temperature).log_softmax(-1))


@dataclass
class Logprob:  # as vllm.logprobs.Logprob is
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


PROMPT: list[dict[int, Logprob] | None] = [
    None,
    {7: Logprob(-3.0, 5), 4: Logprob(-0.5, 1), 2: Logprob(-1.5, 2)},  # 7 is the prompt's own token
    {1: Logprob(-0.1, 1)},
]


@pytest.mark.parametrize("vocab_size", [None, 10])
def test_the_coldest_and_the_hottest(vocab_size: int | None) -> None:
    """The limits: all mass on the likeliest token, or the same for every token; an entry that is empty stays so."""
    store = ss.TopK(torch.tensor([[3, 5, -1]]), torch.tensor([[0.6, 0.3, 0.0]]).log())
    for cold in (1e-20, 1e-40, 1e-300):
        assert store.tempered(cold, vocab_size=vocab_size).logprobs.exp().tolist() == [[1, 0, 0]]
    each = 1 / 2 if vocab_size is None else 1 / 10
    for hot in (1e20, 1e300, math.inf):
        found = store.tempered(hot, vocab_size=vocab_size).logprobs.exp()
        torch.testing.assert_close(found, torch.tensor([[each, each, 0.0]]))


def test_vllms_lists() -> None:
    store = ss.TopK.from_vllm([PROMPT, PROMPT[:2]])
    assert store.ids.shape == (2, 3, 3)
    assert store.ids[0, 1].tolist() == [4, 2, 7]
    assert store.logprobs[0, 1].tolist() == [-0.5, -1.5, -3.0]
    assert store.logprobs[0, 2].tolist() == pytest.approx([-0.1, -math.inf, -math.inf])
    assert store.listed.tolist() == [[False, True, True], [False, True, False]]
    assert store.part(slice(1, None)).listed.tolist() == [[True, True], [True, False]]
    flat = ss.TopK.from_vllm([[{}, *PROMPT[1:]]])  # vLLM's FlatLogprobs has an empty position where a list has None
    assert flat.listed.tolist() == [[False, True, True]]
    short = ss.TopK.from_vllm([PROMPT], k=2, length=5)
    assert short.ids.shape == (1, 5, 2)
    assert short.ids[0, 1].tolist() == [4, 2]


def test_vllms_json() -> None:
    text = json.dumps([None if p is None else {i: vars(entry) for i, entry in p.items()} for p in PROMPT])
    one, other = ss.TopK.from_vllm([PROMPT]), ss.TopK.from_vllm([json.loads(text)])
    assert torch.equal(one.ids, other.ids)
    assert torch.equal(one.logprobs, other.logprobs)


def test_vllms_keys_with_a_prefix() -> None:
    assert ss.TopK.from_vllm([[None, {"token_id:12": -0.1}]]).ids.tolist() == [[[0], [12]]]


LISTS = "a list of positions for each sequence (in a list of its own where it is one; `prompt_logprobs=k` asks for it)"
NUMBER = "a number, or something with a `logprob`, for each token"


@pytest.mark.parametrize(
    ("lists", "rule", "value"),
    [
        (None, LISTS, "None"),
        ([None], LISTS, "None"),  # an output's `prompt_logprobs` where they were not asked for
        ([None, {5: -0.2}, {6: -0.1}], LISTS, "None"),  # one sequence, not in a batch
        ([{5: -0.2}, {6: -0.1}], LISTS, "a dict"),
        (["words"], LISTS, "a str"),
        ([[None, 3.0]], "from token ids to numbers, or None, at every position", "a float"),
        ([[{"dog": -0.1}]], "of token ids (the server gives them with return_tokens_as_token_ids)", "'dog'"),
        ([[{5.5: -0.1}]], "of token ids (the server gives them with return_tokens_as_token_ids)", "5.5"),
        ([[{5: None}]], NUMBER, "None"),
        ([[{5: {"rank": 1}}]], NUMBER, "{'rank': 1}"),
    ],
)
def test_what_is_not_vllms_is_refused(lists: Any, rule: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'`logprobs` must be {rule}; it is {value}.')}$"):
        ss.TopK.from_vllm(lists)


@pytest.mark.parametrize("vocab_size", [None, V])
def test_a_store_of_nothing_has_every_temperature(vocab_size: int | None) -> None:
    store = ss.TopK.from_vllm([[None, None]]).tempered(2.0, vocab_size=vocab_size)
    assert store.ids.shape == (1, 2, 0)


def test_a_sequence_longer_than_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="`length` must be 3 or more, as a sequence has; it is 2"):
        ss.TopK.from_vllm([PROMPT], length=2)


@dataclass
class SparseSignal:  # as distillkit.signals.SparseSignal is
    sparse_ids: Tensor
    sparse_values: Tensor
    log_values: bool


def test_distillkits_signals() -> None:
    _, _, store = pair(0, 3)
    kept = ss.TopK.from_distillkit(SparseSignal(store.ids.int(), store.logprobs, True))
    assert torch.equal(kept.ids, store.ids)
    assert torch.equal(kept.logprobs, store.logprobs)
    logits = ss.TopK.from_distillkit(SparseSignal(store.ids, store.logprobs + 5, False))
    torch.testing.assert_close(logits.mass(), torch.ones(2, 3, dtype=torch.double))


def test_trls_tensors() -> None:
    _, _, store = pair(0, 3)
    found = ss.TopK.from_trl(
        {"topk_token_ids": store.ids, "topk_logprobs": store.logprobs, "actual_logprobs": store.ids}
    )
    assert torch.equal(found.logprobs, store.logprobs)
    with pytest.raises(ValueError, match="`result` must be a dictionary with 'topk_logprobs'; it is one with"):
        ss.TopK.from_trl({"topk_token_ids": store.ids})


def test_what_is_no_list_of_probabilities_is_refused() -> None:
    with pytest.raises(ValueError, match="`logprobs` must be logarithms of probabilities"):
        ss.TopK(torch.tensor([[1, 2]]), torch.tensor([[0.0, 0.0]]))
    with pytest.raises(ValueError, match="`vocab_size` must be given when `tail` is 'uniform'"):
        ss.TopK(torch.tensor([[1]]), torch.tensor([[-1.0]])).entropy(tail="uniform")
    with pytest.raises(ValueError, match="`temperature` must be greater than 0"):
        ss.TopK(torch.tensor([[1]]), torch.tensor([[-1.0]])).tempered(0.0)


def test_some_of_the_positions_are_never_some_of_the_tokens() -> None:
    one = ss.TopK(torch.tensor([[4, 7], [5, 6]]), torch.full((2, 2), -1.0))  # one sequence, not in a batch
    with pytest.raises(ValueError, match=r"^`ids` must be of shape \(B, T, K\); it is \(2, 2\)\.$"):
        one.part(slice(1, None))
    with pytest.raises(ValueError, match=r"^`positions` must be a slice, as slice\(1, None\); it is 1\.$"):
        pair(0, 3)[2].part(1)  # type: ignore[arg-type]


def test_a_vocabulary_that_cannot_be_is_refused() -> None:
    store = ss.TopK(torch.tensor([[5, -1]]), torch.tensor([[-1.0, -math.inf]]))
    for size, sentence in (
        (5, "`ids` must be ids in [0, 5); it is 5 at its highest."),
        (0, "`vocab_size` must be 1 or more; it is 0."),
        ("9", "`vocab_size` must be a whole number; it is '9'."),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            store.tempered(2.0, vocab_size=size)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            store.entropy(tail="uniform", vocab_size=size)  # type: ignore[arg-type]


def test_a_position_that_is_not_listed_has_no_entropy() -> None:
    store = ss.TopK(torch.tensor([[4], [0]]), torch.tensor([[0.0], [-math.inf]]))
    for tail in ("zero", "uniform", "renormalise"):
        assert store.entropy(tail=tail, vocab_size=V).tolist() == [0, 0]  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_vllms_k_is_1_or_more(k: Any) -> None:
    rule = "a whole number" if k == 1.5 else "1 or more"
    with pytest.raises(ValueError, match=f"^`k` must be {rule}; it is {k}"):
        ss.TopK.from_vllm([PROMPT], k=k)


def test_a_position_of_padding_alone_in_distillkits_logits() -> None:
    values = torch.tensor([[1.0, 0.0], [-math.inf, -math.inf]])
    store = ss.TopK.from_distillkit(SparseSignal(torch.tensor([[1, 2], [0, 0]]), values, False))
    assert store.listed.tolist() == [True, False]
    torch.testing.assert_close(store.mass(), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: ss.TopK.from_distillkit({"sparse_ids": None}),
            "`signal` must be a SparseSignal, with `sparse_ids`, `sparse_values` and `log_values`; it is a dict",
        ),
        (lambda: ss.TopK.from_trl(torch.ones(1)), "`result` must be a dictionary; it is a Tensor."),  # type: ignore[arg-type]
        (
            lambda: ss.TopK.from_trl({"topk_token_ids": [[1]], "topk_logprobs": [[0.0]]}),  # type: ignore[dict-item]
            "`topk_token_ids` must be a torch.Tensor; it is a list.",
        ),
    ],
)
def test_what_is_no_store_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()
