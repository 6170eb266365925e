"""From targets to what should be predicted, in one launch: the truth, its expectation under `Hamming`, or samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.pools import Flags, barred
from seqsmooth.ops.kernels.sites import FusedSites, nowhere, numbered
from seqsmooth.ops.kernels.sizes import blocks, power_of_2
from seqsmooth.ops.kernels.target_kernels import batch_kernel, sample_kernel, target_kernel
from seqsmooth.ops.philox import Philox
from seqsmooth.ops.positions import Reading, Source
from seqsmooth.ops.sampling import Generator, check_device, uniforms
from seqsmooth.ops.tables import SetTable

FEW = 2048
"""Positions of a batch for which many programs of one warp draw faster than fewer and larger ones."""
MOST_READERS = 32
"""Programs that read a batch, where each of them looks at all of it first."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Samples of `Hamming`."""

    reading: Reading
    tokens: Tensor  # (B, L, T) int64
    mask: Tensor  # (B, L, T) bool
    log_prob: Tensor  # (B, L) float64


def truth(source: Source, share: float = 0.0) -> Reading:
    """All mass on the ground truth, but for a share that is set apart if there is one."""
    out = _allocate(source, 1, apart=share > 0)
    (given, constants), (places, more) = _arguments(out, source, math.inf), nowhere()
    launch(
        target_kernel,
        _blocks(source),
        (*given, *places, out.apart, None, share),
        constants | more | {"SMOOTHED": False, "SETS": False, "BLOCK": 128},
    )
    return out


def expectation(source: Source, sites: FusedSites, alpha: float, *, sets: bool) -> tuple[Reading, Tensor, Tensor]:
    """The closed form: the mass on the truth, the number of each position's pool (B, 1, T, 1), and the weight of that.

    The rows of pools have a mass of 1, or (`sets`) as much as they have tokens.
    """
    out = _allocate(source, 1)
    index, background = torch.empty_like(out.ids), torch.empty_like(out.weights)
    (given, constants), (places, more) = _arguments(out, source, math.inf), sites.arguments()
    launch(
        target_kernel,
        _blocks(source),
        (*given, *places, background, index, alpha),
        constants | more | {"SMOOTHED": True, "SETS": sets, "BLOCK": 128},
    )
    return out, index, background


def batch_expectation(
    source: Source, sites: FusedSites, alpha: float, excluded: tuple[int, ...]
) -> tuple[Reading, Tensor, Tensor, SetTable]:
    """The same over the batch's own tokens but the excluded ones, of which it makes a table of one row."""
    batch, steps = source.targets.shape
    out, device = _allocate(source, 1), source.targets.device
    index, background = torch.empty_like(out.ids), torch.empty_like(out.weights)
    bits = torch.empty(blocks(sites.vocab_size, 8), dtype=torch.uint8, device=device)
    masses = torch.empty(1, dtype=torch.float32, device=device)
    programs = max(1, min(MOST_READERS, blocks(batch * steps, 128)))
    flags = Flags.over(sites.vocab_size, batch * steps, programs, device)
    part = power_of_2(blocks(bits.shape[0], programs), 256)
    (given, constants), (first, second, _) = _arguments(out, source, math.inf), sites.law()
    row = (flags.eights, bits, bits.shape[0], masses)
    launch(
        batch_kernel,
        (programs + 1,),
        (*given, *flags.memory, *row, sites.vocab_size, first, second, background, index, alpha),
        constants | sites.constants() | barred(excluded) | flags.constants | {"PART": part, "BLOCK": 128},
        num_warps=8,
    )
    return out, index, background, SetTable(bits.unsqueeze(0), masses, sites.vocab_size)


def draws(source: Source, sites: FusedSites, number: int, generator: Generator | None, alpha: float) -> Sampled:
    """Samples of equal weight beside the truth, and themselves, with the logarithms of their probability."""
    batch, steps = source.targets.shape
    device = source.targets.device
    tokens = torch.empty(batch, number, steps, dtype=torch.int64, device=device)
    mask = torch.empty_like(tokens, dtype=torch.bool)
    log_prob = torch.empty(batch, number, dtype=torch.float64, device=device)
    drawn = (tokens, mask.view(torch.uint8), log_prob)
    return Sampled(samples(source, sites, number, generator, alpha, drawn), tokens, mask, log_prob)


def samples(
    source: Source,
    sites: FusedSites,
    number: int,
    generator: Generator | None,
    alpha: float,
    drawn: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Reading:
    """Samples of equal weight beside the truth; `drawn` is where `draws` wants what else is known of them.

    A generator that counts on the device is drawn from in the same launch.
    """
    batch, steps = source.targets.shape
    points = state = None
    if isinstance(generator, Philox):
        check_device(generator, source.targets)
        state = generator.state
    else:
        points = uniforms((batch, number, steps), source.targets, generator)
    out = _allocate(source, number + 1)
    wide = power_of_2(steps)
    slim = batch * steps <= FEW and wide <= 64
    tall = min(power_of_2(number), max(1, (64 if slim else 512) // wide))
    (given, constants), (places, more) = _arguments(out, source, float(number)), sites.arguments()
    constants |= _tile(batch, steps, 256) if slim else {}
    weights = (1 - alpha, alpha / number)
    launch(
        sample_kernel,
        (batch + 1, blocks(number, tall)),
        (*given, *places, points, state, *(drawn or (None, None, None)), number, *weights),
        constants | more | {"DRAWN": drawn is not None, "GIVEN": points is not None, "WIDE": wide, "TALL": tall},
        num_warps=1 if slim else 4 if wide * tall <= 1024 else 8,
    )
    return out


def _allocate(source: Source, slots: int, *, apart: bool = False) -> Reading:
    """Memory for what the kernels write."""
    batch, steps = source.targets.shape
    device = source.targets.device
    labels = torch.empty(batch, 1, steps, dtype=torch.int64, device=device)
    # Nothing of its own where K = 1: the labels.
    ids = labels.unsqueeze(-1) if slots == 1 else torch.empty(batch, 1, steps, slots, dtype=torch.int64, device=device)
    weights = torch.empty_like(ids, dtype=torch.float32)
    return Reading(
        tokens=torch.empty_like(labels),
        mask=torch.empty_like(labels, dtype=torch.bool),
        labels=labels,
        count=torch.empty((), dtype=torch.int64, device=device),
        inputs=None if source.bos is None else torch.empty(batch, steps, dtype=torch.int64, device=device),
        ids=ids,
        weights=weights,
        whole=torch.empty(batch, 1, dtype=torch.float32, device=device),
        ess=torch.empty((), dtype=torch.float32, device=device),
        apart=torch.empty_like(weights) if apart else None,
    )


def _arguments(out: Reading, source: Source, ess: float) -> tuple[tuple[object, ...], dict[str, object]]:
    """What all kernels take, and the constants among it."""
    targets, ignored = source.targets, source.ignored
    assert len(ignored) <= 2
    written = (out.tokens, out.inputs, out.mask.view(torch.uint8), out.labels, out.count, out.ids)
    given = (targets, *targets.stride(), *targets.shape, *written, out.weights, out.whole, out.ess, ess)
    constants: dict[str, object] = {"FILLER": source.filler, "BOS": source.bos}
    return given, constants | numbered("IGNORED", ignored, 2) | _tile(*targets.shape)


def _blocks(source: Source) -> tuple[int]:
    return (blocks(source.targets.numel(), 128) + 1,)


def _tile(batch: int, steps: int, most: int = 4096) -> dict[str, object]:
    """How much of the targets is counted at once."""
    long = min(power_of_2(steps), most)
    return {"MANY": min(power_of_2(batch), most // long), "LONG": long}
