"""The pass on a CPU where tensors, memory and derivatives are not as usual: it answers as the formulas do, or refuses.

What C is given wrongly would be read beyond its end, and what autograd is not told would be wrong in silence. Most of
these crashed Python, or gave other numbers, when the pass was new.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.kernel_jobs import some_job
from seqsmooth.ops import dispatch, native
from seqsmooth.ops.cross_entropy import Job, losses, plain_losses
from seqsmooth.ops.products import Linear
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable

LABELS = torch.tensor([1, 2, 3])
CPU = torch.device("cpu")


@pytest.fixture(params=["torch", "native"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways of the pass."""
    if request.param == "native" and native.library() is None:
        pytest.skip(f"no native library, because {native.absence()}")
    monkeypatch.setenv(dispatch.VARIABLE, request.param)
    torch.manual_seed(0)
    return str(request.param)


def on_table(table: RowTable) -> SoftTarget:
    """Three positions, each with a row of the table."""
    none = torch.zeros(3, 0)
    index = torch.tensor([[0], [1], [0]])
    return SoftTarget(none.long(), none, (Rows(table, index, torch.ones(3, 1)),))


def test_without_gradients_none_is_made_and_logits_stay() -> None:
    logits = torch.randn(3, 6, requires_grad=True)
    hidden, weight = torch.randn(3, 4), torch.randn(6, 4, requires_grad=True)
    before = logits.detach().clone()
    with torch.no_grad(), torch.profiler.profile() as profile:
        loss = ss.cross_entropy(logits, LABELS, inplace=True)
        of_head = ss.linear_cross_entropy(hidden, weight, LABELS)
    assert torch.equal(logits, before)
    torch.testing.assert_close(loss, F.cross_entropy(before, LABELS))
    torch.testing.assert_close(of_head, F.cross_entropy(hidden @ weight.detach().t(), LABELS))
    products = [event for event in profile.events() if event.name in ("aten::addmm", "aten::mm")]
    assert len(products) == 1
    with torch.inference_mode():
        logits = torch.randn(3, 6, requires_grad=True)
        torch.testing.assert_close(ss.cross_entropy(logits * 1, LABELS, inplace=True), F.cross_entropy(logits, LABELS))


def test_rows_that_share_memory_are_not_written() -> None:
    row = torch.randn(1, 6, requires_grad=True)
    slid = torch.randn(8, requires_grad=True)
    for leaf, logits in ((row, row.expand(3, 6)), (slid, (slid * 1).unfold(0, 6, 1))):
        (expected,) = torch.autograd.grad(F.cross_entropy(logits, LABELS), leaf, retain_graph=True)
        (found,) = torch.autograd.grad(ss.cross_entropy(logits, LABELS, inplace=True), leaf)
        torch.testing.assert_close(found, expected)


def test_memory_that_holds_other_numbers() -> None:
    """Tensors that are minus what is in their memory, or zeros without any."""
    leaf, numbers = torch.randn(3, 6, requires_grad=True), torch.rand(3, 6)
    expected = torch.autograd.grad(F.cross_entropy(-leaf, LABELS), leaf)
    for inplace in (False, True):
        loss = ss.cross_entropy(torch._neg_view(leaf * 1), LABELS, inplace=inplace)
        torch.testing.assert_close(torch.autograd.grad(loss, leaf), expected)
    loss = ss.cross_entropy(torch._efficientzerotensor((3, 6)), LABELS)
    assert loss.item() == pytest.approx(math.log(6))
    rows = Rows(DenseTable.of(torch._neg_view(-numbers)), torch.arange(3)[:, None], torch._neg_view(-torch.ones(3, 1)))
    target = SoftTarget(LABELS[:, None], torch._efficientzerotensor((3, 1), dtype=torch.float64), (rows,))
    expected_loss = F.cross_entropy(leaf.detach(), numbers, reduction="none")
    torch.testing.assert_close(losses(leaf.detach(), Job(target)).smoothed, expected_loss)


def test_another_default_device() -> None:
    logits = torch.randn(5, 37, requires_grad=True)
    job = some_job("everything", 5, 37, CPU, entropy=True, reduced=True)
    hidden, weight, bias = (torch.randn(size, requires_grad=True) for size in ((3, 4), (6, 4), (6,)))
    loss = F.cross_entropy(F.linear(hidden, weight, bias), LABELS)
    expected = plain_losses(logits, job).smoothed
    with torch.device("meta"):
        found = losses(logits, job).smoothed
        of_head = ss.linear_cross_entropy(hidden, weight, LABELS, bias=bias)
        slopes = torch.autograd.grad(of_head, (hidden, weight, bias))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(slopes, torch.autograd.grad(loss, (hidden, weight, bias)))


@pytest.mark.filterwarnings("ignore:An output")
@pytest.mark.parametrize(
    "table",
    [
        DenseTable(torch.rand(2, 3), torch.ones(2), columns=6),
        DenseTable(torch.rand(2, 6, device="meta"), torch.ones(2)),
        SparseTable(torch.zeros(2, 5, dtype=torch.int64), torch.rand(2, 3), 6),
        SetTable(torch.zeros(2, 1, dtype=torch.uint8), torch.ones(2), 9),
    ],
    ids=["narrow", "elsewhere", "uneven", "few bits"],
)
def test_tables_that_do_not_fit_are_refused(table: RowTable) -> None:
    vocab_size = table.vocab_size
    assert vocab_size is not None
    with pytest.raises((ValueError, RuntimeError)):
        ss.cross_entropy(torch.randn(3, vocab_size), on_table(table))


def test_ids_of_32_bits_and_tables_that_are_expanded() -> None:
    logits = torch.randn(3, 6)
    ids, weights = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32), torch.rand(2, 2)
    full = torch.zeros(2, 6).scatter_(1, ids.long(), weights)
    one, bits = torch.rand(1, 6), torch.tensor([[0b101101]], dtype=torch.uint8)
    written = torch.tensor([[1.0, 0, 1, 1, 0, 1]])
    for table, rows in (
        (SparseTable(ids, weights, 6), full),
        (DenseTable.of(one.expand(2, 6)), one.expand(2, 6)),
        (
            DenseTable(torch.rand(2, 20)[:, 3:][:, :9].index_copy(1, torch.arange(6), full), torch.ones(2), columns=6),
            full,
        ),
        (SparseTable(ids[:1].long().expand(2, 2), weights[:1].expand(2, 2), 6), full[:1].expand(2, 6)),
        (SetTable(bits.expand(2, 1), torch.full((2,), 4.0), 6), written.expand(2, 6)),
    ):
        expected = -(rows[[0, 1, 0]] * logits.log_softmax(-1)).sum(-1)
        torch.testing.assert_close(losses(logits, Job(on_table(table))).smoothed, expected)
    torch.testing.assert_close(ss.cross_entropy(logits, LABELS.int()), F.cross_entropy(logits, LABELS))
    strided = torch.stack([LABELS, LABELS], 1)[:, 0]
    torch.testing.assert_close(ss.cross_entropy(logits, strided), F.cross_entropy(logits, LABELS))


def test_an_ignored_id_that_is_a_token() -> None:
    logits = torch.randn(3, 6, requires_grad=True)
    expected = F.cross_entropy(logits, LABELS, ignore_index=2)
    found = ss.cross_entropy(logits, LABELS, ignore_index=2)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, logits), torch.autograd.grad(expected, logits))


@pytest.mark.parametrize("far", [-1e5, -1e9, torch.finfo(torch.float32).min, -math.inf])
def test_a_background_does_not_mind_the_logits_that_it_leaves_out(far: float) -> None:
    """As where a model masks its special tokens: a sum with them would lose the others."""
    vocab_size = 5000
    logits = torch.randn(3, vocab_size)
    logits[:, 0], logits[:, 4321] = far, far
    table = UniformTable(vocab_size, (4321, 0))
    target = SoftTarget(
        LABELS[:, None], torch.full((3, 1), 0.5), (Rows(table, LABELS[:, None], torch.full((3, 1), 0.5)),)
    )
    inside = logits.double().log_softmax(-1)[:, [v for v in range(vocab_size) if v not in (0, 4321)]]
    expected = -0.5 * inside.mean(-1) - 0.5 * inside.gather(1, LABELS[:, None] - 1).squeeze(1)
    torch.testing.assert_close(losses(logits, Job(target)).smoothed.double(), expected, rtol=1e-6, atol=1e-6)
    leaf = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(losses(leaf, Job(target, reduced=True)).smoothed, leaf)
    assert not slope[:, 0].any()


def test_backgrounds_that_leave_nothing_or_cancel() -> None:
    logits = torch.randn(3, 6, requires_grad=True)
    each = torch.tensor([[0], [0], [0]])
    for parts in (
        ((UniformTable(6, tuple(range(6))), 1.0),),
        ((UniformTable(6), 0.5), (UniformTable(6, (0, 1, 2)), -0.25)),
    ):
        rows = tuple(Rows(table, each, torch.full((3, 1), weight)) for table, weight in parts)
        job = Job(SoftTarget(LABELS[:, None], torch.ones(3, 1), rows), reduced=True)
        found, expected = losses(logits, job).smoothed, plain_losses(logits.double(), job).smoothed
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
        slopes = torch.autograd.grad(found, logits), torch.autograd.grad(expected, logits)
        torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 30.0, 90.0, 3e4])
def test_an_ignored_row_of_nan_costs_its_neighbours_no_digit(offset: float) -> None:
    logits = torch.randn(3, 40) + offset
    logits[1] = math.nan
    numbers = torch.rand(3, 40)
    numbers /= numbers.sum(-1, keepdim=True)
    target = SoftTarget.from_dense(numbers).where(torch.tensor([True, False, True]))
    expected = -(numbers.double() * logits.double().log_softmax(-1)).sum(-1)
    found = losses(logits, Job(target)).smoothed.double()
    torch.testing.assert_close(found[[0, 2]], expected[[0, 2]], rtol=1e-6, atol=1e-6)
    assert found[1] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_saved_logits_may_come_back_laid_out_otherwise(dtype: torch.dtype) -> None:
    logits = torch.randn(3, 6, dtype=dtype, requires_grad=True)
    (expected,) = torch.autograd.grad(2 * F.cross_entropy(logits.float(), LABELS), logits)
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.t().contiguous(), lambda packed: packed.t()):
        loss = 2 * ss.cross_entropy(logits, LABELS)
    for _ in range(2):
        (found,) = torch.autograd.grad(loss, logits, retain_graph=True)
        torch.testing.assert_close(found, expected)


def test_many_gradients_at_once() -> None:
    logits = torch.randn(3, 6, requires_grad=True)
    hidden, weight = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    many = torch.eye(3)
    found = torch.autograd.grad(ss.cross_entropy(logits, LABELS, reduction="none"), logits, many, is_grads_batched=True)
    expected = F.cross_entropy(logits, LABELS, reduction="none")
    torch.testing.assert_close(found, torch.autograd.grad(expected, logits, many, is_grads_batched=True))
    several = torch.tensor([1.0, 2.0])
    for asked in ((hidden, weight), (weight,)):
        found = torch.autograd.grad(
            ss.linear_cross_entropy(hidden, weight, LABELS), asked, several, is_grads_batched=True
        )
        expected = F.cross_entropy(hidden @ weight.t(), LABELS)
        torch.testing.assert_close(found, torch.autograd.grad(expected, asked, several, is_grads_batched=True))

    def loss(values: Tensor) -> Tensor:
        return ss.cross_entropy(values, LABELS)

    def reference(values: Tensor) -> Tensor:
        return F.cross_entropy(values, LABELS)

    values = logits.detach()
    for vectorize in (False, True):
        of_ours, of_theirs = (
            torch.autograd.functional.hessian(function, values, vectorize=vectorize) for function in (loss, reference)
        )
        torch.testing.assert_close(of_ours, of_theirs)
    gone = ss.cross_entropy(logits * 1, LABELS, inplace=True)
    with pytest.raises(ValueError, match="`inplace` must be False for a second backward pass"):
        torch.autograd.grad(gone, logits, several, is_grads_batched=True)


def test_a_transform_of_anything_but_the_logits() -> None:
    logits = torch.randn(3, 6, requires_grad=True)
    several = torch.stack([LABELS, LABELS.flip(0)])
    found = torch.func.vmap(lambda labels: ss.cross_entropy(logits, labels))(several)
    torch.testing.assert_close(found, torch.stack([F.cross_entropy(logits, labels) for labels in several]))
    found = torch.func.vmap(lambda items: ss.cross_entropy(logits, LABELS, num_items=items))(torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(found, F.cross_entropy(logits, LABELS, reduction="sum") / torch.tensor([1.0, 2.0]))
    layer = Linear(64, 64)
    inputs, shift = torch.randn(256, 64), torch.tensor([0.0, 1.0])
    found = torch.func.vmap(lambda by: layer(inputs) + by)(shift)
    torch.testing.assert_close(
        found, (inputs @ layer.weight.t() + layer.bias) + shift.view(2, 1, 1), rtol=1e-5, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore")
def test_a_traced_loss_follows_its_input() -> None:
    logits = torch.randn(3, 6)
    traced = torch.jit.trace(lambda values: losses(values, Job(SoftTarget.from_labels(LABELS))).smoothed, (logits,))
    torch.testing.assert_close(traced(2 * logits), F.cross_entropy(2 * logits, LABELS, reduction="none"))


@pytest.mark.parametrize("upstream", [math.inf, -math.inf, math.nan])
def test_ignored_positions_have_no_gradient_whatever_comes_from_above(upstream: float) -> None:
    labels, above = torch.tensor([1, IGNORED, 3]), torch.tensor(upstream)
    hidden, weight = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    logits = torch.randn(3, 6, requires_grad=True)
    for loss, leaf in (
        (ss.linear_cross_entropy(hidden, weight, labels), hidden),
        (ss.cross_entropy(logits, labels), logits),
        (ss.cross_entropy(logits * 1, labels, inplace=True), logits),
    ):
        (slope,) = torch.autograd.grad(loss, leaf, above)
        assert not slope[1].any()
        assert not slope[0].isfinite().any()


@pytest.mark.parametrize("inplace", [False, True])
def test_small_shares_survive_in_half_precision(inplace: bool) -> None:
    """Of 2,000 rows and 500 tokens each gets about a millionth, times a scale that makes it fit fp16 (GradScaler)."""
    rows, vocab_size, above = 2000, 500, torch.tensor(2.0**14)
    labels = torch.randint(vocab_size, (rows,))
    hidden = torch.randn(rows, 8, dtype=torch.float16, requires_grad=True)
    weight = (0.1 * torch.randn(vocab_size, 8)).half().requires_grad_()
    logits = (hidden @ weight.t()).detach().requires_grad_()
    exact = [value.detach().double().requires_grad_() for value in (logits, hidden, weight)]
    loss = ss.cross_entropy(logits * 1, labels, inplace=inplace)
    (found,) = torch.autograd.grad(loss, logits, above)
    (expected,) = torch.autograd.grad(F.cross_entropy(exact[0], labels), exact[0], above.double())
    torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2**-24)
    each = torch.autograd.grad(ss.cross_entropy(logits * 1, labels, inplace=inplace, reduction="none").sum(), logits)
    torch.testing.assert_close(each[0].double(), rows * expected / above, rtol=2e-3, atol=2**-24)
    loss = ss.linear_cross_entropy(hidden, weight, labels)
    of_head = torch.autograd.grad(loss, (hidden, weight), above)
    reference = F.cross_entropy(exact[1] @ exact[2].t(), labels)
    for ours, theirs in zip(of_head, torch.autograd.grad(reference, exact[1:], above.double()), strict=True):
        assert ours.dtype == torch.float16
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-2, atol=1e-2 * float(theirs.abs().max()))
