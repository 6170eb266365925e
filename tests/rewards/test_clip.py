from __future__ import annotations

import math
import re

import pytest
import torch

from seqsmooth.rewards import Clip, Constant, Hamming

candidates = torch.tensor([[[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 6, 5], [7, 8, 6, 5]]])
references = torch.tensor([[[1, 2, 3, 4]]])


def test_scores_outside_move_to_the_bound():
    assert Clip(Hamming(), -2.0, -0.5)(candidates, references).tolist() == [[-0.5, -1.0, -2.0, -2.0]]
    assert Clip(Hamming(), -math.inf, -1)(candidates, references).tolist() == [[-1.0, -1.0, -2.0, -4.0]]


def test_any_callable_can_be_clipped():
    def tokens(ours: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return (ours >= 0).sum(-1).float()

    clipped = Clip(tokens, 0, 1)
    assert clipped(candidates, references).tolist() == [[1.0] * 4]
    assert clipped.signature().endswith("tokens|clip:0,1")
    assert "tokens" in repr(clipped)


def test_names():
    assert Clip(Constant(2.0)).signature() == "constant:2|clip:0,1"
    assert repr(Clip(Constant(2.0))) == "Clip(\n  minimum=0, maximum=1\n  (reward): Constant(value=2)\n)"


def test_the_clipped_reward_moves_along():
    assert [name for name, _ in Clip(Constant()).named_children()] == ["reward"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((3, 0, 1), "`reward` must be a callable; it is an int."),
        ((Hamming(), 1, 1), "`maximum` must be greater than `minimum` = 1; it is 1."),
        ((Hamming(), math.nan, 1), "`minimum` must be a number; it is nan."),
        ((Hamming(), 0, "1"), "`maximum` must be a number; it is '1'."),
    ],
)
def test_wrong_arguments(arguments: tuple, sentence: str):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Clip(*arguments)
