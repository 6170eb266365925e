"""The rows of the paper's tables by name: short ways to write an `Objective`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from torch import Tensor

from seqsmooth.smoothing.hamming import Hamming
from seqsmooth.smoothing.objective import Objective
from seqsmooth.smoothing.pools import PoolName
from seqsmooth.smoothing.rewarded import Rewarded, Weighting
from seqsmooth.smoothing.sequence_law import SequenceLaw
from seqsmooth.smoothing.similarity import Missing, Similarity
from seqsmooth.smoothing.specials import Specials
from seqsmooth.smoothing.uniform import Uniform


class Common(TypedDict, total=False):
    """What every preset hands on to `Objective`."""

    entropy: float
    specials: Specials | None
    vocab_size: int | None
    ignore_index: int


class SequenceOptions(Common, total=False):
    """What `seq` and `tok_seq` share."""

    rate: float | None
    pool: PoolName | Tensor
    alpha: float
    samples: int | None
    reward: Callable[[Tensor, Tensor], Tensor] | None
    reward_tau: float
    weights: Weighting
    lazy: bool


def mle(**common: Unpack[Common]) -> Objective:
    """MLE, and with `entropy=gamma` the MLE + gamma H of Pereyra et al. 2017."""
    return Objective(**common)


def label_smoothing(epsilon: float = 0.1, **common: Unpack[Common]) -> Objective:
    """Uniform label smoothing (Szegedy et al. 2016), as `F.cross_entropy(label_smoothing=epsilon)`."""
    return Objective(token=Uniform(alpha=epsilon), **common)


def tok(
    embeddings: Tensor,  # (V, D)
    tau: float,
    alpha: float,
    *,
    beta: float = 0.0,
    counts: Tensor | None = None,  # (V,)
    missing: Missing = (),
    **common: Unpack[Common],
) -> Objective:
    """Tok: token-level smoothing by embeddings; with `beta` and `counts`, Tok r^freq."""
    return Objective(token=Similarity(embeddings, tau, beta, counts, alpha, missing=missing), **common)


def seq(tau: float | None = None, **options: Unpack[SequenceOptions]) -> Objective:
    """Seq and Seq lazy: Hamming, or with `reward` (and `reward_tau`, `samples`) any reward by importance sampling.

    Args:
        tau: temperature of the Hamming law (or give `rate`).
        options: `rate`, `pool`, `alpha`, `samples`, `reward`, `reward_tau`, `weights`, `lazy`; those of `Objective`.
    """
    sequence, rest = _sequence(tau, options)
    return Objective(sequence, lazy=options.get("lazy", True), **rest)


def tok_seq(
    embeddings: Tensor,  # (V, D)
    token_tau: float,
    token_alpha: float,
    tau: float | None = None,
    *,
    beta: float = 0.0,
    counts: Tensor | None = None,  # (V,)
    missing: Missing = (),
    **options: Unpack[SequenceOptions],
) -> Objective:
    """Tok-Seq: both (Eq. 17). `token_tau`, `token_alpha`, `beta`, `counts`: as in `tok`; the rest as in `seq`."""
    sequence, rest = _sequence(tau, options)
    token = Similarity(embeddings, token_tau, beta, counts, token_alpha, missing=missing)
    return Objective(sequence, token, lazy=options.get("lazy", True), **rest)


def _sequence(tau: float | None, options: SequenceOptions) -> tuple[SequenceLaw, Common]:
    """The sequence law of the options, and what is left for `Objective`."""
    rate, pool, alpha = options.get("rate"), options.get("pool", "vocab"), options.get("alpha", 1.0)
    samples, reward = options.get("samples"), options.get("reward")
    rest = Common()
    for name in Common.__annotations__:
        if name in options:
            rest[name] = options[name]  # type: ignore[literal-required]
    if reward is None:
        return Hamming(tau, rate, pool, alpha, samples), rest
    proposal = Hamming(tau, rate, pool)
    weights = options.get("weights", "tilted")
    return Rewarded(reward, proposal, options.get("reward_tau", 1.0), samples or 5, alpha, weights=weights), rest
