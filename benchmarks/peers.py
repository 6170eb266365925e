"""Other people's losses: as they are written by hand, and as packages offer them where these are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

PACKAGES = ("liger_kernel", "cut_cross_entropy", "pycocoevalcap", "sacrebleu", "nltk", "matplotlib")


def compile_once(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function through torch.compile, for one shape only."""
    return torch.compile(function, dynamic=False)


def index_loss(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
) -> Tensor:  # ()
    """MLE in torch."""
    return F.cross_entropy(logits, labels)


def wide_index_loss(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
) -> Tensor:  # ()
    """MLE on logits in fp32, as training loops commonly have it."""
    return F.cross_entropy(logits.float(), labels)


def label_smoothing(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
    epsilon: float,
) -> Tensor:  # ()
    """Label smoothing in torch."""
    return F.cross_entropy(logits, labels, label_smoothing=epsilon)


def table_loss(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
    table: Tensor,  # (V, V) the target of each label
) -> Tensor:  # ()
    """Soft targets in torch: gather a row a position, and give it as class probabilities."""
    return F.cross_entropy(logits.float(), table[labels])


def authors_loss(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
    cosines: Tensor,  # (V, V)
    tau: float,
    alpha: float,
) -> Tensor:  # ()
    """Tok as the authors compute it: gather the cosines, exp, normalise, and mix with MLE."""
    similar = torch.exp(cosines[labels] / tau)
    target = similar / similar.sum(-1, keepdim=True)
    log_probs = F.log_softmax(logits.float(), -1)
    smoothed = -(target * log_probs).sum(-1).mean()
    return alpha * smoothed + (1 - alpha) * F.nll_loss(log_probs, labels)


def gather_loss(
    logits: Tensor,  # (N, V)
    ids: Tensor,  # (N, K)
    weights: Tensor,  # (N, K)
) -> Tensor:  # ()
    """A sparse soft target as distillation code has it: lse minus the gathered logits, in fp32."""
    wide = logits.float()
    chosen = wide.gather(-1, ids)
    return (weights.sum(-1) * wide.logsumexp(-1) - (weights * chosen).sum(-1)).mean()


def loop_loss(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
    samples: Tensor,  # (L, N)
) -> Tensor:  # ()
    """Lazy sequence smoothing one sequence at a time: L + 1 cross entropies."""
    total = F.cross_entropy(logits, labels)
    for sampled in samples:
        total = total + F.cross_entropy(logits, sampled)
    return total / (1 + samples.shape[0])


def liger_loss(smoothing: float = 0.0) -> Callable[[Tensor, Tensor], Tensor]:
    """Liger's cross entropy, which writes its gradient over the logits."""
    function: Any = importlib.import_module("liger_kernel.ops.cross_entropy").LigerCrossEntropyFunction

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        # Arguments in their order: weight, ignore_index, lse_square_scale, label_smoothing, reduction.
        result: Tensor = function.apply(logits, labels, None, -100, 0.0, smoothing, "mean")[0]
        return result

    return loss


def liger_head(chunk_memory: int, smoothing: float = 0.0) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Liger's fused linear cross entropy; `chunk_memory` is its `chunk_mem_const`, 1 by default."""
    function: Any = importlib.import_module("liger_kernel.transformers.functional").liger_fused_linear_cross_entropy
    options = {"label_smoothing": smoothing} | ({} if chunk_memory == 1 else {"chunk_mem_const": chunk_memory})

    def loss(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        result = function(hidden, weight, labels, **options)
        total: Tensor = result[0] if isinstance(result, tuple) else result
        return total

    return loss


def cce_head() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Apple's cut cross entropy."""
    function: Any = importlib.import_module("cut_cross_entropy").linear_cross_entropy

    def loss(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        result: Tensor = function(hidden, weight, labels)
        return result

    return loss


def torch_head() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Torch's own linear cross entropy, chunked, where this torch has it."""
    function: Any = getattr(F, "linear_cross_entropy", None)
    options: Any = getattr(torch.nn, "LinearCrossEntropyOptions", lambda: None)()

    def loss(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        result: Tensor = function(hidden, weight, labels, options=options)
        return result

    return loss
