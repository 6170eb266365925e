"""From targets to what should be predicted, in one launch: the truth, its expectation under `Hamming`, or samples."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.pools import Flags, barred, takes_flags
from seqsmooth.ops.kernels.sites import FusedSites, nowhere, numbered
from seqsmooth.ops.kernels.sizes import blocks, power_of_2
from seqsmooth.ops.kernels.sorted_target import MOST_LISTED
from seqsmooth.ops.kernels.target_kernels import batch_kernel, sample_kernel, target_kernel
from seqsmooth.ops.philox import Philox
from seqsmooth.ops.pools import AllTokens, Pool, TokenSets
from seqsmooth.ops.sampling import Generator, check_device, uniforms
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import RowTable, SetTable
from seqsmooth.ops.targets import ChangeLaw, Draws, Source

FEW = 2048
"""Positions of a batch for which many programs of one warp draw faster than fewer and larger ones."""
SHORT = 64
"""A list of no more tokens costs a loss less than a row in full."""
MOST_STEPS = 8192
"""The longest sequence that a kernel draws at once."""
MOST_READERS = 32
"""Programs that read a batch, where each of them looks at all of it first."""


def truth(source: Source, share: float, table: RowTable | None) -> Candidates:
    """All mass on the ground truth, but for a share that goes to the rows of a table if there is one."""
    out = _allocate(source)
    spread = None if table is None else torch.empty_like(out.weights)
    (given, constants), (places, more) = _arguments(out, source, math.inf), nowhere()
    launch(
        target_kernel,
        _blocks(source),
        (*given, *places, spread, None, share),
        constants | more | {"SMOOTHED": False, "SETS": False, "BLOCK": 128},
    )
    if table is None or spread is None:
        return _candidates(source, out)
    return _candidates(source, out, Rows(table, out.ids, spread))


def expectation(
    source: Source, pool: Pool, law: ChangeLaw, alpha: float, table: RowTable | None, *, listed: bool
) -> Candidates:
    """The closed form: the mass on the truth, the number of each position's pool (B, 1, T, 1), and the weight of that.

    The rows of pools have a mass of 1, or, where they are sets, as much as they have tokens.
    """
    sets = None
    if table is None and not listed and isinstance(pool, TokenSets):
        if _has_row(source, pool):
            return batch_expectation(source, pool, law, alpha)
        sets = _sets(pool)
    out = _allocate(source)
    index, background = torch.empty_like(out.ids), torch.empty_like(out.weights)
    sites = _sites(source, pool, law)
    (given, constants), (places, more) = _arguments(out, source, math.inf), sites.arguments()
    launch(
        target_kernel,
        _blocks(source),
        (*given, *places, background, index, alpha),
        constants | more | {"SMOOTHED": True, "SETS": sets is not None, "BLOCK": 128},
    )
    return _candidates(source, out, Rows(table or sets or pool.table, index, background))


def batch_expectation(source: Source, pool: TokenSets, law: ChangeLaw, alpha: float) -> Candidates:
    """The closed form over the batch's own tokens, of which the same launch makes a table of one row."""
    assert pool.vocab_size is not None
    batch, steps = source.targets.shape
    out, device = _allocate(source), source.targets.device
    index, background = torch.empty_like(out.ids), torch.empty_like(out.weights)
    bits = torch.empty(blocks(pool.vocab_size, 8), dtype=torch.uint8, device=device)
    masses = torch.empty(1, dtype=torch.float32, device=device)
    programs = max(1, min(MOST_READERS, blocks(batch * steps, 128)))
    flags = Flags.over(pool.vocab_size, batch * steps, programs, device)
    part = power_of_2(blocks(bits.shape[0], programs), 256)
    undrawn = tuple(token for token in pool.excluded if token not in source.ignored)
    sites = FusedSites(source.frozen, law.tau, law.rate, None, None, pool.vocab_size, undrawn)
    (given, constants), (first, second, _) = _arguments(out, source, math.inf), sites.law()
    row = (flags.eights, bits, bits.shape[0], masses)
    launch(
        batch_kernel,
        (programs + 1,),
        (*given, *flags.memory, *row, pool.vocab_size, first, second, background, index, alpha),
        constants | sites.constants() | barred(pool.excluded) | flags.constants | {"PART": part, "BLOCK": 128},
        num_warps=8,
    )
    return _candidates(source, out, Rows(SetTable(bits.unsqueeze(0), masses, pool.vocab_size), index, background))


def draws(source: Source, pool: Pool, law: ChangeLaw, number: int, generator: Generator | None) -> Draws:
    """Samples of equal weight beside the truth, and themselves, with the logarithms of their probability."""
    batch, steps = source.targets.shape
    device = source.targets.device
    tokens = torch.empty(batch, number, steps, dtype=torch.int64, device=device)
    mask = torch.empty_like(tokens, dtype=torch.bool)
    log_prob = torch.empty(batch, number, dtype=torch.float64, device=device)
    sequences = (tokens, mask.view(torch.uint8), log_prob)
    beside = samples(source, pool, law, number, generator, 1.0, sequences)
    return Draws(tokens, mask, log_prob, truth=beside)


def samples(
    source: Source,
    pool: Pool,
    law: ChangeLaw,
    number: int,
    generator: Generator | None,
    alpha: float,
    sequences: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Candidates:
    """Samples of equal weight beside the truth; `sequences` is where `draws` wants what else is known of them.

    A generator that counts on the device is drawn from in the same launch.
    """
    batch, steps = source.targets.shape
    sites = _sites(source, pool, law)
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
    constants = constants | _tile(batch, steps, 256) if slim else constants
    weights = (1 - alpha, alpha / number)
    launch(
        sample_kernel,
        (batch + 1, blocks(number, tall)),
        (*given, *places, points, state, *(sequences or (None, None, None)), number, *weights),
        constants | more | {"DRAWN": sequences is not None, "GIVEN": points is not None, "WIDE": wide, "TALL": tall},
        num_warps=1 if slim else 4 if wide * tall <= 1024 else 8,
    )
    return _candidates(source, out)


class Written(NamedTuple):
    """Memory for what the kernels write, as `Candidates` have it."""

    tokens: Tensor
    mask: Tensor
    labels: Tensor
    number: Tensor
    inputs: Tensor | None
    ids: Tensor
    weights: Tensor
    whole: Tensor
    ess: Tensor


def _allocate(source: Source, slots: int = 1) -> Written:
    targets = source.targets
    batch, steps = targets.shape
    labels = targets.new_empty((batch, 1, steps))
    # Nothing of its own where K = 1: the labels.
    ids = labels.unsqueeze(-1) if slots == 1 else targets.new_empty((batch, 1, steps, slots))
    weights = torch.empty_like(ids, dtype=torch.float32)
    mask, inputs = torch.empty_like(labels, dtype=torch.bool), None
    if source.bos is not None:
        inputs = targets.new_empty((batch, steps))
    whole, ess = weights.new_empty((batch, 1)), weights.new_empty(())
    return Written(torch.empty_like(labels), mask, labels, targets.new_empty(()), inputs, ids, weights, whole, ess)


def _candidates(source: Source, out: Written, *rows: Rows) -> Candidates:
    tokens, mask, labels, number, inputs, ids, weights, whole, ess = out
    target = SoftTarget(ids, weights, rows)
    return Candidates(tokens, mask, whole, target, labels, number, ess, source.bos, inputs, source.maker)


def _sites(source: Source, pool: Pool, law: ChangeLaw) -> FusedSites:
    """A law and a pool as the kernels take them."""
    if isinstance(pool, AllTokens):
        return FusedSites(source.frozen, law.tau, law.rate, None, None, pool.vocab_size, pool.undrawn)
    assert isinstance(pool, TokenSets)
    sets = pool.distinct
    known = (sets.ids, sets.sizes, pool.vocab_size or 0, (), sets.places)
    return FusedSites(source.frozen, law.tau, law.rate, *known)


def _has_row(source: Source, pool: TokenSets) -> bool:
    """Whether the pool is the batch itself, with so many tokens that a row over the vocabulary is better than a list.

    A loss would have to write it out itself from a list of many tokens.
    """
    length = source.targets.numel()
    return pool.whole_batch and length > SHORT and takes_flags(length, pool.vocab_size)


def _sets(pool: TokenSets) -> SetTable | None:
    """A table of lists that are too long for the loss kernels; None for any other pool."""
    if pool.groups == 1 or pool.listed.shape[1] < MOST_LISTED or pool.vocab_size is None:
        return None
    ids = pool.distinct.ids
    return SetTable.of(ids, ids < pool.vocab_size, pool.vocab_size)


def _arguments(out: Written, source: Source, ess: float) -> tuple[tuple[object, ...], dict[str, object]]:
    """What all kernels take, and the constants among it."""
    targets = source.targets
    written = (out.tokens, out.inputs, out.mask.view(torch.uint8), out.labels, out.number, out.ids)
    given = (targets, *targets.stride(), *targets.shape, *written, out.weights, out.whole, out.ess, ess)
    return given, _constants(source.ignored, source.filler, source.bos, *targets.shape)


@lru_cache(4096)
def _constants(ignored: tuple[int, ...], filler: int, bos: int | None, batch: int, steps: int) -> dict[str, object]:
    """The constants that all kernels take, to be read only."""
    assert len(ignored) <= 2
    return numbered("IGNORED", ignored, 2) | {"FILLER": filler, "BOS": bos} | _tile(batch, steps)


def _blocks(source: Source) -> tuple[int]:
    return (blocks(source.targets.numel(), 128) + 1,)


def _tile(batch: int, steps: int, most: int = 4096) -> dict[str, object]:
    """How much of the targets is counted at once."""
    long = min(power_of_2(steps), most)
    return {"MANY": min(power_of_2(batch), most // long), "LONG": long}
