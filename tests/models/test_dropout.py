"""Dropout on the CPU has the law of torch's."""

from __future__ import annotations

import pytest
import torch

from seqsmooth.models.dropout import Dropout
from seqsmooth.ops import dispatch


@pytest.mark.parametrize("p", [0.1, 0.5, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_share_that_is_dropped(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = torch.full((400, 1000), 2.0, dtype=dtype, requires_grad=True)
    outputs = Dropout(p)(inputs)
    assert outputs.dtype == dtype
    assert set(outputs.unique().tolist()) == {0.0, (torch.tensor(2.0, dtype=dtype) * (1 / (1 - p))).item()}
    deviation = (p * (1 - p) / inputs.numel()) ** 0.5
    assert abs((outputs == 0).double().mean().item() - p) < 4 * deviation
    for along in (0, 1):  # no row and no column is favoured
        shares = (outputs == 0).double().mean(along)
        expected = p * (1 - p) / inputs.shape[along]
        assert 0.8 * expected < shares.var().item() < 1.2 * expected
    outputs.sum().backward()
    assert inputs.grad is not None
    torch.testing.assert_close(inputs.grad * 2, outputs.detach())


def test_choices_follow_the_seed_and_differ_between_calls() -> None:
    inputs, dropout = torch.ones(50, 50), Dropout(0.5)
    torch.manual_seed(1)
    first, second = dropout(inputs), dropout(inputs)
    torch.manual_seed(1)
    assert dropout(inputs).equal(first)
    assert not second.equal(first)


def test_torch_does_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(3, 4)
    assert Dropout(0.5).eval()(inputs).equal(inputs)
    assert Dropout(0.0)(inputs).equal(inputs)
    assert Dropout(1.0)(inputs).equal(torch.zeros(3, 4))
    results = []
    monkeypatch.setenv(dispatch.VARIABLE, "torch")
    for dropout in (Dropout(0.5), torch.nn.Dropout(0.5)):
        torch.manual_seed(2)
        results.append(dropout(inputs))
    assert results[0].equal(results[1])
    assert str(Dropout(0.3)) == str(torch.nn.Dropout(0.3))
