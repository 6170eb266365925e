from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import seqsmooth as ss
from oracles.chi_square import assert_follows
from oracles.exhaustive import Law, Reader
from oracles.launches import counted
from oracles.small_models import NAMES, small_inputs, small_model
from seqsmooth.decoding import Greedy, Hypothesis, Sampling

BARE = ss.Specials(bos=0, eos=1)
FULL = ss.Specials(pad=0, bos=1, eos=2, unk=3)


def narrowed(shares: dict[int, float], top_k: int | None, top_p: float | None) -> dict[int, float]:
    """The law of a step after its two cuts, by lists."""
    kept = sorted(shares, key=lambda token: -shares[token])[:top_k]
    mass = sum(shares[token] for token in kept)
    if top_p is not None:
        fewest = next(n for n in range(1, len(kept) + 1) if sum(shares[t] for t in kept[:n]) / mass >= top_p)
        kept = kept[:fewest]
    mass = sum(shares[token] for token in kept)
    return {token: shares[token] / mass for token in kept}


def sequences(reader: Reader, law: Law, temperature: float, top_k: int | None, top_p: float | None) -> dict[Any, float]:
    """The probability of every hypothesis."""
    found: dict[Any, float] = {}

    def grow(words: tuple[int, ...], probability: float) -> None:
        if len(words) == law.max_length:
            found[words, False] = probability
            return
        may = [token for token in law.words if law.allows((*words, token))]
        may += [law.eos] if len(words) >= law.min_length else []
        after = reader(words)
        shares = {token: math.exp(after[token] / temperature) for token in may}
        for token, share in narrowed(shares, top_k, top_p).items():
            if token == law.eos:
                found[words, True] = probability * share
            else:
                grow((*words, token), probability * share)

    grow((), 1.0)
    assert sum(found.values()) == pytest.approx(1)
    return found


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"temperature": 2.0},
        {"temperature": 0.5, "min_length": 1},
        {"top_k": 2},
        {"top_p": 0.7},
        {"top_k": 3, "top_p": 0.8, "temperature": 1.5},
        {"no_repeat": 1, "temperature": 3.0},
    ],
    ids=str,
)
def test_sampling_follows_its_law(rules: dict[str, Any]) -> None:
    """Whole sequences, by chi-square at a false-alarm rate of 1e-4."""
    model, inputs = small_model("top_down", 5, seed=3, spread=1.0), small_inputs("top_down", 2)
    found = Sampling(BARE, 3, samples=20_000, **rules)(model, *inputs, generator=torch.Generator().manual_seed(0))
    cuts = {name: rules.get(name) for name in ("top_k", "top_p")}
    law = Law(5, 0, 1, 3, rules.get("min_length", 0), forbidden=(0,), no_repeat=rules.get("no_repeat", 0))
    for item, hypotheses in enumerate(found.lists()):
        expected = sequences(Reader(model, inputs, item, 0), law, rules.get("temperature", 1.0), **cuts)
        assert_follows([(h.tokens, h.finished) for h in hypotheses], expected)


@pytest.mark.parametrize(
    "decoder", [Greedy(FULL, 6), Sampling(FULL, 6, samples=3, temperature=2.0)], ids=["greedy", "sampling"]
)
@pytest.mark.parametrize("name", NAMES)
def test_log_probabilities_are_those_of_teacher_forcing(name: str, decoder: Any) -> None:
    kinds = set()
    for seed in range(4):
        model, inputs = small_model(name, 9, seed), small_inputs(name, 6, seed)
        found = decoder(model, *inputs)
        assert found.tokens.shape == (6, getattr(decoder, "samples", 1), 6)
        for item, hypotheses in enumerate(found.lists()):
            reader = Reader(model, inputs, item, 1)
            for h in hypotheses:
                kinds.add(h.finished)
                assert not {0, 1, 2, 3} & set(h.tokens)
                assert h.finished == (len(h.tokens) < 6)
                expected = reader.log_prob(h.tokens, 2 if h.finished else None)
                assert h.log_prob == pytest.approx(expected, abs=1e-10, rel=0)
                assert h.score == pytest.approx(h.log_prob / (len(h.tokens) + h.finished), abs=1e-12, rel=0)
        padding = torch.arange(6) >= found.lengths.unsqueeze(-1)
        assert (found.tokens[padding] == 0).all()
        assert (found.tokens[~padding] > 3).all()
    assert kinds == {True, False}


@pytest.mark.parametrize("rules", [{}, {"min_length": 4}, {"no_repeat": 1}, {"no_repeat": 2}], ids=str)
def test_greedy_takes_the_likeliest(rules: dict[str, int]) -> None:
    model, inputs = small_model("show_tell", 12, seed=1), small_inputs("show_tell", 6)
    law = Law(12, 1, 2, 7, rules.get("min_length", 0), forbidden=(0, 1, 3), no_repeat=rules.get("no_repeat", 0))
    for item, (h,) in enumerate(Greedy(FULL, 7, **rules)(model, *inputs).lists()):
        reader, words = Reader(model, inputs, item, 1), ()
        while len(words) < 7:
            after = reader(words)
            may = [token for token in law.words if law.allows((*words, token))]
            may += [2] if len(words) >= law.min_length else []
            token = max(may, key=after.__getitem__)
            if token == 2:
                break
            words = (*words, token)
        assert (h.tokens, h.finished) == (words, len(words) < 7)


def test_a_cold_sample_is_greedy() -> None:
    model, inputs = small_model("rnnsearch", 12, seed=2), small_inputs("rnnsearch", 5)
    greedy = [h.tokens for (h,) in Greedy(FULL, 7)(model, *inputs).lists()]
    for rules in ({"temperature": 1e-3}, {"top_k": 1}, {"top_p": 1e-6}):
        assert [h.tokens for (h,) in Sampling(FULL, 7, **rules)(model, *inputs).lists()] == greedy


def test_the_fewest_tokens_that_have_the_share_are_kept() -> None:
    law = Sampling(FULL, 7, top_p=0.5).law(torch.tensor([[0.25, 0.5, 0.125, 0.125]]).log())
    assert law[0].tolist() == pytest.approx([0, 0.5, 0, 0])


@pytest.mark.parametrize(
    ("temperature", "shares"), [(1e-300, [0, 1, 0, 0]), (1e-45, [0, 1, 0, 0]), (1e300, [1 / 3, 1 / 3, 0, 1 / 3])]
)
def test_the_coldest_and_the_hottest_law(temperature: float, shares: list[float]) -> None:
    """In fp32, which has no number for such a temperature: all at the likeliest, or the same for all that may be."""
    law = Sampling(FULL, 7, temperature=temperature).law(torch.tensor([[-9.0, -1.0, -math.inf, -2.0]]))
    assert law[0].tolist() == pytest.approx(shares)


@pytest.mark.parametrize("rules", [{}, {"min_length": 5}, {"top_k": 3, "top_p": 0.5}], ids=str)
def test_a_model_that_says_nan(rules: dict[str, Any]) -> None:
    """It is not taken for an item of which the rules leave nothing, though its draw, 0, is forbidden."""
    model, (features,) = small_model("show_tell", 8), small_inputs("show_tell", 3)
    features[1] = math.nan
    found = Sampling(FULL, 5, samples=2, **rules)(model, features)
    assert found.log_probs.isnan().tolist() == [[False, False], [True, True], [False, False]]
    with pytest.raises(ValueError, match=r"`log_probs` must be numbers .*; it is NaN for 2 hypotheses"):
        found.lists()


def test_the_generator_decides() -> None:
    model, inputs = small_model("show_tell", 12, spread=0.5), small_inputs("show_tell", 5)

    def draw(seed: int) -> list[list[Hypothesis]]:
        return Sampling(FULL, 7)(model, *inputs, generator=torch.Generator().manual_seed(seed)).lists()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize("decoder", [Greedy, Sampling])
def test_stopping_early_changes_nothing(decoder: Any) -> None:
    model, inputs = small_model("show_tell", 9), small_inputs("show_tell", 5)
    with torch.no_grad():
        model.head.bias[2] += 5
    taken = []
    for every in (0, 1, 4):
        torch.manual_seed(0)
        with counted() as launches:
            found = decoder(FULL, 40, check_every=every)(model, *inputs)
        taken.append((len(launches), found.lists(), found.tokens.shape))
    assert taken[0][1:] == taken[1][1:] == taken[2][1:]
    assert taken[2][0] < taken[0][0] / 2


def test_a_greedy_step_is_a_handful_of_launches() -> None:
    """The model's launches, and four: logarithms, what is forbidden, the likeliest, its share."""
    model, inputs, token = small_model("show_tell", 50), small_inputs("show_tell", 4), torch.ones(4, dtype=torch.long)
    memory = model.encode(*inputs)
    state = model.start(memory)
    with counted() as alone, torch.no_grad():
        model.logits(model.step(memory, state, token)[0])
    counts = []
    for steps in (5, 6):
        with counted() as launches:
            Greedy(FULL, steps, check_every=0)(model, *inputs)
        counts.append(len(launches))
        assert not [launch for launch in launches if "item" in launch or "local_scalar" in launch]
    assert counts[1] - counts[0] <= len(alone) + 4


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"samples": 0}, "`samples` must be 1 or more"),
        ({"temperature": 0.0}, "`temperature` must be greater than 0"),
        ({"temperature": math.inf}, "`temperature` must be finite"),
        ({"top_k": 0}, "`top_k` must be 1 or more"),
        ({"top_p": 0.0}, "`top_p` must be greater than 0"),
        ({"top_p": 1.5}, "`top_p` must be between 0 and 1"),
    ],
)
def test_mistakes(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(FULL, 5, **rules)


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(ValueError, match=r"`generator` must be a torch\.Generator .*; it is an int"):
        Sampling(FULL, 5)(small_model("show_tell", 8), *small_inputs("show_tell", 2), generator=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("decoder", [Greedy, Sampling])
def test_dropout_must_be_off(decoder: Any) -> None:
    with pytest.raises(ValueError, match="`model` must be in evaluation mode"):
        decoder(FULL, 5)(small_model("show_tell", 8).train(), *small_inputs("show_tell", 2))
