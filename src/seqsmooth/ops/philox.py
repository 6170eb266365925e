"""Random numbers whose source lives on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.dispatch import finest

ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85
LOW = 0xFFFFFFFF


class Philox:
    """Random numbers by counting: Philox 4x32-10 of Salmon et al. 2011, with its state in a tensor.

    The generators of torch keep their state on the host, so that a CUDA graph which draws from one needs two more
    launches before each replay. This one counts on the device, and a graph that draws from it needs nothing.

    Args:
        seed: from which all follows.
        device: where the numbers are wanted.

    Attributes:
        state: the seed, the draws so far, and how many programs of a draw are done, (3,) int64: on the device, and
            counted there by kernels. `get_state` gives a copy.

    Examples:
        >>> Philox(7).uniforms((2,)).tolist() == Philox(7).uniforms((2,)).tolist()
        True
    """

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        checks.at_least("seed", seed, 0)
        checks.must(seed < 2**63, "seed", "less than 2^63", seed)
        self.state = torch.tensor([seed, 0, 0], dtype=torch.int64, device=self.device)

    def __repr__(self) -> str:
        return f"Philox(device={str(self.device)!r})"

    def get_state(self) -> Tensor:  # (3,) int64
        """A copy of where it is."""
        return self.state.clone()

    def set_state(
        self,
        state: Tensor,  # (3,) int64
    ) -> None:
        """Go on from there; in place, where graphs look for it."""
        checks.shape("state", state, 3, letters="(3,)")
        checks.integers("state", state)
        self.state.copy_(state)

    def uniforms(self, shape: tuple[int, ...]) -> Tensor:  # (*shape)
        """Uniform numbers in [0, 1): of 53 bits, or of 24 where the device has no double precision."""
        if dispatch.uses_kernels(self.state):
            from seqsmooth.ops.kernels import philox as kernels

            return kernels.uniforms(self.state, shape)
        count = torch.Size(shape).numel()
        seed, draws, _ = self.state.unbind()
        index = torch.arange(count, device=self.device)
        first, second, *_ = philox((index & LOW, index >> 32, draws & LOW, draws >> 32), (seed & LOW, seed >> 32))
        self.state[1] += 1
        kind = finest(self.device)
        if kind == torch.float64:
            return ((first << 21) + (second >> 11)).to(kind).mul_(2.0**-53).reshape(shape)
        return (first >> 8).to(kind).mul_(2.0**-24).reshape(shape)


def philox(counter: tuple[Tensor, ...], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Four words of 32 bits from a counter of four and a key of two, all in int64."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        c0, c1, c2, c3 = (
            _high(FACTORS[1], c2) ^ c1 ^ k0,
            (FACTORS[1] * c2) & LOW,
            _high(FACTORS[0], c0) ^ c3 ^ k1,
            (FACTORS[0] * c0) & LOW,
        )
        k0, k1 = (k0 + STEPS[0]) & LOW, (k1 + STEPS[1]) & LOW
    return c0, c1, c2, c3


def _high(
    factor: int,
    word: Tensor,  # (...) int64
) -> Tensor:  # (...)
    """The upper 32 bits of a product of two words."""
    return ((factor >> 16) * word + ((factor & 0xFFFF) * word >> 16)) >> 16
