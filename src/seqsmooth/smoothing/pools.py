"""V, V_batch, V_refs: the pools that a law takes new tokens from, by name."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.pools import AllTokens, Pool, TokenSets
from seqsmooth.smoothing.records import Truth
from seqsmooth.smoothing.sequence_law import SequenceLaw

PoolName = Literal["vocab", "batch", "refs"]
POOLS: tuple[PoolName, ...] = ("vocab", "batch", "refs")
VOCAB_SIZE_RULE = "given to the objective when nothing else tells it (a token law with embeddings, or logits)"


class PooledLaw(SequenceLaw):
    """A sequence law that puts in tokens from a pool."""

    pool_ids: Tensor | None

    def __init__(self, pool: PoolName | Tensor, alpha: float) -> None:
        super().__init__(alpha)
        self.pool: PoolName | None = _check_pool(pool)
        self.register_buffer("pool_ids", pool if isinstance(pool, Tensor) else None, persistent=False)

    def pool_of(self, truth: Truth) -> Pool:
        """The pool for a batch."""
        if self.pool is not None:
            return build_pool(self.pool, truth)
        assert self.pool_ids is not None
        return build_pool(self.pool_ids, truth)


def build_pool(kind: PoolName | Tensor, truth: Truth) -> Pool:
    """V_sub: all tokens, those of the batch, those of the item's references, or ids ((P,) for all, (B, P) for each)."""
    targets, undrawn, vocab_size = truth.targets, truth.undrawn, truth.setting.vocab_size
    if isinstance(kind, Tensor):
        if kind.dim() == 2:
            checks.shape("pool", kind, targets.shape[0], None, letters="(B, P)")
        return TokenSets((kind.unsqueeze(0) if kind.dim() == 1 else kind).long(), undrawn, vocab_size)
    if kind == "vocab":
        if vocab_size is None:
            raise checks.wrong("vocab_size", VOCAB_SIZE_RULE, None)
        return AllTokens(vocab_size, undrawn, targets.device)
    if kind == "batch":
        return TokenSets(targets.reshape(1, -1), _unlisted(truth), vocab_size, whole_batch=True)
    if truth.references is None:
        rule = "given when the pool is 'refs' (`targets.unsqueeze(1)` takes the ground truth alone)"
        raise checks.wrong("references", rule, None)
    return TokenSets(truth.references.flatten(1), _unlisted(truth), vocab_size)


def _unlisted(truth: Truth) -> tuple[int, ...]:
    """The tokens that lists do not bring into a pool: those never drawn, and PAD, which fills lists up."""
    pad = truth.setting.specials.pad
    return truth.undrawn if pad is None or pad in truth.undrawn else tuple(sorted((*truth.undrawn, pad)))


def _check_pool(pool: PoolName | Tensor) -> PoolName | None:
    """The name of a pool that has one, None for a tensor of ids."""
    if isinstance(pool, Tensor):
        checks.integers("pool", pool)
        checks.must(pool.dim() in (1, 2), "pool", "of shape (P,) or (B, P)", tuple(pool.shape))
        return None
    listed = ", ".join(repr(name) for name in POOLS)
    checks.must(isinstance(pool, str) and pool in POOLS, "pool", f"one of {listed}, or a tensor of ids", repr(pool))
    return pool
