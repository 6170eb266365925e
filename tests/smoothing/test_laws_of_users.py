"""Laws that users write or derive do what they say, and an objective does not change under its tables."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import seqsmooth as ss
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.targets import Draws
from seqsmooth.smoothing.records import Setting, Truth

V = 9
SPECIALS = ss.Specials(0, 1, 2, 3)
TARGETS = torch.tensor([[4, 5, 6, 2], [5, 6, 2, 0]])
LOGITS = torch.randn(2, 4, V, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
VECTORS = torch.randn(V, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def total(sequence: Any = None, token: Any = None) -> float:
    return float(ss.Objective(sequence, token, specials=SPECIALS, vocab_size=V)(LOGITS, TARGETS).total)


class Doubled(ss.GroundTruth):
    """The ground truth, of twice the mass."""

    def measure(self, truth: Truth, **how: Any) -> ss.Candidates:
        made = super().measure(truth, **how)
        target = SoftTarget(made.target.ids, 2 * made.target.weights, made.target.rows)
        return dataclasses.replace(made, target=target)


class Nothing:
    """Spreads nothing, whatever it is mixed with."""

    def spread(self, target: SoftTarget, setting: Setting, generator: object) -> SoftTarget:
        return target


class Mixed(Nothing, ss.Uniform):
    pass


@pytest.mark.parametrize("token", [None, ss.Uniform(0.1), ss.Similarity(VECTORS, 0.3)])
def test_a_ground_truth_with_a_measure_of_its_own(token: Any) -> None:
    assert total(Doubled(), token) == pytest.approx(2 * total(None, token), rel=1e-12)


def test_a_token_law_with_a_spread_of_its_own() -> None:
    assert total(None, Mixed(0.3)) == pytest.approx(total(), rel=1e-12)


class Mine:
    """A proposal that changes the first word of every sentence."""

    alpha = 1.0
    known_probability = False

    def draw(self, truth: Truth, count: int, generator: object) -> Draws:
        tokens = truth.tokens.unsqueeze(1).expand(-1, count, -1).clone()
        tokens[..., 0] = 7
        return Draws(tokens, truth.mask.unsqueeze(1).expand(tokens.shape), None)

    def prepare(self, setting: Setting) -> None:
        return None

    def signature(self) -> str:
        return "mine"


def test_the_rate_of_changes_of_a_proposal_is_measured() -> None:
    law = ss.Rewarded(ss.rewards.Constant(), Mine(), 0.5, 2, against="target")
    objective = ss.Objective(law, specials=SPECIALS, vocab_size=V)
    assert float(objective.change_rate(TARGETS)) == pytest.approx(2 / 7)


class Plain(ss.GroundTruth):
    """Candidates without a word about the decoder."""

    def measure(self, truth: Truth, **how: Any) -> ss.Candidates:
        made = super().measure(truth, **how)
        return ss.Candidates(made.sequences, made.mask, made.weights, made.target, made.labels, made.count, made.ess)


def test_candidates_of_a_users_law_have_inputs() -> None:
    objective = ss.Objective(Plain(), specials=SPECIALS, vocab_size=V)
    assert objective.propose(TARGETS).inputs.tolist() == [[[1, 4, 5, 6]], [[1, 5, 6, 2]]]
    assert float(objective(LOGITS, TARGETS).total) == total()


class Rarer(ss.Hamming):
    """Changes half as often."""

    def flip_probability(self, others: Tensor) -> Tensor:
        return super().flip_probability(others) / 2


@pytest.mark.parametrize("samples", [None, 3])
def test_kernels_take_no_formulas_that_they_do_not_have(
    samples: int | None, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = ss.Objective(Rarer(rate=0.4, samples=samples), specials=SPECIALS, vocab_size=V).to(kernels)
    halved = ss.Objective(ss.Hamming(rate=0.2, samples=samples), specials=SPECIALS, vocab_size=V).to(kernels)
    masses = []
    for path, law in (("triton", objective), ("torch", objective), ("torch", halved)):
        monkeypatch.setenv("SEQSMOOTH_KERNELS", path)
        source = torch.Generator(kernels).manual_seed(0)
        masses.append(law.propose(TARGETS.to(kernels), generator=source).target.dense(V).double())
    torch.testing.assert_close(masses[0], masses[1])
    torch.testing.assert_close(masses[0], masses[2])


@pytest.mark.parametrize("name", ["sequence", "token", "specials", "lazy", "vocab_size", "ignore_index"])
def test_an_objective_keeps_what_its_tables_are_made_of(name: str) -> None:
    objective = ss.Objective(specials=SPECIALS, vocab_size=V)
    with pytest.raises(AttributeError, match=rf"^An objective keeps its `{name}`: make another one with Objective\("):
        setattr(objective, name, ss.Uniform(0.1) if name == "token" else 0)


def replica(module: nn.Module, device: str, known: dict[nn.Module, nn.Module]) -> nn.Module:
    """What `nn.DataParallel` makes of a module for another device."""
    copy = known[module] = module._replicate_for_data_parallel()
    for name, value in module._buffers.items():
        copy._buffers[name] = None if value is None else value.to(device)
    for name, part in module._modules.items():
        copy._modules[name] = None if part is None else known.get(part) or replica(part, device, known)
    return copy


def test_a_replica_reads_its_own_tables() -> None:
    objective = ss.Objective(ss.Hamming(0.3), ss.Similarity(VECTORS, 0.3), specials=SPECIALS)
    other: Any = replica(objective, "meta", {})
    assert other.propose(TARGETS.to("meta")).target.rows[0].table.values.device.type == "meta"
    assert float(objective(LOGITS, TARGETS).total) == total(ss.Hamming(0.3), ss.Similarity(VECTORS, 0.3))


def test_a_signature_tells_which_tokens_get_no_mass() -> None:
    """As the checksum of the vectors that are used, and so as of a law that was told so itself."""
    law, without = (ss.Similarity(VECTORS, 0.3, missing=missing) for missing in ((), (0, 1)))
    assert ss.Objective(token=law).signature() != ss.Objective(token=law, specials=SPECIALS).signature()
    ours = ss.Objective(token=law, specials=SPECIALS)
    torch.testing.assert_close(law.rows(torch.arange(4, V), ours.setting), without.rows(torch.arange(4, V)))


def test_a_compiled_loss_does_not_mind_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    objective = ss.Objective(ss.Hamming(0.3), ss.Uniform(0.1), specials=SPECIALS, vocab_size=V)
    compiled = torch.compile(lambda logits, targets: objective(logits, targets).total, backend="eager")
    expected = compiled(LOGITS, TARGETS)
    monkeypatch.setenv("SEQSMOOTH_OF_NO_MEANING", str(len(os.environ)))
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(LOGITS, TARGETS), expected)


@pytest.mark.parametrize("inplace", [False, True])
def test_logits_that_must_be_copied_are_not_overwritten(
    inplace: bool, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inplace` marks logits as gone only where their memory is taken: here `exp` needs them for its own gradient."""
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "triton")
    leaf = torch.randn(2, 5, V, generator=torch.Generator().manual_seed(3)).to(kernels).requires_grad_()
    targets = torch.full((2, 4), 5, device=kernels)
    loss = ss.cross_entropy(leaf.exp()[:, :-1], targets, inplace=inplace)
    expected = nn.functional.cross_entropy(leaf.exp()[:, :-1].flatten(0, 1), targets.flatten())
    torch.testing.assert_close(*(torch.autograd.grad(value, leaf)[0] for value in (loss, expected)))


def test_a_share_stays_a_share() -> None:
    objective = ss.label_smoothing(0.1)
    with pytest.raises(ValueError, match=r"^`alpha` must be between 0 and 1; it is 7\.$"):
        objective.token.alpha = 7
    assert objective.token.alpha == 0.1
    with pytest.raises(ValueError, match=r"^`reward` must be callable, as Bleu\(\); it is a str\.$"):
        ss.seq(reward="cidr")  # type: ignore[arg-type]
