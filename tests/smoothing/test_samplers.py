"""Samplers against their exact laws (chi-square, fixed generators, false alarm 1e-4 a test), and Monte-Carlo losses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from oracles import brute_force as oracle
from oracles.chi_square import assert_follows
from oracles.world import World
from seqsmooth.smoothing.records import Setting, Truth

PAD, BOS, EOS, UNK, V = 0, 1, 2, 3, 8
SPECIALS = ss.Specials(PAD, BOS, EOS, UNK)
COUNT = 20_000
VECTORS = torch.randn(V, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def truth_of(
    targets: Tensor, references: Tensor | None = None, specials: ss.Specials = SPECIALS, size: int = V
) -> Truth:
    return Truth.of(targets, references, Setting(specials, size, lazy=False))


def sentences(tokens: Tensor, mask: Tensor) -> list[tuple[int, ...]]:
    return [
        tuple(token for token, real in zip(sentence, reals, strict=True) if real)
        for sentence, reals in zip(tokens.tolist(), mask.tolist(), strict=True)
    ]


TARGETS = torch.tensor([[4, 5, 4, EOS], [UNK, 6, EOS, PAD]])
REFERENCES = torch.tensor([[[4, 5, EOS], [6, UNK, EOS]], [[7, 5, EOS], [PAD, PAD, PAD]]])
POOLS = {
    "vocab": [{4, 5, 6, 7}, {4, 5, 6, 7}],
    "batch": [{4, 5, 6}, {4, 5, 6}],
    "refs": [{4, 5, 6}, {5, 7}],
    "ids": [{4, 7}, {4, 7}],
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("strength", [{"tau": 0.9}, {"rate": 0.4}])
def test_hamming_samples_follow_their_law(pool: str, strength: dict[str, float]) -> None:
    law = ss.Hamming(**strength, pool=torch.tensor([7, 4, BOS, PAD, -1]) if pool == "ids" else pool)
    draws = law.draw(truth_of(TARGETS, REFERENCES), COUNT, torch.Generator().manual_seed(11))
    define = oracle.hamming_law if "tau" in strength else oracle.rate_law
    for b, truth in enumerate([(4, 5, 4, EOS), (UNK, 6, EOS)]):
        pools = [set() if token == EOS else POOLS[pool][b] for token in truth]
        exact = define(truth, pools, *strength.values())
        drawn = sentences(draws.tokens[b], draws.mask[b])
        assert_follows(drawn, exact)
        expected = torch.tensor([math.log(exact[sentence]) for sentence in drawn[:200]], dtype=torch.float64)
        torch.testing.assert_close(draws.log_prob[b, :200], expected, atol=1e-12, rtol=0)


def test_substitutes_follow_the_token_law() -> None:
    law = ss.Hamming(rate=0.5, substitutes=ss.Similarity(VECTORS, 0.5))
    setting = Setting(SPECIALS, V, lazy=False)
    setting = replace(setting, sequence_tables=law.prepare(setting))
    draws = law.draw(Truth.of(TARGETS, None, setting), COUNT, torch.Generator().manual_seed(12))
    rows = oracle.similarity_matrix(VECTORS.tolist(), 0.5, missing=(PAD, BOS))
    for b, truth in enumerate([(4, 5, 4, EOS), (UNK, 6, EOS)]):
        flips = [0.0 if token == EOS else 0.5 for token in truth]
        exact = oracle.substitute_law(truth, flips, rows, {4, 5, 6, 7})
        drawn = sentences(draws.tokens[b], draws.mask[b])
        assert_follows(drawn, exact)
        expected = torch.tensor([math.log(exact[sentence]) for sentence in drawn[:200]], dtype=torch.float64)
        torch.testing.assert_close(draws.log_prob[b, :200], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("tau", [0.5, 2.0])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_edit_samples_follow_the_law_of_scripts(most: int, tau: float) -> None:
    law = ss.Edit(tau, pool=torch.tensor([4, 5]), max_insertions=most)
    targets = torch.tensor([[4, 6, EOS, PAD], [5, EOS, PAD, PAD], [PAD] * 4])
    draws = law.draw(truth_of(targets), COUNT, torch.Generator().manual_seed(13))
    assert draws.tokens.shape == (3, COUNT, 4 + most)
    for b, words in enumerate([(4, 6), (5,)]):
        exact = {(*sentence, EOS): p for sentence, p in oracle.edit_law(words, (4, 5), tau, most).items()}
        assert_follows(sentences(draws.tokens[b], draws.mask[b]), exact)
    assert not draws.mask[2].any()


def test_edit_keeps_what_is_frozen_in_its_place() -> None:
    specials = ss.Specials(PAD, BOS, EOS, UNK, frozen=("bos", "eos", "unk"))
    targets = torch.tensor([[BOS, 4, UNK, 5, EOS]])
    draws = ss.Edit(1.0).draw(truth_of(targets, specials=specials), 500, torch.Generator().manual_seed(14))
    for sentence in sentences(draws.tokens[0], draws.mask[0]):
        assert sentence[0] == BOS
        assert sentence[-1] == EOS
        assert sentence.count(UNK) == sentence.count(BOS) == sentence.count(EOS) == 1


def test_sampled_similarity_follows_its_rows() -> None:
    law = ss.Similarity(VECTORS, 0.5, mode="sampled", k=COUNT)
    objective = ss.Objective(token=law, specials=SPECIALS)
    candidates = objective.propose(torch.tensor([[4, EOS]]), generator=torch.Generator().manual_seed(15))
    rows = oracle.similarity_matrix(VECTORS.tolist(), 0.5, missing=(PAD, BOS))
    for t, token in enumerate((4, EOS)):
        drawn = candidates.target.ids[0, 0, t, 1:].tolist()
        assert_follows(drawn, dict(enumerate(rows[token])))
        torch.testing.assert_close(candidates.target.weights[0, 0, t].sum(), torch.tensor(1.0, dtype=torch.float64))


SAMPLED = {
    "hamming lazy": lambda n: (ss.Hamming(0.9, pool="refs", alpha=0.8, samples=n), True),
    "hamming own": lambda n: (ss.Hamming(0.9, pool="refs", alpha=0.8, samples=n), False),
    "hamming own, not integrated": lambda n: (
        ss.Hamming(0.9, pool="refs", alpha=0.8, samples=n, integrate=False),
        False,
    ),
    "edit": lambda n: (ss.Edit(0.7, torch.tensor([4, 5]), 0.8, n, max_insertions=1), False),
}


def exact_loss(name: str, world: World) -> float:
    total = 0.0
    for b, truth in enumerate([(4, 5, 4, EOS), (UNK, 6, EOS)]):
        if name == "edit":
            law = {(*y, EOS): p for y, p in oracle.edit_law(truth[:-1], (4, 5), 0.7, 1).items()}
        else:
            law = oracle.hamming_law(truth, [set() if t == EOS else POOLS["refs"][b] for t in truth], 0.9)
        total += oracle.expected_loss(
            truth,
            oracle.mixture(truth, law, 0.8),
            lambda t: oracle.identity(V),
            lambda prefix, b=b: world.log_probs(b, prefix),
            lazy=name.endswith("lazy"),
        )
    return total / 7


@pytest.mark.parametrize("name", SAMPLED)
def test_monte_carlo_agrees_within_its_standard_error(name: str) -> None:
    """|mean - exact| below 4 standard errors (false alarm 6e-5), and an error that falls as 1 / sqrt(L).

    The ratio of the standard deviations at L = 4 and L = 64 over 150 repeats is 4; its own error is about 6 %.
    """
    world, spreads = World(V), {}
    exact = exact_loss(name, world)
    generator = torch.Generator().manual_seed(16)
    for count in (4, 64):
        sequence, lazy = SAMPLED[name](count)
        objective = ss.Objective(sequence, lazy=lazy, specials=SPECIALS, vocab_size=V)
        losses = []
        for _ in range(150):
            candidates = objective.propose(TARGETS, references=REFERENCES, generator=generator)
            losses.append(objective(world.decode(candidates.sequences), candidates).total)
            assert candidates.ess == count
        values = torch.stack(losses)
        spreads[count] = values.std()
        assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(values))
    assert 3 < spreads[4] / spreads[64] < 5.3


def test_integrating_the_target_out_lowers_the_variance() -> None:
    world, generator = World(V), torch.Generator().manual_seed(17)
    spreads = []
    for integrate in (True, False):
        sequence = ss.Hamming(0.9, pool="refs", samples=1, integrate=integrate)
        objective = ss.Objective(sequence, lazy=False, specials=SPECIALS, vocab_size=V)
        losses = []
        for _ in range(300):
            candidates = objective.propose(TARGETS, references=REFERENCES, generator=generator)
            losses.append(objective(world.decode(candidates.sequences), candidates).total)
        spreads.append(torch.stack(losses).std())
    assert spreads[0] < 0.8 * spreads[1]


def test_self_normalised_weights_converge() -> None:
    """Tilted and literal estimates of a lazy loss near their laws: the bias falls with L."""
    world, generator = World(V), torch.Generator().manual_seed(18)
    truths = [(4, 5, 4, EOS), (UNK, 6, EOS)]
    reward = ss.rewards.Hamming(dtype=torch.float64)
    for kind in ("tilted", "literal"):
        exact = 0.0
        for b, truth in enumerate(truths):
            proposal = oracle.hamming_law(truth, [set() if t == EOS else POOLS["refs"][b] for t in truth], 0.9)
            law = oracle.rewarded_law(
                proposal, lambda y, truth=truth: -sum(a != c for a, c in zip(y, truth, strict=True)), 1.5, kind
            )
            exact += oracle.expected_loss(
                truth, law, lambda t: oracle.identity(V), lambda p, b=b: world.log_probs(b, p), lazy=True
            )
        sequence = ss.Rewarded(reward, ss.Hamming(0.9, pool="refs"), 1.5, 20_000, weights=kind, against="target")
        objective = ss.Objective(sequence, specials=SPECIALS, vocab_size=V)
        candidates = objective.propose(TARGETS, references=REFERENCES, generator=generator)
        loss = objective(world.decode(candidates.sequences), candidates)
        assert loss.total.item() == pytest.approx(exact / 7, abs=0.02)
        assert 1 < loss.ess < 20_000


@pytest.mark.parametrize("pool", ["vocab", "batch", "refs"])
def test_special_tokens_stay_and_inputs_are_left_alone(pool: str) -> None:
    targets, references = TARGETS.clone(), REFERENCES.clone()
    for sequence in (
        ss.Hamming(rate=1.0, pool=pool, samples=200),
        ss.Rewarded(ss.rewards.Constant(), ss.Hamming(rate=1.0, pool=pool), 1.0, 200),
        ss.Edit(3.0, pool, samples=200),
    ):
        objective = ss.Objective(sequence, lazy=False, specials=SPECIALS, vocab_size=V)
        candidates = objective.propose(targets, references=references, generator=torch.Generator().manual_seed(19))
        inputs, mask = candidates.sequences[:, 1:], candidates.mask[:, 1:]
        assert torch.equal(inputs == PAD, ~mask)
        assert not (inputs == BOS).any()
        assert ((inputs == EOS).sum(-1) == 1).all()
        last = mask.sum(-1) - 1
        assert (inputs.gather(-1, last.unsqueeze(-1)) == EOS).all()
        if not isinstance(sequence, ss.Edit):
            assert torch.equal(inputs == EOS, (targets == EOS).unsqueeze(1).expand_as(inputs))
            assert not (inputs == UNK).any()  # the one in the targets is replaced, and none is drawn
    assert torch.equal(targets, TARGETS)
    assert torch.equal(references, REFERENCES)


def test_specials_can_be_overridden() -> None:
    generous = ss.Specials(PAD, BOS, EOS, UNK, frozen=(), undrawn=("pad", "bos"))
    objective = ss.Objective(ss.Hamming(rate=1.0, samples=500), lazy=False, specials=generous, vocab_size=V)
    inputs = objective.propose(TARGETS, generator=torch.Generator().manual_seed(20)).sequences[:, 1:]
    assert (inputs[0, :, :3] == EOS).any()
    assert (inputs == UNK).any()
    assert not (inputs[0, :, 3] == EOS).any()


def test_the_same_generator_gives_the_same_samples() -> None:
    objective = ss.Objective(ss.Edit(1.0, samples=4), lazy=False, specials=SPECIALS, vocab_size=V)
    one, other, third = (
        objective.propose(TARGETS, generator=torch.Generator().manual_seed(seed)).sequences for seed in (1, 1, 2)
    )
    assert torch.equal(one, other)
    assert not torch.equal(one, third)


def test_padding_does_not_change_the_edit_law() -> None:
    """Twelve words more room, and the same sentence: the lengths of its samples follow one law."""
    lengths = []
    for room in (0, 12):
        targets = torch.nn.functional.pad(torch.tensor([[4, 6, EOS]]), (0, room))
        draws = ss.Edit(2.0, pool=torch.tensor([4, 5])).draw(
            truth_of(targets), COUNT, torch.Generator().manual_seed(21)
        )
        exact = {(*y, EOS): p for y, p in oracle.edit_law((4, 6), (4, 5), 2.0, 2).items()}
        assert_follows(sentences(draws.tokens[0], draws.mask[0]), exact)
        lengths.append(draws.mask.sum(-1).max())
    assert lengths[0] == lengths[1] == 5


def test_edit_inserts_after_the_start_of_an_empty_sentence() -> None:
    draws = ss.Edit(3.0, max_insertions=2).draw(
        truth_of(torch.tensor([[BOS, EOS]])), 500, torch.Generator().manual_seed(22)
    )
    drawn = set(sentences(draws.tokens[0], draws.mask[0]))
    assert all(sentence[0] == BOS and sentence[-1] == EOS for sentence in drawn)
    assert max(map(len, drawn)) == 4
