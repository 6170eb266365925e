"""How many kernels `propose` launches: in a CUDA graph each costs about two microseconds, a loss about a hundred."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from oracles.launches import counted
from seqsmooth.ops import checks
from seqsmooth.smoothing.sequence_law import SequenceLaw

V = 40
SPECIALS = ss.Specials(0, 1, 2, 3)
GENERATOR = torch.Generator().manual_seed(0)
TARGETS = torch.randint(4, V, (4, 6), generator=GENERATOR)
LONG = torch.randint(4, V, (60, 10), generator=torch.Generator().manual_seed(1))
REFERENCES = torch.randint(4, V, (4, 3, 6), generator=GENERATOR)
VECTORS = torch.randn(V, 3, generator=GENERATOR)

FREQUENCIES = ss.rewards.DocumentFrequencies.build(REFERENCES.tolist())

SAMPLED = ["rand.generator", "sample_kernel"]
CELLS: dict[str, tuple[Callable[[], SequenceLaw | None], bool, list[str], int]] = {
    # The law, whether a `Similarity` goes with it, the launches there must be, and how many more there may be: the
    # shares of a token law (`mul`), the scores of a constant reward.
    "truth": (lambda: None, False, ["target_kernel"], 0),
    "tok": (lambda: None, True, ["target_kernel"], 2),
    "exact vocab": (lambda: ss.Hamming(0.3), False, ["target_kernel"], 0),
    "exact batch": (lambda: ss.Hamming(0.3, pool="batch"), False, ["sorted_kernel", "target_kernel"], 0),
    "exact refs": (lambda: ss.Hamming(0.3, pool="refs"), False, ["sorted_kernel", "target_kernel"], 0),
    "sampled vocab": (lambda: ss.Hamming(0.3, samples=5), False, SAMPLED, 0),
    "sampled batch": (lambda: ss.Hamming(0.3, pool="batch", samples=5), False, ["sorted_kernel", *SAMPLED], 0),
    "sampled refs": (lambda: ss.Hamming(0.3, pool="refs", samples=5), False, ["sorted_kernel", *SAMPLED], 0),
    "sampled tok-seq": (lambda: ss.Hamming(0.3, pool="refs", samples=5), True, ["sorted_kernel", *SAMPLED], 2),
    "exact long batch": (lambda: ss.Hamming(0.3, pool="batch"), False, ["batch_kernel"], 0),
    "sampled long batch": (lambda: ss.Hamming(0.3, pool="batch", samples=5), False, ["flagged_kernel", *SAMPLED], 0),
    "rewarded": (
        lambda: ss.Rewarded(ss.rewards.Constant(), ss.Hamming(0.3, pool="refs"), 0.5, 5),
        False,
        ["sorted_kernel", *SAMPLED, "_compact", "_compact", "importance_kernel"],
        1,
    ),
    "cider": (
        lambda: ss.Rewarded(ss.rewards.Cider(FREQUENCIES), ss.Hamming(0.3, pool="refs"), 0.5, 5),
        False,
        ["sorted_kernel", *SAMPLED, "_compact", "_compact", "_cider", "importance_kernel"],
        0,
    ),
}


@pytest.fixture
def as_on_a_gpu(kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels, and no look at values."""
    if kernels.type == "cuda":
        pytest.skip("counted in the interpreter")
    monkeypatch.setattr(checks, "visible", lambda value: False)


@pytest.mark.parametrize("name", CELLS)
def test_launches_of_a_proposal(name: str, as_on_a_gpu: None) -> None:
    law, similar, expected, more = CELLS[name]
    token = ss.Similarity(VECTORS, 0.3, alpha=0.5) if similar else None
    objective = ss.Objective(law(), token, specials=SPECIALS, vocab_size=V)
    with counted() as names:
        objective.propose(LONG if "long" in name else TARGETS, references=None if "long" in name else REFERENCES)
    assert [name for name in names if name in expected] == expected
    assert len(names) <= len(expected) + more, names


def test_label_smoothing_launches_no_more(as_on_a_gpu: None) -> None:
    objective = ss.label_smoothing(0.1, specials=SPECIALS, vocab_size=V)
    with counted() as names:
        objective.propose(TARGETS)
    assert names == ["target_kernel"]


def test_launches_are_counted(as_on_a_gpu: None) -> None:
    with counted() as names:
        views = torch.empty(2, 3).t().unsqueeze(0).expand(4, 3, 2)
        assert names == []
        views.add(1)
    assert names == ["add.Tensor"]


def test_decoder_inputs_are_there_already(as_on_a_gpu: None) -> None:
    candidates = ss.Objective(ss.Hamming(0.3, samples=5), specials=SPECIALS, vocab_size=V).propose(TARGETS)
    with counted() as names:
        assert candidates.inputs.shape == (4, 1, 6)
    assert names == []


def test_the_head_multiplies_before_it_looks_at_targets(as_on_a_gpu: None) -> None:
    """So that a GPU has work while the host is busy with them."""
    objective = ss.Objective(ss.Hamming(0.3), ss.Similarity(VECTORS, 0.3, alpha=0.5), specials=SPECIALS, vocab_size=V)
    with counted() as names:
        objective.head(torch.randn(*TARGETS.shape, 5), torch.randn(V, 5), TARGETS)
    assert names.index("mm.out") < names.index("target_kernel"), names
    assert names.count("mm.out") == 1


def test_a_counting_generator_needs_no_launch(as_on_a_gpu: None) -> None:
    objective = ss.Objective(ss.Hamming(0.3, samples=5), specials=SPECIALS, vocab_size=V)
    source = ss.Philox(0)
    with counted() as names:
        objective.propose(TARGETS, generator=source)
    assert names == ["sample_kernel"]


@pytest.mark.parametrize(("head", "expected"), [(True, "rescaled"), (False, "rows")])
def test_launches_of_a_backward_pass(head: bool, expected: str, as_on_a_gpu: None) -> None:
    """No zeros are made for the NLL, which has no gradient."""
    objective = ss.mle(specials=SPECIALS, vocab_size=V)
    hidden, weight = torch.randn(*TARGETS.shape, 5, requires_grad=True), torch.randn(V, 5)
    logits = torch.randn(*TARGETS.shape, V, requires_grad=True)
    loss = objective.head(hidden, weight, TARGETS) if head else objective(logits, TARGETS)
    with counted() as names:
        loss.total.backward()
    assert [name for name in names if name != "ones_like.default"] == [expected]
