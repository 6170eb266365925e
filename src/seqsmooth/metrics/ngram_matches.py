"""How many n-grams of each hypothesis are in its references: what every kind of BLEU is calculated from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from seqsmooth.metrics.evaluation_set import Tokens

Ints = NDArray[np.int64]
_PORTION = 4096  # items that are counted together


def count_matches(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], order: int
) -> Ints:  # (N, 2 + 2 order)
    """Count each item: its length, that of its closest reference, for each order the matches, for each the n-grams.

    An n-gram matches as often as it is in the reference that has most of it. Of two references that are equally close
    in length, the shorter one counts.
    """
    rows = [np.zeros((0, 2 + 2 * order), dtype=np.int64)]
    for start in range(0, len(hypotheses), _PORTION):
        end = start + _PORTION
        rows.append(_count(hypotheses[start:end], references[start:end], order))
    return np.concatenate(rows)


def _count(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], order: int) -> Ints:
    number = len(hypotheses)
    sentences = [*hypotheses, *chain.from_iterable(references)]
    sizes = np.fromiter(map(len, sentences), np.int64, len(sentences))
    several = np.fromiter(map(len, references), np.int64, number)
    # Of each sentence its item, and its turn: 0 for the hypothesis, then the references.
    item = np.concatenate([np.arange(number), np.repeat(np.arange(number), several)])
    turn = np.concatenate([np.zeros(number, dtype=np.int64), _turns(several) + 1])
    rows = np.zeros((number, 2 + 2 * order), dtype=np.int64)
    rows[:, 0], rows[:, 1] = sizes[:number], _closest(sizes, item, number)
    words = _numbers(sentences, int(sizes.sum()))
    distinct = int(words.max(initial=0)) + 1
    sentence = np.repeat(np.arange(len(sentences)), sizes)
    item_of, turn_of = item[sentence], turn[sentence]
    # The n-grams of each item are numbered apart from those of others, one order after the other.
    ranks = item_of
    starts = np.arange(len(words))
    for n in range(1, order + 1):
        if n > 1:
            starts = np.flatnonzero(sentence[: max(0, len(words) - n + 1)] == sentence[n - 1 :])
        keys, places = np.unique(ranks[starts] * distinct + words[starts + n - 1], return_inverse=True)
        owner = np.zeros(len(keys), dtype=np.int64)
        owner[places] = item_of[starts]
        turns = turn_of[starts]
        ours = np.bincount(places[turns == 0], minlength=len(keys))
        most = np.zeros(len(keys), dtype=np.int64)
        for which in range(1, int(several.max()) + 1):
            np.maximum(most, np.bincount(places[turns == which], minlength=len(keys)), out=most)
        rows[:, 1 + n] = np.bincount(owner, weights=np.minimum(ours, most), minlength=number)
        rows[:, 1 + order + n] = np.maximum(0, sizes[:number] - n + 1)
        ranks = np.zeros(len(words), dtype=np.int64)  # where no n-gram starts, nobody asks
        ranks[starts] = places
    return rows


def _turns(several: Ints) -> Ints:
    """0, 1, 2 and so on for each number."""
    return np.arange(several.sum()) - np.repeat(np.cumsum(several) - several, several)


def _closest(sizes: Ints, item: Ints, number: int) -> Ints:
    """The length of each item's closest reference."""
    theirs, owner = sizes[number:], item[number:]
    distance = np.abs(theirs - sizes[owner])
    order = np.lexsort((theirs, distance, owner))
    first = np.searchsorted(owner[order], np.arange(number))
    closest: Ints = theirs[order[first]]
    return closest


def _numbers(sentences: Sequence[Sequence[Hashable]], size: int) -> Ints:
    """Number the tokens of all sentences; which number is which does not matter."""
    numbers = {token: number for number, token in enumerate(set(chain.from_iterable(sentences)))}
    return np.fromiter(map(numbers.__getitem__, chain.from_iterable(sentences)), np.int64, size)
