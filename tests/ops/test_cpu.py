"""The pass over rows of logits on a CPU, in C and in chunks of plain torch, against formulas in double precision."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.kernel_jobs import KINDS, in_double, loss_and_slope, some_job, some_target
from seqsmooth.ops import chunks, cpu, dispatch, native, written
from seqsmooth.ops.cross_entropy import Job, losses, plain_losses
from seqsmooth.ops.native import rows as native_rows
from seqsmooth.ops.native import threads as native_threads
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, UniformTable

CPU = torch.device("cpu")
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
PATHS = ["torch", "native"]
PAST = "native, past the caches"
"""As gradients are written that no cache can keep."""
NEAR = {
    torch.float32: (1e-5, 2e-6),
    torch.float64: (1e-11, 1e-11),
    torch.bfloat16: (2**-7, 1e-6),
    torch.float16: (2**-10, 2**-23),
}
"""How far a gradient may be from the one in double precision: in parts of it, and for an upstream gradient of 1."""


@pytest.fixture(params=[*PATHS, PAST])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of the pass."""
    name: str = request.param
    if name == PAST:
        monkeypatch.setattr(native_rows, "CACHE", 0)
        name = "native"
    take(name, monkeypatch)
    return name


def take(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if path == "native" and native.library() is None:
        pytest.skip(f"no native library, because {native.absence()}")
    monkeypatch.setenv(dispatch.VARIABLE, path)
    assert dispatch.path("cpu") == path
    assert dispatch.engine(torch.zeros(2, 3)) is cpu


def compare(job: Job, logits: Tensor, upstream: Tensor) -> None:
    """Losses to the precision of their sums, gradients to that of their type."""
    leaf, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    expected = loss_and_slope(exact, plain_losses(exact, in_double(job)), upstream.double())
    if logits.dtype == torch.float64:
        job = in_double(job)  # whose tables are no more precise than their type
    found = loss_and_slope(leaf, losses(leaf, job), upstream)
    size = max(1.0, float(upstream.abs().max()))
    sums = 1e-11 if logits.dtype == torch.float64 else 1e-5
    for ours, theirs in zip(found[:2], expected[:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=sums, atol=sums)
    relative, absolute = NEAR[logits.dtype]
    torch.testing.assert_close(found[2], expected[2], rtol=relative, atol=absolute * size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("entropy", "reduced"), [(False, True), (True, False)])
def test_every_kind_of_target(path: str, kind: str, dtype: torch.dtype, entropy: bool, reduced: bool) -> None:
    torch.manual_seed(0)
    job = some_job(kind, 5, 37, CPU, entropy=entropy, reduced=reduced)
    logits = (4 * torch.randn(5, 37)).to(dtype)
    upstream = torch.ones(()) if reduced else torch.linspace(1, 2, 5)
    compare(job, logits, upstream)
    compare(job, logits, 1.75 * upstream)


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 15, 16, 17, 31, 64, 129, 2047, 2049, 5000])
@pytest.mark.parametrize("kind", ["slots", "everything", "law-and-more"])
@pytest.mark.parametrize("entropy", [False, True])
def test_odd_sizes(path: str, kind: str, vocab_size: int, entropy: bool) -> None:
    torch.manual_seed(vocab_size)
    job = some_job(kind, 3, vocab_size, CPU, entropy=entropy, reduced=True)
    compare(job, 4 * torch.randn(3, vocab_size), torch.ones(()))


def test_more_rows_than_a_chunk(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CACHED", 3 * 37)
    monkeypatch.setattr(written, "MOST_ELEMENTS", 3 * 37)
    torch.manual_seed(0)
    for kind in ("everything", "law-and-more", "bits"):
        job = some_job(kind, 20, 37, CPU, entropy=True, reduced=False)
        compare(job, 4 * torch.randn(20, 37), torch.linspace(1, 2, 20))


@given(
    kind=st.sampled_from(KINDS),
    rows=st.integers(1, 9),
    vocab_size=st.integers(1, 70),
    seed=st.integers(0, 2**31),
    spread=st.sampled_from([0.0, 1.0, 30.0, 3000.0]),
    entropy=st.booleans(),
    reduced=st.booleans(),
    past=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_native_agrees_with_plain_torch(
    kind: str, rows: int, vocab_size: int, seed: int, spread: float, entropy: bool, reduced: bool, past: bool
) -> None:
    if native.library() is None:
        pytest.skip(f"no native library, because {native.absence()}")
    torch.manual_seed(seed)
    job = some_job(kind, rows, vocab_size, CPU, entropy=entropy, reduced=reduced)
    logits = (spread * torch.randn(rows, vocab_size)).double().requires_grad_()
    upstream = torch.ones(()) if reduced else torch.rand(rows)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_rows, "CACHE", 0 if past else native_rows.CACHE)
        for path in PATHS:
            patch.setenv(dispatch.VARIABLE, path)
            found.append(loss_and_slope(logits, losses(logits, in_double(job)), upstream))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["slots", "uniform", "dense", "everything", "bits"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_ignored_rows_may_hold_anything(path: str, kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    job = some_job(kind, 5, 37, CPU, entropy=True, reduced=True)  # in which row 2 is ignored
    logits = torch.randn(5, 37).to(dtype)
    clean = logits.clone().requires_grad_()
    for value in (math.nan, math.inf, -math.inf):
        logits[2] = value
        leaf = logits.clone().requires_grad_()
        found, expected = losses(leaf, job), losses(clean, job)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
        found.smoothed.backward()
        (slope,) = torch.autograd.grad(expected.smoothed, clean)
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad, slope, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
        assert not leaf.grad[2].any()


@pytest.mark.parametrize("kind", ["slots", "uniform", "dense", "bits", "everything"])
def test_logits_of_minus_infinity_that_get_no_mass(path: str, kind: str) -> None:
    """As where a head forbids a token: it has no probability, no mass and no gradient."""
    torch.manual_seed(0)
    vocab_size, forbidden = 37, [0, 36, 20]
    target = some_target(kind, 5, vocab_size, CPU)
    rows = []
    for row in target.rows:
        table = row.table
        if isinstance(table, UniformTable):
            table = UniformTable(vocab_size, tuple(forbidden))
        else:
            written = table.combine(torch.arange(table.size).unsqueeze(-1), torch.ones(table.size, 1))
            written = written.index_fill(1, torch.tensor(forbidden), 0)
            table = DenseTable.of(written)
        rows.append(Rows(table, row.index, row.weights))
    ids = target.ids.masked_fill((target.ids == 0) | (target.ids == 20), 5)
    job = Job(SoftTarget(ids, target.weights, tuple(rows)), None, torch.rand(5), reduced=True)
    logits = torch.randn(5, vocab_size)
    leaf = logits.index_fill(1, torch.tensor(forbidden), -math.inf).requires_grad_()
    loss = losses(leaf, job).smoothed
    loss.backward()
    near = logits.double().index_fill(1, torch.tensor(forbidden), -1e4).requires_grad_()
    expected = plain_losses(near, in_double(job)).smoothed
    expected.backward()
    assert leaf.grad is not None
    assert near.grad is not None
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(leaf.grad.double(), near.grad, rtol=1e-5, atol=1e-6)


def test_mass_on_a_logit_of_minus_infinity_costs_infinity(path: str) -> None:
    logits = torch.tensor([[0.0, -math.inf, 1.0]])
    for target in (
        SoftTarget.from_labels(torch.tensor([1])),
        SoftTarget.from_dense(torch.tensor([[0.5, 0.5, 0.0]])),
        SoftTarget(
            torch.tensor([[0]]),
            torch.tensor([[0.5]]),
            (Rows(UniformTable(3), torch.tensor([[0]]), torch.tensor([[0.5]])),),
        ),
    ):
        assert losses(logits, Job(target)).smoothed.item() == math.inf


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_extreme_logits(path: str, size: float) -> None:
    torch.manual_seed(0)
    for kind in ("slots", "uniform", "dense", "everything"):
        job = some_job(kind, 5, 37, CPU, entropy=True, reduced=False)
        logits = size * torch.randn(5, 37)
        exact, leaf = logits.double().requires_grad_(), logits.clone().requires_grad_()
        expected = loss_and_slope(exact, plain_losses(exact, in_double(job)), torch.ones(5))
        found = loss_and_slope(leaf, losses(leaf, job), torch.ones(5))
        torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found[2], expected[2], rtol=1e-4, atol=1e-5)


def test_a_constant_added_to_logits_changes_nothing(path: str) -> None:
    torch.manual_seed(0)
    job = some_job("everything", 5, 37, CPU, entropy=True, reduced=False)
    logits = torch.randint(-64, 64, (5, 37)) / 16.0
    near, far = losses(logits, job), losses(logits + 2.0**14, job)
    torch.testing.assert_close(near.smoothed, far.smoothed, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(near.nll, far.nll, rtol=1e-6, atol=1e-5)


def test_nan_in_a_row_that_counts_is_seen(path: str) -> None:
    logits = torch.zeros(2, 40)
    logits[1, 17] = math.nan
    job = Job(SoftTarget.from_labels(torch.tensor([3, 4])))
    smoothed = losses(logits, job).smoothed
    assert smoothed[0].isfinite()
    assert smoothed[1].isnan()


@pytest.mark.parametrize("mass", [0.0, 1e-300, 1e-12, 0.3, -1.0])
def test_masses_that_cancel(path: str, mass: float) -> None:
    torch.manual_seed(0)
    ids, weights = torch.tensor([[3, 8], [5, 5]]), torch.tensor([[1.0, mass - 1.0], [0.5, mass - 0.5]])
    compare(Job(SoftTarget(ids, weights.double()), ids[:, 0]), torch.randn(2, 40).double(), torch.ones(2))


def test_what_cancels_does_not_mind_minus_infinity(path: str) -> None:
    logits = torch.randn(1, 40)
    logits[0, 2] = -math.inf
    table = DenseTable.of(torch.rand(2, 40))
    rows = Rows(table, torch.tensor([[1, 1]]), torch.tensor([[0.25, -0.25]]).double())
    target = SoftTarget(torch.tensor([[7]]), torch.ones(1, 1).double(), (rows,))
    compare(Job(target, target.ids[:, 0]), logits, torch.ones(1))


def test_excluded_tokens_without_probability_have_a_slope_of_exactly_zero(path: str) -> None:
    logits = torch.randn(3, 2000).index_fill(1, torch.tensor([0, 700]), -math.inf).requires_grad_()
    table, index = UniformTable(2000, (0, 700)), torch.zeros(3, 1, dtype=torch.int64)
    target = SoftTarget(index + 7, torch.full((3, 1), 0.9).double(), (Rows(table, index, torch.full((3, 1), 0.1)),))
    losses(logits, Job(target, index[:, 0] + 7)).smoothed.sum().backward()
    assert logits.grad is not None
    assert logits.grad[:, [0, 700]].eq(0).all()


@pytest.mark.parametrize("count", [6, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_row_that_a_target_has_several_times(path: str, count: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    table = DenseTable.of(torch.rand(3, 70).to(dtype))
    index, weights = torch.randint(-1, 3, (5, count)), torch.rand(5, count).double() / count
    index[0], weights[0, ::2], weights[0, 1::2] = 1, 0.25, -0.25  # nothing is left of it
    target = SoftTarget(torch.full((5, 1), 7), torch.ones(5, 1).double(), (Rows(table, index, weights),))
    compare(Job(target, target.ids[:, 0]), torch.randn(5, 70), torch.ones(5))


@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize("kind", ["slots", "everything", "law-and-more"])
def test_gradcheck(path: str, kind: str, reduced: bool) -> None:
    torch.manual_seed(0)
    job = in_double(some_job(kind, 4, 11, CPU, entropy=True, reduced=reduced))
    logits = torch.randn(4, 11, dtype=torch.float64, requires_grad=True)

    def smoothed(values: Tensor) -> Tensor:
        return losses(values, job).smoothed

    assert torch.autograd.gradcheck(smoothed, (logits,))
    assert torch.autograd.gradgradcheck(smoothed, (logits,))


def test_inplace_takes_the_memory_of_the_logits(path: str) -> None:
    torch.manual_seed(0)
    for dtype in TYPES:
        job = some_job("everything", 5, 37, CPU, entropy=True, reduced=True)
        logits = torch.randn(5, 37).to(dtype)
        leaf, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        (expected,) = torch.autograd.grad(losses(leaf, job).smoothed, leaf)
        computed = other * 1
        address = computed.data_ptr()
        loss = losses(computed, replace(job, inplace=True)).smoothed
        (found,) = torch.autograd.grad(loss, computed)
        assert found.data_ptr() == address
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_an_upstream_that_is_not_finite_leaves_ignored_rows_at_zero(path: str) -> None:
    leaf = torch.randn(2, 5, requires_grad=True)
    job = Job(SoftTarget.from_labels(torch.tensor([3, IGNORED])), reduced=True)
    (slope,) = torch.autograd.grad(losses(leaf, job).smoothed, leaf, torch.tensor(math.inf))
    assert not slope[1].any()
    assert not slope[0].isfinite().all()


def test_rows_that_are_apart_in_memory(path: str) -> None:
    torch.manual_seed(0)
    job = some_job("everything", 5, 37, CPU, entropy=True, reduced=True)
    wide = torch.randn(5, 50)
    compare(job, wide[:, 3:40], torch.ones(()))
    compare(job, torch.randn(37, 5).t(), torch.ones(()))


def test_strided_and_mixed_targets(path: str) -> None:
    """Slots that were expanded, single-precision weights, tables in every type, and lists that name a token twice."""
    torch.manual_seed(0)
    ids = torch.tensor([[1], [4], [6]]).expand(3, 2)
    weights = torch.tensor([0.3, 0.2]).expand(3, 2)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        values = torch.rand(9, 4).to(dtype).t()  # columns lie together
        row = Rows(DenseTable(values, values.double().sum(-1)), torch.tensor([[0], [3], [1]]), torch.full((3, 1), 0.5))
        compare(Job(SoftTarget(ids, weights, (row,)), reduced=True), torch.randn(3, 9), torch.ones(()))


class Doubled:
    """A table from elsewhere, which knows nothing but the protocol."""

    vocab_size, size, mixed = 6, 2, False

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * torch.eye(2, 6)[index].to(weights.dtype)).sum(1) * 2

    def mass(self, index: Tensor) -> Tensor:
        return torch.full_like(index, 2, dtype=torch.float64)

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        return (self.combine(index, weights) * logits).sum(-1)


def test_a_table_of_somebody_else(path: str) -> None:
    index = torch.tensor([[0], [1], [-1]])
    target = SoftTarget(torch.full((3, 0), 0), torch.zeros(3, 0), (Rows(Doubled(), index, torch.ones(3, 1)),))
    logits = torch.randn(3, 6)
    with torch.no_grad():
        found = losses(logits, Job(target)).smoothed
    expected = 2 * F.cross_entropy(logits, torch.tensor([0, 1, -100]), reduction="none", ignore_index=-100)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("torchs", [True, False])
def test_threads_and_sizes_of_them_agree(path: str, torchs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torchs:
        monkeypatch.setattr(native_threads, "parallel", lambda: None)
    torch.manual_seed(0)
    job = some_job("everything", 50, 4000, CPU, entropy=True, reduced=False)
    logits, before = torch.randn(50, 4000, requires_grad=True), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            found.append(loss_and_slope(logits, losses(logits, job), torch.ones(50)))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)


def test_eight_threads_at_once(path: str) -> None:
    torch.manual_seed(0)
    job = some_job("everything", 20, 900, CPU, entropy=True, reduced=True)
    logits = torch.randn(20, 900)
    expected = loss_and_slope(leaf := logits.clone().requires_grad_(), losses(leaf, job), torch.ones(()))
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            mine = logits.clone().requires_grad_()
            found = loss_and_slope(mine, losses(mine, job), torch.ones(()))
            if not all(torch.equal(one, other) for one, other in zip(found, expected, strict=True)):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_torchs_threads_are_found_where_they_are_gnus() -> None:
    loaded = "libgomp" in Path("/proc/self/maps").read_text()
    assert (native_threads.parallel() is not None) == loaded


def _loss_in_a_child(path: str, queue: multiprocessing.Queue[float]) -> None:
    os.environ[dispatch.VARIABLE] = path
    torch.set_num_threads(1)  # torch would wait for threads that a fork leaves behind
    torch.get_num_threads = lambda: 2  # what ours are asked for
    assert native_threads.parallel() is None
    queue.put(_loss_of_many())


def _loss_of_many() -> float:
    logits = torch.linspace(-1, 1, 40 * 6000).view(40, 6000)
    return losses(logits, Job(SoftTarget.from_labels(torch.arange(40)), reduced=True)).smoothed.item()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork(path: str) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        expected = _loss_of_many()
    finally:
        torch.set_num_threads(before)
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[float] = context.Queue()
    child = context.Process(target=_loss_in_a_child, args=(path, queue))
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert found == pytest.approx(expected, rel=1e-6)


def test_denormal_numbers_stay_as_the_process_has_them(path: str) -> None:
    tiny = torch.tensor(1e-40)
    losses(torch.randn(3, 50), Job(SoftTarget.from_labels(torch.arange(3)), reduced=True))
    assert (tiny / 2).item() > 0
    if torch.set_flush_denormal(True):
        try:
            found = losses(torch.tensor([[0.0, -200.0, -88.0]]), Job(SoftTarget.from_labels(torch.tensor([1]))))
            assert found.nll.item() == pytest.approx(0, abs=1e-6) or found.smoothed.item() == pytest.approx(200)
            assert found.smoothed.item() == pytest.approx(200, rel=1e-6)
        finally:
            torch.set_flush_denormal(False)


def test_the_head_gives_positions_of_nothing_no_gradient(path: str) -> None:
    torch.manual_seed(0)
    job = some_job("everything", 9, 37, CPU, entropy=False, reduced=True)
    hidden, weight, bias = torch.randn(9, 8), torch.randn(37, 8), torch.randn(37)
    exact = [value.double().requires_grad_() for value in (hidden, weight, bias)]
    expected = plain_losses(F.linear(*exact), in_double(job)).smoothed
    slopes = torch.autograd.grad(expected, exact)
    hidden[2] = math.nan  # where nothing is to be predicted
    for chunk in (None, 1, 3):
        leaves = [value.clone().requires_grad_() for value in (hidden, weight, bias)]
        found = cpu_head(leaves, job, chunk)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
        for ours, theirs in zip(torch.autograd.grad(found * 1.5, leaves), slopes, strict=True):
            torch.testing.assert_close(ours.double(), 1.5 * theirs, rtol=1e-4, atol=1e-5)


def cpu_head(leaves: list[Tensor], job: Job, chunk: int | None) -> Tensor:
    from seqsmooth.ops.head import Head

    return Head(*leaves, chunk).losses(job).smoothed


def test_a_head_of_nothing_but_ignored_positions(path: str) -> None:
    hidden, weight = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    loss = ss.linear_cross_entropy(hidden, weight, torch.full((3,), IGNORED))
    assert loss.item() == 0
    for slope in torch.autograd.grad(loss, (hidden, weight)):
        assert not slope.any()


def test_autocast_leaves_the_pass_in_single_precision(path: str) -> None:
    torch.manual_seed(0)
    job = some_job("everything", 5, 37, CPU, entropy=True, reduced=True)
    logits = torch.randn(5, 37)
    expected = losses(logits, job)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = losses(logits, job)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_an_id_out_of_range_never_reaches_memory() -> None:
    if native.library() is None:
        pytest.skip(f"no native library, because {native.absence()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(dispatch.VARIABLE, "native")
        for ids in (7, -3):
            with pytest.raises(IndexError, match=r"is not in \[0, 5\)"):
                losses(torch.zeros(1, 5), Job(SoftTarget.from_labels(torch.tensor([ids]))))
        with pytest.raises(IndexError, match=r"is not in \[0, 5\)"):
            losses(torch.zeros(1, 5), Job(SoftTarget.from_labels(torch.tensor([1])), labels=torch.tensor([9])))
