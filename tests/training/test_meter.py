from __future__ import annotations

import math

import pytest
import torch

import seqsmooth as ss
from seqsmooth.data import Batch
from seqsmooth.smoothing import Loss
from seqsmooth.training.meter import Meter
from seqsmooth.training.step import Report

SPECIALS = ss.Specials(pad=0, bos=1, eos=2, unk=3)


def report(total: float, nll: float, tokens: int, ess: float) -> Report:
    numbers = [torch.tensor(value) for value in (total, nll)]
    return Report(Loss(*numbers, torch.tensor(tokens), torch.tensor(ess)), None)


def test_means_of_steps() -> None:
    meter = Meter(torch.device("cpu"))
    assert meter.read() is None
    meter.add(report(2.0, 1.0, 10, 3.0))
    meter.add(report(4.0, 2.0, 30, 5.0))
    state = meter.state()
    read = meter.read(torch.tensor(0.25))
    assert read is not None
    assert (read.loss, read.nll, read.ess, read.rate, read.steps) == (3.0, 1.5, 4.0, 0.25, 2)
    assert read.tokens_per_second > 40
    assert meter.read() is None
    other = Meter(torch.device("cpu"))
    other.load(state, first=True)
    other.add(report(6.0, 3.0, 1, 4.0))
    assert other.tokens == 1  # the clock began anew, and those before are not of its time
    assert other.read().loss == 4.0  # type: ignore[union-attr]


def test_means_over_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its part of the loss, and the effective samples of its own items."""
    monkeypatch.setattr("torch.distributed.all_reduce", lambda sums: sums.mul_(2))  # as if the other one had the same
    meter = Meter(torch.device("cpu"), world=2)
    meter.add(report(2.0, 1.0, 10, 3.0))
    meter.add(report(4.0, 2.0, 30, 5.0))
    assert meter.state()[3] == 80
    read = meter.read()
    assert read is not None
    assert (read.loss, read.nll, read.ess, read.steps) == (6.0, 3.0, 4.0, 2)


def test_nothing_sampled_is_no_number() -> None:
    meter = Meter(torch.device("cpu"))
    meter.add(report(1.0, 1.0, 5, math.inf))
    assert meter.read().ess is None  # type: ignore[union-attr]


TARGETS = torch.tensor([[4, 5, 6, 2, 0], [7, 8, 2, 0, 0]])  # five words, two EOS, which stay
BATCH = Batch((), TARGETS, references=TARGETS.unsqueeze(1))


def test_the_rate_of_corruption_is_that_of_the_law() -> None:
    law = ss.Hamming(rate=0.3, pool="vocab", alpha=0.1)
    for objective in (
        ss.Objective(law, specials=SPECIALS, vocab_size=12),
        ss.Objective(law, specials=SPECIALS, vocab_size=12, lazy=False),
        ss.Objective(
            ss.Rewarded(ss.rewards.Constant(), ss.Hamming(rate=0.3), tau=1.0, samples=2),
            specials=SPECIALS,
            vocab_size=12,
        ),
    ):
        assert float(objective.change_rate(BATCH.targets, BATCH.references)) == pytest.approx(0.3 * 5 / 7)
    assert float(ss.mle(specials=SPECIALS, vocab_size=12).change_rate(BATCH.targets)) == 0


def test_the_rate_of_edits_is_measured_without_touching_any_generator() -> None:
    targets = torch.randint(4, 50, (200, 9))
    targets[:, -1] = 2
    batch = Batch((), targets)
    found = []
    for tau in (0.12, 0.3):
        objective = ss.Objective(ss.Edit(tau, alpha=0.5), lazy=False, specials=SPECIALS, vocab_size=50)
        before = torch.get_rng_state()
        found.append(float(objective.change_rate(batch.targets, batch.references)))
        assert torch.equal(torch.get_rng_state(), before)
    assert 0 <= found[0] < found[1] < 1.5
