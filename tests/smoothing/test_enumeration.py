"""Every cell sequence x token x lazy against the expectation written out over all sequences, in float64 at 1e-10."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from oracles import brute_force as oracle
from oracles.world import World
from seqsmooth.ops import targets as targets_room
from seqsmooth.ops.targets import Draws, Source
from seqsmooth.smoothing.records import Setting, Truth

V, EOS = 5, 4
SPECIALS = ss.Specials(eos=EOS)
# Ragged, with and without EOS, one item with a repeated token and one that is a single token.
TARGETS = torch.tensor([[0, 2, 2, 4], [3, 4, -100, -100], [1, -100, -100, -100]])
TRUTHS = [(0, 2, 2, 4), (3, 4), (1,)]
REFERENCES = torch.tensor(
    [
        [[0, 2, 2, 4], [1, 2, 4, -1]],
        [[0, 1, 4, -1], [-1, -1, -1, -1]],
        [[2, 2, 2, 4], [3, -1, -1, -1]],
    ]
)
VECTORS = torch.tensor([[1.0, 0.2], [0.8, -0.5], [-0.3, 1.0], [0.5, 0.5], [0.1, -0.9]], dtype=torch.float64)
COUNTS = torch.tensor([10.0, 1.0, 3.0, 7.0, 2.0], dtype=torch.float64)
TEACHER_IDS = torch.tensor([[[0, 1], [2, 3], [4, 0], [1, 2]], [[3, 0], [4, 1], [0, 1], [0, 1]], [[1, 0]] * 4])
TEACHER = torch.tensor([0.6, 0.3], dtype=torch.float64).log().expand(3, 4, 2).clone()

POOLS: dict[str, Callable[[int], set[int]]] = {
    "vocab": lambda b: {0, 1, 2, 3},
    "batch": lambda b: {0, 1, 2, 3},
    "refs": lambda b: [{0, 1, 2}, {0, 1}, {2, 3}][b],
    "ids": lambda b: {1, 3},
}


def pools_at(b: int, pool: set[int]) -> list[set[int]]:
    """The pool of each position: nothing may replace EOS."""
    return [set() if token == EOS else pool for token in TRUTHS[b]]


@dataclass(frozen=True)
class TokenCase:
    law: Callable[[], ss.smoothing.token_law.TokenLaw]
    matrix: Callable[[int, int], oracle.Matrix]  # item, position


def _teacher_matrix(b: int, t: int, tail: str) -> oracle.Matrix:
    row = [0.0] * V
    for token, logprob in zip(TEACHER_IDS[b, t].tolist(), TEACHER[b, t].tolist(), strict=True):
        row[token] = math.exp(logprob)
    rest = 1 - sum(row)
    if tail == "uniform":
        row = [entry if entry else rest / (V - 2) for entry in row]
    if tail == "renormalise":
        row = [entry / sum(row) for entry in row]
    return oracle.kernel(0.7, [row] * V)


def _top(k: int, rows: oracle.Matrix) -> oracle.Matrix:
    kept = [sorted(range(V), key=lambda v: -row[v])[:k] for row in rows]
    totals = [sum(row[v] for v in best) for row, best in zip(rows, kept, strict=True)]
    return [
        [row[v] / total if v in best else 0.0 for v in range(V)]
        for row, best, total in zip(rows, kept, totals, strict=True)
    ]


SIMILAR = oracle.similarity_matrix(VECTORS.tolist(), 0.4)
FREQUENT = oracle.similarity_matrix(VECTORS.tolist(), 0.4, 0.3, COUNTS.tolist())
PARTIAL = oracle.similarity_matrix(VECTORS.tolist(), 0.4, missing=(0, 4))
TOKENS: dict[str, TokenCase] = {
    "dirac": TokenCase(ss.Dirac, lambda b, t: oracle.identity(V)),
    "uniform": TokenCase(lambda: ss.Uniform(0.3), lambda b, t: oracle.kernel(0.3, oracle.uniform_matrix(V))),
    "similarity": TokenCase(lambda: ss.Similarity(VECTORS, 0.4, alpha=0.6), lambda b, t: oracle.kernel(0.6, SIMILAR)),
    "on the fly": TokenCase(
        lambda: ss.Similarity(VECTORS, 0.4, alpha=0.6, stored=False), lambda b, t: oracle.kernel(0.6, SIMILAR)
    ),
    "r^freq": TokenCase(lambda: ss.Similarity(VECTORS, 0.4, 0.3, COUNTS), lambda b, t: oracle.kernel(1.0, FREQUENT)),
    "missing": TokenCase(
        lambda: ss.Similarity(VECTORS, 0.4, alpha=0.6, missing=(0, 4)), lambda b, t: oracle.kernel(0.6, PARTIAL)
    ),
    "top-k": TokenCase(
        lambda: ss.Similarity(VECTORS, 0.4, alpha=0.6, mode="top-k", k=2),
        lambda b, t: oracle.kernel(0.6, _top(2, SIMILAR)),
    ),
    **{
        f"teacher {tail}": TokenCase(
            lambda tail=tail: ss.Teacher(TEACHER_IDS, TEACHER, tail=tail, alpha=0.7),
            lambda b, t, tail=tail: _teacher_matrix(b, t, tail),
        )
        for tail in ("zero", "uniform", "renormalise")
    },
}
BY_LABEL = [name for name in TOKENS if not name.startswith("teacher")]


def brute_force(laws: list[oracle.Law], token: str, world: World, *, lazy: bool) -> float:
    """The batch loss by definition: all items' expected losses over the number of tokens."""
    total = sum(
        oracle.expected_loss(
            TRUTHS[b],
            laws[b],
            lambda t, b=b: TOKENS[token].matrix(b, t),
            lambda prefix, b=b: world.log_probs(b, prefix),
            lazy=lazy,
        )
        for b in range(len(TRUTHS))
    )
    return total / sum(len(truth) for truth in TRUTHS)


def smoothed(
    objective: ss.Objective, world: World, generator: torch.Generator | None = None, targets: Tensor = TARGETS
) -> float:
    candidates = objective.propose(targets, references=REFERENCES[: len(targets)], generator=generator)
    return objective(world.decode(candidates.sequences), candidates).total.item()


def pool_argument(name: str) -> str | Tensor:
    return torch.tensor([3, 1, 1, 3]) if name == "ids" else name


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("token", TOKENS)
def test_ground_truth(token: str, lazy: bool) -> None:
    world = World(V)
    laws = [{truth: 1.0} for truth in TRUTHS]
    objective = ss.Objective(token=TOKENS[token].law(), lazy=lazy, specials=SPECIALS, vocab_size=V)
    assert smoothed(objective, world) == pytest.approx(brute_force(laws, token, world, lazy=lazy), abs=1e-10)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("strength", [{"tau": 0.7}, {"tau": 5.0}, {"rate": 0.35}])
def test_lazy_hamming_closed_form(pool: str, token: str, strength: dict[str, float]) -> None:
    world = World(V)
    define = oracle.hamming_law if "tau" in strength else oracle.rate_law
    laws = [
        oracle.mixture(truth, define(truth, pools_at(b, POOLS[pool](b)), *strength.values()), 0.8)
        for b, truth in enumerate(TRUTHS)
    ]
    sequence = ss.Hamming(**strength, pool=pool_argument(pool), alpha=0.8)
    objective = ss.Objective(sequence, TOKENS[token].law(), specials=SPECIALS, vocab_size=V)
    assert smoothed(objective, world) == pytest.approx(brute_force(laws, token, world, lazy=True), abs=1e-10)


@pytest.mark.parametrize("integrate", [True, False])
@pytest.mark.parametrize("token", ["dirac", "uniform", "r^freq", "on the fly", "missing"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("lazy", [True, False])
def test_one_hamming_sample_averages_to_the_expectation(
    pool: str, token: str, integrate: bool, lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is linear in the law of its sample, so weighing every possible sample by its probability is exact."""
    world, total = World(V), 0.0
    laws = [oracle.hamming_law(truth, pools_at(b, POOLS[pool](b)), 0.7) for b, truth in enumerate(TRUTHS)]
    mixed = [oracle.mixture(truth, law, 0.8) for truth, law in zip(TRUTHS, laws, strict=True)]
    sequence = ss.Hamming(tau=0.7, pool=pool_argument(pool), alpha=0.8, samples=1, integrate=integrate)
    objective = ss.Objective(sequence, TOKENS[token].law(), lazy=lazy, specials=SPECIALS, vocab_size=V)
    for b, law in enumerate(laws):
        for sentence, probability in law.items():
            script = TARGETS.clone()
            script[b, : len(sentence)] = torch.tensor(sentence)

            def scripted(source: Source, *_: object, script: Tensor = script) -> Draws:
                drawn = torch.where(source.mask, script, source.tokens).unsqueeze(1)
                return Draws(drawn, source.mask.unsqueeze(1), None)

            monkeypatch.setattr(targets_room, "draws", scripted)
            candidates = objective.propose(TARGETS, references=REFERENCES)
            each = objective(world.decode(candidates.sequences), candidates, reduction="none").total[b].sum()
            total += probability * each.item()
    total /= sum(len(truth) for truth in TRUTHS)
    assert total == pytest.approx(brute_force(mixed, token, world, lazy=lazy), abs=1e-10)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("strength", [{"tau": 0.7}, {"rate": 0.35}])
def test_substitutes_from_the_token_law(token: str, strength: dict[str, float]) -> None:
    world, laws = World(V), []
    rows = oracle.similarity_matrix(VECTORS.tolist(), 0.5)
    for truth in TRUTHS:
        flips = [0.0 if word == EOS else _flip(strength) for word in truth]
        laws.append(oracle.mixture(truth, oracle.substitute_law(truth, flips, rows, {0, 1, 2, 3}), 0.8))
    sequence = ss.Hamming(**strength, alpha=0.8, substitutes=ss.Similarity(VECTORS, 0.5, alpha=0.3))
    objective = ss.Objective(sequence, TOKENS[token].law(), specials=SPECIALS, vocab_size=V)
    assert smoothed(objective, world) == pytest.approx(brute_force(laws, token, world, lazy=True), abs=1e-10)


def _flip(strength: dict[str, float]) -> float:
    if "rate" in strength:
        return strength["rate"]
    odds = 3 * math.exp(-1 / strength["tau"])  # three other words
    return odds / (1 + odds)


class Enumerated(ss.Hamming):
    """A proposal that returns every sequence once, carrying its probability as a weight."""

    def draw(self, truth: Truth, count: int, generator: torch.Generator | None) -> Draws:
        tokens, bases = [], []
        for b in range(truth.targets.shape[0]):
            law = oracle.hamming_law(TRUTHS[b], pools_at(b, POOLS[self.pool](b)), self.tau)
            padded = [[*sentence, *[0] * (4 - len(sentence))] for sentence in law]
            filling = 4**3 * 2 - len(law)
            tokens.append(torch.tensor(padded + padded[:1] * filling))
            logs = [*(math.log(p) for p in law.values()), *[-math.inf] * filling]
            bases.append(torch.tensor(logs, dtype=torch.float64))
        base = torch.stack(bases)
        draws = torch.stack(tokens)
        return Draws(draws, truth.mask.unsqueeze(1).expand(draws.shape), base.clamp_min(-1e9), base)


def overlap(sentence: oracle.Sentence, b: int) -> float:
    """A reward that does not factorise: distinct words shared with the references, and a bonus for a repeated one."""
    words = [word for word in sentence if word != EOS]
    known = {w for w in REFERENCES[b].flatten().tolist() if w not in (-1, EOS)}
    return len(known & set(words)) + 0.5 * (len(set(words)) < len(words))


def overlap_reward(candidates: Tensor, references: Tensor) -> Tensor:
    scores = torch.zeros(candidates.shape[:2], dtype=torch.float64)
    for b, k in itertools.product(range(candidates.shape[0]), range(candidates.shape[1])):
        words = [w for w in candidates[b, k].tolist() if w >= 0]
        known = {w for w in references[b].flatten().tolist() if w >= 0}
        assert EOS not in words
        assert EOS not in known
        scores[b, k] = len(known & set(words)) + 0.5 * (len(set(words)) < len(words))
    return scores


@pytest.mark.parametrize("kind", ["tilted", "literal"])
@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("pool", ["vocab", "refs"])
@pytest.mark.parametrize("lazy", [True, False])
def test_rewarded(pool: str, token: str, kind: str, lazy: bool) -> None:
    if token.startswith("teacher") and not lazy:
        pytest.skip("a teacher knows the ground truth's prefix only; the constructor refuses it, see tests/mistakes")
    world, laws = World(V), []
    for b, truth in enumerate(TRUTHS):
        proposal = oracle.hamming_law(truth, pools_at(b, POOLS[pool](b)), 0.6)
        law = oracle.rewarded_law(proposal, lambda y, b=b: overlap(y, b), 0.9, kind)
        laws.append(oracle.mixture(truth, law, 0.75))
    sequence = ss.Rewarded(overlap_reward, Enumerated(tau=0.6, pool=pool), 0.9, 2, 0.75, weights=kind)
    objective = ss.Objective(sequence, TOKENS[token].law(), lazy=lazy, specials=SPECIALS, vocab_size=V)
    assert smoothed(objective, world) == pytest.approx(brute_force(laws, token, world, lazy=lazy), abs=1e-10)


@pytest.mark.parametrize("lazy", [True, False])
def test_batch_weights_are_rewards_over_their_mean(lazy: bool) -> None:
    """With one sample: loss = (1 - alpha) MLE + alpha sum_b exp(R_b / tau) / mean(exp(R / tau)) * nll(y_b)."""
    world = World(V)
    sampled = [(0, 1, 2, 4), (0, 4), (3,)]
    script = torch.tensor([[0, 1, 2, 4], [0, 4, 0, 0], [3, 0, 0, 0]])

    class Fixed(ss.Hamming):
        def draw(self, truth: Truth, count: int, generator: torch.Generator | None) -> Draws:
            return Draws(script.unsqueeze(1), truth.mask.unsqueeze(1), None)

    weights = [math.exp(overlap(sentence, b) / 0.5) for b, sentence in enumerate(sampled)]
    weights = [3 * weight / sum(weights) for weight in weights]
    laws = []
    for truth, sentence, weight in zip(TRUTHS, sampled, weights, strict=True):
        laws.append({truth: 0.4, sentence: 0.6 * weight})
    sequence = ss.Rewarded(overlap_reward, Fixed(tau=1.0), 0.5, 1, 0.6, weights="batch")
    objective = ss.Objective(sequence, lazy=lazy, specials=SPECIALS, vocab_size=V)
    candidates = objective.propose(TARGETS, references=REFERENCES)
    loss = objective(world.decode(candidates.sequences), candidates)
    assert loss.total.item() == pytest.approx(brute_force(laws, "dirac", world, lazy=lazy), abs=1e-10)
    assert loss.ess.item() == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights) / 3, abs=1e-10)


def test_the_appendix_distance_law_is_ours() -> None:
    """p(d) of Eq. 25 equals the law of the number of our flips, which is binomial."""
    for size, steps, tau in itertools.product((2, 3, 5), (1, 2, 4), (0.2, 0.7, 3.0)):
        denominator = ((size - 1) * math.exp(-1 / tau) + 1) ** steps
        law = ss.Hamming(tau=tau)
        truth = Truth.of(torch.zeros(1, steps, dtype=torch.long), None, Setting(ss.Specials(), size))
        flip, *_ = targets_room.chances(truth, targets_room.truth(truth), law.pool_of(truth), law)
        flip = flip[0].tolist()
        for d in range(steps + 1):
            paper = math.comb(steps, d) * (size - 1) ** d * math.exp(-d / tau) / denominator
            ours = sum(
                math.prod(p if i in changed else 1 - p for i, p in enumerate(flip))
                for changed in itertools.combinations(range(steps), d)
            )
            assert ours == pytest.approx(paper, abs=1e-14)


@pytest.mark.parametrize(("size", "steps"), [(2, 1), (2, 4), (3, 3), (5, 1), (5, 4)])
def test_small_vocabularies(size: int, steps: int) -> None:
    """V = 2, T = 1 and a batch of one, without special tokens, lazy closed form against all V^T sequences."""
    world = World(size, seed=1)
    generator = torch.Generator().manual_seed(size * 10 + steps)
    targets = torch.randint(size, (1, steps), generator=generator)
    vectors = torch.randn(size, 3, dtype=torch.float64, generator=generator)
    truth = tuple(targets[0].tolist())
    law = oracle.mixture(truth, oracle.hamming_law(truth, [range(size)] * steps, 0.9), 0.5)
    matrix = oracle.kernel(0.5, oracle.similarity_matrix(vectors.tolist(), 0.3))
    expected = oracle.expected_loss(truth, law, lambda t: matrix, lambda p: world.log_probs(0, p), lazy=True) / steps
    objective = ss.Objective(ss.Hamming(tau=0.9, alpha=0.5), ss.Similarity(vectors, 0.3, alpha=0.5))
    assert objective(world.decode(targets.unsqueeze(1)), targets).total.item() == pytest.approx(expected, abs=1e-10)
