from __future__ import annotations

import pytest
import torch

from seqsmooth.ops import dispatch


def test_plain_torch_serves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    assert not dispatch.uses_kernels(torch.zeros(2))


def test_the_environment_forces_plain_torch(kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatch.uses_kernels(torch.zeros(2, device=kernels), None)
    assert dispatch.path() == "triton"
    monkeypatch.setenv(dispatch.VARIABLE, "torch")
    assert not dispatch.uses_kernels(torch.zeros(2, device=kernels))
    assert dispatch.path() == "torch"


def test_double_precision_and_transforms_are_plain(kernels: torch.device) -> None:
    values = torch.zeros(2, device=kernels)
    assert not dispatch.uses_kernels(values.double())
    seen: list[bool] = []

    def look(value: torch.Tensor) -> torch.Tensor:
        seen.append(dispatch.uses_kernels(value))
        return value.sum()

    torch.func.grad(look)(values)
    assert seen == [False]


def test_a_word_the_variable_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dispatch.VARIABLE, "cuda")
    with pytest.raises(ValueError, match="`SEQSMOOTH_KERNELS` must be one of 'auto', 'torch', 'native', 'triton'"):
        dispatch.uses_kernels(torch.zeros(2))


def test_forced_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dispatch.VARIABLE, "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"for tensors on the CPU \(or set TRITON_INTERPRET=1\)"):
        dispatch.uses_kernels(torch.zeros(2))
    monkeypatch.setattr(dispatch, "is_installed", lambda: False)
    with pytest.raises(ValueError, match="where Triton is not installed"):
        dispatch.uses_kernels(torch.zeros(2))
