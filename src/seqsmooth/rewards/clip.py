"""Another reward, kept between two bounds."""

from __future__ import annotations

import math

from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.rewards.protocol import Reward


class Clip(nn.Module):
    """The scores of another reward, those outside the bounds moved to the nearer bound.

    Elbayad et al. (2018) clip CIDEr to [0, 1]; a caption that contains its reference is then at the bound.

    Args:
        reward: the reward to clip, any callable of the shape of `Reward`.
        minimum: the lowest score; minus infinity for none.
        maximum: the highest score; infinity for none.

    Examples:
        >>> import torch
        >>> from seqsmooth.rewards import Clip, Edit
        >>> candidates, references = torch.tensor([[[4, 5, 6], [7, 8, 9]]]), torch.tensor([[[4, 5, 7]]])
        >>> Edit()(candidates, references), Clip(Edit(), minimum=-2)(candidates, references)
        (tensor([[-1., -3.]]), tensor([[-1., -2.]]))
    """

    def __init__(self, reward: Reward, minimum: float = 0.0, maximum: float = 1.0) -> None:
        super().__init__()
        checks.must(callable(reward), "reward", "a callable", checks.describe(reward))
        for name, bound in (("minimum", minimum), ("maximum", maximum)):
            checks.must(isinstance(bound, (int, float)) and not math.isnan(bound), name, "a number", repr(bound))
        checks.must(minimum < maximum, "maximum", f"greater than `minimum` = {minimum:.12g}", maximum)
        self.reward = reward
        self.minimum = float(minimum)
        self.maximum = float(maximum)

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)
        """Score each candidate against the references of its row."""
        return self.reward(candidates, references).clamp(self.minimum, self.maximum)

    def extra_repr(self) -> str:
        """List the bounds, and the reward where it is not a module, which would be listed anyway."""
        reward = "" if isinstance(self.reward, nn.Module) else f"reward={self.reward!r}, "
        return f"{reward}minimum={self.minimum:.12g}, maximum={self.maximum:.12g}"

    def signature(self) -> str:
        """Name the reward exactly; a callable without a signature goes by its name."""
        name = getattr(self.reward, "signature", None)
        inner = name() if callable(name) else getattr(self.reward, "__qualname__", type(self.reward).__qualname__)
        return f"{inner}|clip:{self.minimum:.12g},{self.maximum:.12g}"
