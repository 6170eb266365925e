"""Kernels that make targets, against plain torch on the same uniform numbers: the same tokens, one by one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from oracles.kernel_targets import SHAPES, SPECIALS, WORDS, V, assert_same, both, listed, pool_of, seeded, sentences
from seqsmooth.ops.dispatch import VARIABLE
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.tables import SetTable, SparseTable
from seqsmooth.ops.targets import Draws
from seqsmooth.smoothing.records import Setting, Truth

kernel_targets = pytest.importorskip("seqsmooth.ops.kernels.targets")


@pytest.mark.parametrize("specials", SPECIALS)
def test_the_truth(specials: str, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = ss.Objective(specials=SPECIALS[specials], vocab_size=V).to(kernels)
    for batch, steps, _ in SHAPES:
        targets = sentences(batch, steps, SPECIALS[specials], kernels)
        assert_same(*both(monkeypatch, lambda targets=targets: objective.propose(targets)))


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("specials", ["none", "all"])
def test_label_smoothing(specials: str, alpha: float, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel that reads the truth sets the share apart that is spread."""
    objective = ss.Objective(token=ss.Uniform(alpha), specials=SPECIALS[specials], vocab_size=V).to(kernels)
    for batch, steps, _ in SHAPES:
        targets = sentences(batch, steps, SPECIALS[specials], kernels)
        assert_same(*both(monkeypatch, lambda targets=targets: objective.propose(targets)))


@pytest.mark.parametrize(
    "strength", [{"tau": 0.3}, {"rate": 0.4}, {"rate": 1.0}, {"rate": 0.0}, {"tau": 1e-320}, {"tau": math.inf}]
)
@pytest.mark.parametrize("pool", ["vocab", "batch", "refs", "ids", "ids each"])
@pytest.mark.parametrize("samples", [None, 4])
def test_hamming(
    samples: int | None,
    pool: str,
    strength: dict[str, float],
    kernels: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for batch, steps in ((1, 1), (4, 6)):
        law = ss.Hamming(**strength, pool=pool_of(pool, batch, kernels), alpha=0.7, samples=samples)
        objective = ss.Objective(law, specials=WORDS, vocab_size=V).to(kernels)
        targets, references = sentences(batch, steps, WORDS, kernels), listed(batch, kernels)
        assert_same(
            *both(
                monkeypatch,
                lambda: objective.propose(targets, references=references, generator=seeded(kernels)),  # noqa: B023
            )
        )


@pytest.mark.parametrize("pool", ["vocab", "refs"])
def test_samples_of_a_counting_generator(pool: str, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of `Philox.uniforms`, and each launch is one draw."""
    law = ss.Hamming(rate=0.4, pool=pool_of(pool, 4, kernels), alpha=0.7, samples=70)  # of several programs an item
    objective = ss.Objective(law, specials=WORDS, vocab_size=V).to(kernels)
    targets, references = sentences(4, 6, WORDS, kernels), listed(4, kernels)

    def twice() -> tuple[ss.Candidates, ss.Candidates, Tensor]:
        source = ss.Philox(5, kernels)
        first, second = (objective.propose(targets, references=references, generator=source) for _ in range(2))
        return first, second, source.get_state()

    ours, plain = both(monkeypatch, twice)
    for mine, theirs in zip(ours[:2], plain[:2], strict=True):
        assert_same(mine, theirs)
    assert not torch.equal(ours[0].target.ids, ours[1].target.ids)
    assert ours[2].tolist() == plain[2].tolist() == [5, 2, 0]
    with pytest.raises(ValueError, match="`generator` must be on the device of the targets"):
        objective.propose(targets, references=references, generator=ss.Philox(5, "meta"))


class Kept(ss.Uniform):
    """Spreads nothing."""

    def spread(self, target: SoftTarget, setting: Setting, generator: object) -> SoftTarget:
        return target


class Renamed(ss.GroundTruth):
    """Takes the measure of the ground truth for its own."""

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> ss.Candidates:
        made = ss.GroundTruth().measure(truth, lazy=lazy, generator=generator)
        return ss.Candidates(made.sequences, made.mask, made.weights, made.target, made.labels, made.count, made.ess)


@pytest.mark.parametrize("laws", [(None, Kept(0.3)), (Renamed(), ss.Uniform(0.3))])
def test_laws_of_users_spread_as_they_say(
    laws: tuple[ss.GroundTruth | None, ss.Uniform], kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kernel of ours sets apart is for our own laws."""
    targets = sentences(3, 5, WORDS, kernels)
    objective = ss.Objective(*laws, specials=WORDS, vocab_size=V).to(kernels)
    assert_same(*both(monkeypatch, lambda: objective.propose(targets)))


def test_a_similarity_law_has_the_tokens_of_the_batch_listed(
    kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It multiplies their rows by its own, and there are fewer of them than of all tokens."""
    vectors = torch.randn(V, 3, generator=torch.Generator().manual_seed(1))
    targets, seen = sentences(8, 12, WORDS, kernels), []  # more of them than fit a short list

    def watch(*given: object, expectation: Any = kernel_targets.expectation, **how: object) -> ss.Candidates:
        candidates: ss.Candidates = expectation(*given, **how)
        seen.append(type(candidates.target.rows[0].table))
        return candidates

    monkeypatch.setattr(kernel_targets, "expectation", watch)
    for token in (ss.Uniform(0.1), ss.Similarity(vectors, 0.4)):
        objective = ss.Objective(ss.Hamming(0.3, pool="batch"), token, specials=WORDS, vocab_size=V).to(kernels)
        objective.propose(targets)
    assert seen == [SetTable, SparseTable]


@pytest.mark.parametrize("specials", SPECIALS)
@pytest.mark.parametrize("pool", ["vocab", "batch", "refs"])
def test_hamming_leaves_specials_alone(
    pool: str, specials: str, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets, references = sentences(4, 6, SPECIALS[specials], kernels), listed(4, kernels)
    for samples in (None, 6):
        law = ss.Hamming(rate=0.8, pool=pool, samples=samples)
        objective = ss.Objective(law, specials=SPECIALS[specials], vocab_size=V).to(kernels)
        assert_same(
            *both(
                monkeypatch,
                lambda: objective.propose(targets, references=references, generator=seeded(kernels)),  # noqa: B023
            )
        )


@pytest.mark.parametrize("few", [0, 2048])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pool", ["vocab", "batch", "refs"])
def test_draws(
    pool: str, shape: tuple[int, int, int], few: int, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens and their probability, from a truth with a mask of its own, by large programs and by small ones."""
    monkeypatch.setattr("seqsmooth.ops.kernels.targets.FEW", few)
    batch, steps, count = shape
    targets = sentences(batch, steps, WORDS, kernels)
    mask = (targets != 0) & (torch.arange(steps, device=kernels) != 2)
    law = ss.Hamming(0.35, pool=pool)

    def draw() -> Draws:
        truth = Truth.of(targets.where(mask, -100), listed(batch, kernels), Setting(WORDS, V))
        return law.draw(truth, count, seeded(kernels, 1))

    ours, plain = both(monkeypatch, draw)
    assert ours.tokens.shape == (batch, count, steps)
    assert torch.equal(ours.tokens, plain.tokens)
    assert torch.equal(ours.mask, plain.mask)
    torch.testing.assert_close(ours.log_prob, plain.log_prob, rtol=0, atol=1e-12)
    if kernels.type == "cpu" and steps > 1:  # with the numbers of the CPU's generator
        assert bool((ours.tokens != torch.where(mask, targets, 0).unsqueeze(1)).any())


def test_a_vocabulary_of_specials(kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """No token may be drawn, or one."""
    for size in (4, 5):
        targets = torch.tensor([[3, 2, 0]], device=kernels)
        objective = ss.Objective(ss.Hamming(rate=1.0, samples=3), specials=WORDS, vocab_size=size).to(kernels)
        drawn = [
            candidates.target.ids
            for candidates in both(monkeypatch, lambda: objective.propose(targets, generator=seeded(kernels)))  # noqa: B023
        ]
        assert torch.equal(*drawn)
        assert drawn[0][0, 0, :, 1].tolist() == [3 if size == 4 else 4, 2, -100]


@pytest.mark.parametrize("samples", [None, 3])
@pytest.mark.parametrize("strength", [{"tau": 0.9}, {"rate": 0.6}])
def test_pools_without_another_token(
    strength: dict[str, float], samples: int | None, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool of the token itself, and one of nothing: all mass stays."""
    targets = torch.tensor([[5, 6], [5, 7]], device=kernels)
    references = torch.tensor([[[5]], [[-1]]], device=kernels)
    law = ss.Hamming(**strength, pool="refs", samples=samples)
    objective = ss.Objective(law, specials=WORDS, vocab_size=V).to(kernels)
    ours, plain = both(
        monkeypatch, lambda: objective.propose(targets, references=references, generator=seeded(kernels))
    )
    assert_same(ours, plain)
    for b, t in ((0, 0), (1, 0), (1, 1)):
        assert float(ours.target.dense(V)[b, 0, t, targets[b, t]]) == pytest.approx(1, abs=1e-6)


def test_targets_and_references_of_any_stride(kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = sentences(4, 6, WORDS, kernels)
    spread = torch.stack([targets, targets.flip(0)], -1)[..., 0]
    references = listed(4, kernels).transpose(1, 2).contiguous().transpose(1, 2)
    assert not spread.is_contiguous()
    assert not references.is_contiguous()
    for pool in ("vocab", "batch", "refs"):
        objective = ss.Objective(ss.Hamming(0.4, pool=pool, samples=2), specials=WORDS, vocab_size=V).to(kernels)
        monkeypatch.setenv(VARIABLE, "triton")
        assert_same(
            objective.propose(spread, references=references, generator=seeded(kernels)),
            objective.propose(targets, references=references.contiguous(), generator=seeded(kernels)),
        )


@pytest.mark.parametrize("token", ["uniform", "similarity", "sampled", "teacher"])
def test_any_token_law_goes_with_them(token: str, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.randn(V, 3, generator=torch.Generator().manual_seed(1))
    law = {
        "uniform": lambda: ss.Uniform(0.2),
        "similarity": lambda: ss.Similarity(vectors, 0.4, alpha=0.5),
        "sampled": lambda: ss.Similarity(vectors, 0.4, alpha=0.5, mode="sampled", k=3),
        "teacher": lambda: ss.Teacher(torch.randint(V, (4, 6, 2)), torch.full((4, 6, 2), -1.5), tail="uniform"),
    }[token]()
    targets, references = sentences(4, 6, WORDS, kernels), listed(4, kernels)
    for sequence in (None, ss.Hamming(0.4, pool="refs"), ss.Hamming(0.4, samples=2)):
        objective = ss.Objective(sequence, law, specials=WORDS, vocab_size=V).to(kernels)
        assert_same(
            *both(
                monkeypatch,
                lambda: objective.propose(targets, references=references, generator=seeded(kernels)),  # noqa: B023
            )
        )


@pytest.mark.parametrize("integrate", [True, False])
def test_not_lazy(integrate: bool, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    law = ss.Hamming(0.4, pool="refs", samples=3, integrate=integrate)
    objective = ss.Objective(law, lazy=False, specials=WORDS, vocab_size=V).to(kernels)
    targets = sentences(4, 6, WORDS, kernels).sort(-1, descending=True).values  # no padding before a token
    assert_same(
        *both(
            monkeypatch,
            lambda: objective.propose(targets, references=listed(4, kernels), generator=seeded(kernels)),
        )
    )


def test_targets_of_another_integer_type(kernels: torch.device) -> None:
    objective = ss.Objective(ss.Hamming(0.4, samples=2), specials=WORDS, vocab_size=V).to(kernels)
    targets = sentences(2, 3, WORDS, kernels)
    assert_same(*(objective.propose(given, generator=seeded(kernels)) for given in (targets.int(), targets)))


def test_no_position_at_all(kernels: torch.device) -> None:
    """Nothing to launch a kernel for."""
    for shape in ((0, 3), (2, 0)):
        objective = ss.Objective(ss.Hamming(0.4, samples=2), specials=WORDS, vocab_size=V).to(kernels)
        candidates = objective.propose(torch.zeros(shape, dtype=torch.long, device=kernels))
        assert candidates.target.ids.shape == (shape[0], 1, shape[1], 3)
        assert int(candidates.count) == 0


def test_candidates_are_records(kernels: torch.device) -> None:
    """No two of the outputs share memory that a step may write to, but for the target's own labels."""
    objective = ss.Objective(ss.Hamming(0.4, samples=2), specials=WORDS, vocab_size=V).to(kernels)
    candidates = objective.propose(sentences(2, 3, WORDS, kernels))
    held = [value for value in dataclasses.asdict(candidates).values() if isinstance(value, Tensor)]
    assert len({value.untyped_storage().data_ptr() for value in held}) == len(held)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("own", [True, False])
def test_a_captured_generator_goes_on(own: bool) -> None:
    """New samples at each replay, from torch's generator or from one that the graph was told of."""
    device = torch.device("cuda")
    objective = ss.Objective(ss.Hamming(0.4, pool="refs", samples=4), specials=WORDS, vocab_size=V).to(device)
    targets, references = sentences(4, 6, WORDS, device), listed(4, device)
    generator = seeded(device) if own else None
    objective.propose(targets, references=references)
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        candidates = objective.propose(targets, references=references, generator=generator)
    seen = set()
    for _ in range(4):
        graph.replay()
        seen.add(tuple(candidates.target.ids.flatten().tolist()))
    assert len(seen) == 4
