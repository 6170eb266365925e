"""Products by oneDNN are those of torch, with their derivatives, and are left to torch where oneDNN does not fit."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import dispatch, products


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """The products that oneDNN was given, on any processor and of any size."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    made: list[torch.Size] = []
    real = products._onednn

    def noted(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        made.append(inputs.shape)
        return real(inputs, weight, bias)

    monkeypatch.setattr(products, "_onednn", noted)
    monkeypatch.setattr(products, "prefers_onednn", lambda: True)
    monkeypatch.setattr(products, "LEAST", 1)
    monkeypatch.setattr(products, "SIDE", 1)
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    return made


def factors(rows: tuple[int, ...], size: int, outputs: int, *, bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    source = torch.Generator().manual_seed(0)
    drawn = [torch.randn(*shape, generator=source) for shape in ((*rows, size), (outputs, size), (outputs,))]
    return drawn[0], drawn[1], drawn[2] if bias else None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows", "size", "outputs"), [((3,), 4, 5), ((2, 3, 5), 17, 33), ((), 7, 2), ((64,), 129, 1), ((1, 1), 1, 65)]
)
def test_derivatives_of_two_orders(
    rows: tuple[int, ...], size: int, outputs: int, bias: bool, calls: list[torch.Size]
) -> None:
    results = []
    for dtype, function in ((torch.float32, products.linear), (torch.float64, F.linear)):
        given = [
            part.to(dtype).requires_grad_() for part in factors(rows, size, outputs, bias=bias) if part is not None
        ]
        result = function(*given)
        along = torch.arange(result.numel(), dtype=dtype).cos().view_as(result)
        first = torch.autograd.grad((result.square() * along).sum(), given, create_graph=True)
        second = torch.autograd.grad(sum(part.pow(3).sum() for part in first), given)
        results.append([result, *first, *second])
    assert len(calls) > 3
    for ours, theirs in zip(*results, strict=True):
        scale = theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-5 * scale + 1e-7)


def test_rows_that_lie_apart(calls: list[torch.Size]) -> None:
    inputs, weight = torch.randn(7, 12)[::2, 1:7], torch.randn(12, 9).t()[:, ::2]
    same = torch.randn(1, 6).expand(4, 6)
    torch.testing.assert_close(products.linear(inputs, weight), inputs @ weight.t())
    torch.testing.assert_close(products.linear(same, weight), same @ weight.t())
    torch.testing.assert_close(products.multiply(inputs, weight.t()), inputs @ weight.t())
    left, right = torch.randn(90, 30).t(), torch.randn(90, 4)
    result = products.multiply(left, right)
    torch.testing.assert_close(result, left @ right)
    assert result.is_contiguous()
    assert calls == [(4, 6), (4, 6), (4, 6), (4, 90)]


def test_no_layout_is_slow(calls: list[torch.Size]) -> None:
    """Given rows that lie apart, oneDNN itself takes a thousand times as long."""
    wide = torch.randn(512, 640)
    layouts = [wide[:, :512], wide[:, :512].t(), wide[:, 64:576], wide.t()[:512], wide[:, :512].contiguous()]
    began = time.process_time()
    for left in layouts:
        for right in layouts:
            torch.testing.assert_close(products.multiply(left, right), left @ right, rtol=1e-3, atol=1e-3)
    assert len(calls) == 25
    assert time.process_time() - began < 5 * torch.get_num_threads()


def test_a_product_written_into_place(calls: list[torch.Size], monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, whole = torch.randn(6, 5), torch.randn(5, 4), torch.randn(6, 9)
    for least in (1, 1000):
        monkeypatch.setattr(products, "LEAST", least)
        out = whole.clone()
        products.multiply_into(out[:, 3:7], left, right)
        torch.testing.assert_close(out[:, 3:7], left @ right)
        products.multiply_into(out[:, 3:7], left, right, add=True)
        torch.testing.assert_close(out[:, 3:7], 2 * left @ right)
        assert out[:, :3].equal(whole[:, :3])
        assert out[:, 7:].equal(whole[:, 7:])
    assert len(calls) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("onednn", [True, False])
def test_a_sum_of_products(
    onednn: bool, dtype: torch.dtype, calls: list[torch.Size], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "prefers_onednn", lambda: onednn)
    logits, states, total = torch.randn(30, 70), torch.randn(30, 20), None
    for part in (slice(0, 10), slice(10, 20), slice(20, 30)):
        before = total
        total = products.add_product(total, logits[part].t(), states[part], dtype)
        assert before is None or total is before
    assert total is not None
    assert total.dtype == dtype
    assert len(calls) == (3 if onednn else 0)
    torch.testing.assert_close(total.float(), logits.t() @ states, rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_is_left_to_torch(calls: list[torch.Size], monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, weight, bias = factors((4,), 6, 5, bias=True)
    expected = F.linear(inputs, weight, bias)
    assert products.linear(inputs[:0], weight).shape == (0, 5)
    torch.testing.assert_close(products.linear(inputs.double(), weight.double(), bias.double()).float(), expected)
    torch.testing.assert_close(torch.func.vmap(lambda row: products.linear(row, weight, bias))(inputs), expected)
    _, moved = torch.func.jvp(lambda x: products.linear(x, weight, bias), (inputs,), (inputs,))
    torch.testing.assert_close(moved, inputs @ weight.t())
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(inputs, weight, bias).dtype == torch.bfloat16
    with torch.backends.mkldnn.flags(enabled=False):
        assert products.linear(inputs, weight, bias).equal(expected)
    monkeypatch.setenv(dispatch.VARIABLE, "torch")
    assert products.linear(inputs, weight, bias).equal(expected)
    monkeypatch.delenv(dispatch.VARIABLE)
    for name, value in (("LEAST", 4 * 6 * 5 + 1), ("SIDE", 5)):
        with monkeypatch.context() as other:
            other.setattr(products, name, value)
            assert products.linear(inputs, weight, bias).equal(expected)
    assert not calls


def test_a_layer_is_one_of_torch(calls: list[torch.Size]) -> None:
    theirs, ours = torch.nn.Linear(6, 5), products.Linear(6, 5)
    ours.load_state_dict(theirs.state_dict())
    inputs = torch.randn(2, 3, 6)
    torch.testing.assert_close(ours(inputs), theirs(inputs))
    assert str(ours) == str(theirs)
    assert calls == [(6, 6)]


def test_only_a_wide_processor_of_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    for capability, processor, expected in [
        ("AVX512", "vendor_id : AuthenticAMD", True),
        ("AVX512", "vendor_id : GenuineIntel", False),
        ("AVX2", "vendor_id : AuthenticAMD", False),
    ]:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        monkeypatch.setattr(products, "_processor", lambda processor=processor: processor)
        assert products.prefers_onednn.__wrapped__() == (expected and both)
