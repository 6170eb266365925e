"""Teacher forcing: how well a model is calibrated on references, and how much a corrupted prefix costs it.

A model trained on true prefixes alone has never seen its own mistakes (exposure bias). Here it reads prefixes in which
some words were replaced by random ones, and is asked for the same next tokens as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data import Corpus
from seqsmooth.data.tokens import TokenStore
from seqsmooth.models import Model
from seqsmooth.text.vocabulary import BOS, EOS, PAD, SPECIALS

BINS = 10
SHARES = (0.0, 0.1, 0.2, 0.3)
SEED = 0
ROWS = 2048  # prefixes that are read at once
PORTION = 4096  # tokens whose logits are in memory at once
_BLOCK = 1 << 24

Ids = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Bin:
    """Tokens whose most likely word has a probability in one tenth of [0, 1]."""

    tokens: int
    confidence: float
    """The sum of these probabilities."""
    right: int
    """The number of tokens where that word is the one in the reference."""


@dataclass(frozen=True)
class Corrupted:
    """The next token of the references, EOS included, after prefixes of which a share of the words was replaced."""

    share: float
    nll: float
    """The mean NLL of a token, in nats."""
    accuracy: float
    """The share of tokens where the most likely one is the reference's."""


def force(
    model: Model[Any, Any],
    corpus: Corpus,
    split: str,
    device: torch.device,
    *,
    shares: Sequence[float] = SHARES,
    rows: int = ROWS,
) -> tuple[tuple[Bin, ...], tuple[Corrupted, ...]]:
    """Read all references of a split by teacher forcing, once with each share of their words replaced.

    The bins are those of the first share.
    """
    store, firsts = _references(corpus, split)
    of_shares, of_bins = sum_up(model, corpus, split, device, store, firsts, shares, rows)
    (nll, right), count = of_shares.tolist(), len(store.ids)
    bins = tuple(Bin(int(tokens), sure, int(hits)) for tokens, sure, hits in of_bins.tolist())
    sums = zip(shares, nll, right, strict=True)
    return bins, tuple(Corrupted(share, total / count, hits / count) for share, total, hits in sums)


@torch.no_grad()
def sum_up(
    model: Model[Any, Any],
    corpus: Corpus,
    split: str,
    device: torch.device,
    store: TokenStore,
    firsts: NDArray[np.int64],  # (N + 1,)
    shares: Sequence[float],
    rows: int,
) -> tuple[Tensor, Tensor]:  # (2, S), (BINS, 3)
    """Sum NLL and hits by share, and tokens, confidence and hits by bin. The host waits for nothing."""
    read = [TokenStore(ids, store.offsets) for ids in corrupt(store.ids, unigrams(corpus), shares)]
    of_shares = torch.zeros(2, len(shares), dtype=torch.float64, device=device)
    of_bins = torch.zeros(BINS, 3, dtype=torch.float64, device=device)
    for items, which in _batches(store, firsts, max(1, rows // (int(np.diff(firsts).max()) * len(shares)))):
        inputs = tuple(_send(value, device) for value in corpus.inputs(split, items))
        width = int(store.lengths[which[which < len(store)]].max())
        targets = store.rows(which.reshape(-1), width)  # (B R, T)
        prefixes = np.stack([share.rows(which.reshape(-1), width) for share in read], 1)  # (B R, S, T)
        prefixes = np.roll(prefixes, 1, axis=-1)
        prefixes[..., 0] = BOS
        tokens = _send(torch.from_numpy(prefixes), device).reshape(len(items), -1, width)
        hidden = model(inputs, tokens).flatten(0, -2)  # (B R S T, D)
        row, column = np.nonzero(targets != PAD)
        place = row * len(shares) * width + column  # of the first share; the next is `width` further on
        places = place + width * np.arange(len(shares))[:, None]  # (S, N)
        portions = (
            torch.split(_send(torch.from_numpy(values), device), max(1, PORTION // len(shares)), -1)
            for values in (places, targets[row, column])
        )
        for chosen, words in zip(*portions, strict=True):
            _add_sums(model.logits(hidden.index_select(0, chosen.flatten())).float(), words, of_shares, of_bins)
    return of_shares, of_bins


def _add_sums(
    logits: Tensor,  # (S n, V)
    words: Tensor,  # (n,)
    of_shares: Tensor,  # (2, S), added to
    of_bins: Tensor,  # (BINS, 3), added to
) -> None:
    """Add the NLL, the hits and the confidence of some words to the sums."""
    several = words.repeat(of_shares.shape[1])
    top, guess = logits.max(-1)
    total = logits.logsumexp(-1)
    nll = total - logits.gather(1, several[:, None]).squeeze(1)
    right = guess == several
    of_shares += torch.stack([nll.double(), right.double()]).reshape(2, -1, len(words)).sum(-1)
    sure = (top - total)[: len(words)].exp()
    place = (sure * BINS).long().clamp_max(BINS - 1)
    row = torch.stack([torch.ones_like(sure), sure, right[: len(words)].float()], 1)
    of_bins.index_add_(0, place, row.double())


def unigrams(corpus: Corpus) -> NDArray[np.int64]:  # (V,)
    """Count the words of the training targets; special tokens are no words."""
    ids = corpus.split("train").targets.ids
    counts = np.zeros(len(corpus.vocabulary), dtype=np.int64)
    for first in range(0, len(ids), _BLOCK):
        counts += np.bincount(ids[first : first + _BLOCK], minlength=len(counts))
    counts[: len(SPECIALS)] = 0
    return counts


def corrupt(
    ids: Ids,  # (M,)
    counts: NDArray[np.int64],  # (V,)
    shares: Sequence[float],
    seed: int = SEED,
) -> list[Ids]:  # S of (M,)
    """Replace each word with a probability of `share` by another one, drawn from the unigram law.

    The draws are those of the seed alone: every model reads the same prefixes, and what is replaced at one share is
    replaced by the same word at all greater ones. EOS stays, and so does a word where there is no other.
    """
    source = np.random.default_rng(seed)
    ends = np.cumsum(counts)
    own = counts[ids]
    others = ends[-1] - own
    drawn = (source.random(len(ids)) * others).astype(np.int64)  # a place among the occurrences of all other words
    drawn += own * (drawn >= ends[ids] - own)
    other = np.searchsorted(ends, drawn, side="right")
    free = (ids != EOS) & (others > 0)
    luck = source.random(len(ids))
    return [np.where(free & (luck < share), other, ids) for share in shares]


def _references(corpus: Corpus, split: str) -> tuple[TokenStore, NDArray[np.int64]]:
    """All references of a split, whole, and the first of each item."""
    targets = corpus.targets(split)
    ids, offsets = corpus.vocabulary.encode_all(chain.from_iterable(targets), eos=True)
    return TokenStore(ids, offsets), np.cumsum([0, *(len(several) for several in targets)])


def _batches(
    store: TokenStore,
    firsts: NDArray[np.int64],  # (N + 1,)
    size: int,
) -> Iterator[tuple[list[int], Ids]]:
    """Items whose longest references are of like length, and the references of each, (B, R); len(store) means none."""
    most = int(np.diff(firsts).max())
    which = firsts[:-1, None] + np.arange(most)
    which = np.where(which < firsts[1:, None], which, len(store))
    longest = np.append(store.lengths, 0)[which].max(1)
    order = np.argsort(-longest, kind="stable")
    for first in range(0, len(order), size):
        items = order[first : first + size]
        yield items.tolist(), which[items]


def _send(value: Tensor, device: torch.device) -> Tensor:
    """To the device, without waiting for what it is doing."""
    return value.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else value
