"""The rows of the paper's tables by name: short ways to write an `Objective`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.targets import Weighting
from seqsmooth.smoothing.hamming import Hamming
from seqsmooth.smoothing.objective import Objective
from seqsmooth.smoothing.pools import PoolName
from seqsmooth.smoothing.rewarded import Rewarded
from seqsmooth.smoothing.sequence_law import SequenceLaw
from seqsmooth.smoothing.similarity import Similarity
from seqsmooth.smoothing.specials import Specials
from seqsmooth.smoothing.token_vectors import Missing
from seqsmooth.smoothing.uniform import Uniform


class Common(TypedDict, total=False):
    """Arguments that every preset hands on to `Objective`."""

    entropy: float
    specials: Specials | None
    vocab_size: int | None
    ignore_index: int


def mle(**common: Unpack[Common]) -> Objective:
    """MLE: - sum_t ln p(y*_t | h_t), Eq. 4-5; with `entropy=gamma` the MLE + gamma H of Pereyra et al. 2017.

    Examples:
        >>> import torch
        >>> logits, targets = torch.randn(2, 3, 5), torch.tensor([[4, 1, -100], [0, 2, 3]])
        >>> loss = mle()(logits, targets)
        >>> torch.allclose(loss.total, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))
        True
    """
    return Objective(**common)


def label_smoothing(epsilon: float = 0.1, **common: Unpack[Common]) -> Objective:
    """Uniform label smoothing (Szegedy et al. 2016), as `F.cross_entropy(label_smoothing=epsilon)`.

    Examples:
        >>> import torch
        >>> logits, targets = torch.randn(2, 3, 5), torch.tensor([[4, 1, -100], [0, 2, 3]])
        >>> loss = label_smoothing(0.2)(logits, targets)
        >>> theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.2)
        >>> torch.allclose(loss.total, theirs)
        True
    """
    return Objective(token=Uniform(checks.fraction("epsilon", epsilon)), **common)


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
    """Tok: token-level smoothing by embeddings; with `beta` and `counts`, Tok r^freq.

    Examples:
        >>> import torch
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # token 1 is like token 0, token 2 is not
        >>> objective = tok(vectors, tau=0.1, alpha=0.4)
        >>> objective.propose(torch.tensor([[0, 2]])).target.dense(3)[0, 0].float().round(decimals=3)
        tensor([[0.8000, 0.2000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    return Objective(token=Similarity(embeddings, tau, beta, counts, alpha, missing=missing), **common)


def seq(
    tau: float | None = None,
    *,
    rate: float | None = None,
    pool: PoolName | Tensor = "vocab",  # (P,) or (B, P)
    alpha: float = 1.0,
    samples: int | None = None,
    reward: Callable[[Tensor, Tensor], Tensor] | None = None,
    reward_tau: float | None = None,
    weights: Weighting | None = None,
    lazy: bool = True,
    **common: Unpack[Common],
) -> Objective:
    """Seq and Seq lazy: - sum_y r(y|y*) ln p(y|x), Eq. 9, in a share `alpha`.

    r is the Hamming law, or with `reward` and `reward_tau` the law of any reward, by importance sampling.

    Args:
        tau: temperature of the Hamming law (or give `rate`).
        rate: as in `Hamming`.
        pool: as in `Hamming`.
        alpha: share of the law.
        samples: number of samples; with a reward 5 by default.
        reward: as in `Rewarded`.
        reward_tau: temperature of the reward.
        weights: as in `Rewarded`.
        lazy: as in `Objective`.
        common: `entropy`, `specials`, `vocab_size`, `ignore_index`, as in `Objective`.

    Examples:
        >>> import torch
        >>> logits, targets = torch.randn(2, 3, 10), torch.randint(10, (2, 3))
        >>> loss = seq(rate=0.3)(logits, targets)  # lazy, whole vocabulary: label smoothing by 0.3 V / (V - 1)
        >>> flat = logits.flatten(0, 1), targets.flatten()
        >>> theirs = torch.nn.functional.cross_entropy(*flat, label_smoothing=0.3 * 10 / 9)
        >>> torch.allclose(loss.total, theirs)
        True
    """
    sequence = _sequence(tau, rate, pool, alpha, samples, reward, reward_tau, weights)
    return Objective(sequence, lazy=lazy, **common)


def tok_seq(
    embeddings: Tensor,  # (V, D)
    token_tau: float,
    token_alpha: float,
    tau: float | None = None,
    *,
    beta: float = 0.0,
    counts: Tensor | None = None,  # (V,)
    missing: Missing = (),
    rate: float | None = None,
    pool: PoolName | Tensor = "vocab",  # (P,) or (B, P)
    alpha: float = 1.0,
    samples: int | None = None,
    reward: Callable[[Tensor, Tensor], Tensor] | None = None,
    reward_tau: float | None = None,
    weights: Weighting | None = None,
    lazy: bool = True,
    **common: Unpack[Common],
) -> Objective:
    """Tok-Seq: both (Eq. 17). `token_tau`, `token_alpha`, `beta`, `counts`: as in `tok`; the rest as in `seq`.

    Examples:
        >>> import torch
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> pool = torch.tensor([0, 2])  # 0.6 for token 0, 0.4 for token 2; half of it shared with the like
        >>> objective = tok_seq(vectors, token_tau=0.1, token_alpha=0.5, rate=0.4, pool=pool)
        >>> objective.propose(torch.tensor([[0]])).target.dense(4)[0, 0].float().round(decimals=3)
        tensor([[0.4500, 0.1500, 0.3000, 0.1000]])
    """
    checks.positive("token_tau", token_tau)
    checks.fraction("token_alpha", token_alpha)
    sequence = _sequence(tau, rate, pool, alpha, samples, reward, reward_tau, weights)
    token = Similarity(embeddings, token_tau, beta, counts, token_alpha, missing=missing)
    return Objective(sequence, token, lazy=lazy, **common)


def _sequence(
    tau: float | None,
    rate: float | None,
    pool: PoolName | Tensor,
    alpha: float,
    samples: int | None,
    reward: Callable[[Tensor, Tensor], Tensor] | None,
    reward_tau: float | None,
    weights: Weighting | None,
) -> SequenceLaw:
    if reward is None:
        checks.must(reward_tau is None, "reward_tau", "left out without a `reward`", reward_tau)
        checks.must(weights is None, "weights", "left out without a `reward`", repr(weights))
        return Hamming(tau, rate, pool, alpha, samples)
    checks.must(callable(reward), "reward", "callable, as Bleu()", checks.describe(reward))
    checks.must(reward_tau is not None, "reward_tau", "given with a `reward`", None)
    assert reward_tau is not None
    checks.positive("reward_tau", reward_tau)
    number = 5 if samples is None else samples
    chosen: Weighting = "tilted" if weights is None else weights
    return Rewarded(reward, Hamming(tau, rate, pool), reward_tau, number, alpha, weights=chosen)
