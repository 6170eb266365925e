from __future__ import annotations

import pytest
import torch

from seqsmooth.rewards import Constant


def test_every_candidate_gets_the_value():
    got = Constant(0.25)(torch.tensor([[[1, 2], [3, -1], [-1, -1]]]), torch.tensor([[[1]]]))
    assert got.tolist() == [[0.25] * 3]


def test_names():
    assert Constant().signature() == "constant:0"
    assert repr(Constant(1.5)) == "Constant(value=1.5)"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1"])
def test_a_value_must_be_finite(value: object):
    with pytest.raises(ValueError, match=r"^`value` must be a finite number; it is .*.$"):
        Constant(value)  # type: ignore[arg-type]
