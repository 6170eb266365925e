"""GloVe: vectors whose products are the logarithms of co-occurrence counts (Pennington et al. 2014)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.text.cooccurrence import Cooccurrence, count
from seqsmooth.text.vectors import WordVectors
from seqsmooth.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

Progress = Callable[[int, int, float], None]
"""Called after each iteration with its number, how many there are, and the mean loss of an entry in it."""
_FULLEST = 128  # entries of one word in one batch: with many more, the first steps are too long and the loss diverges
_LEAST = 64  # batches, so that a small corpus gets enough steps


@dataclass(frozen=True)
class GloVe:
    """The settings of GloVe; the defaults are those of Stanford's program, except `dim`.

    Args:
        dim: the length of the vectors, d.
        iterations: passes over the entries of the matrix.
        window: the greatest distance of two words that count as near.
        symmetric: whether words to the right count as near, too.
        weighted: whether near words count 1/distance, or 1.
        x_max: the count from which on an entry has its full weight.
        exponent: alpha of f(x) = (x / x_max)^alpha.
        rate: the step of AdaGrad.
        batches: batches of a pass; by default so many that no batch holds more than about 128 entries of one word.
            With as many batches as entries, this is Stanford's program on one thread.
        combine: whether a word's vector is the sum or the mean of its two vectors, or the first of them alone.
        eos: whether EOS is a word, which ends every sentence, or has no vector.
        seed: the first vectors and the order of the entries follow from it.

    Examples:
        >>> from seqsmooth.text import WordCounts
        >>> sentences = [["a", "dog", "runs"], ["a", "cat", "eats"], ["the", "dog", "eats"]] * 9
        >>> vocabulary = WordCounts.of(sentences).vocabulary(min_count=1)
        >>> vectors = GloVe(dim=4, seed=1).fit(sentences, vocabulary)
        >>> vectors.values.shape  # six words and EOS, which ends every sentence
        torch.Size([7, 4])
        >>> torch.equal(vectors.values, GloVe(dim=4, seed=1).fit(sentences, vocabulary).values)
        True
    """

    dim: int = 100
    iterations: int = 25
    window: int = 15
    symmetric: bool = True
    weighted: bool = True
    x_max: float = 100.0
    exponent: float = 0.75
    rate: float = 0.05
    batches: int | None = None
    combine: Literal["sum", "mean", "word"] = "sum"
    eos: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("dim", "iterations", "window"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_least("seed", self.seed, 0)
        if self.batches is not None:
            checks.at_least("batches", self.batches, 1)
        for name in ("x_max", "rate"):
            checks.positive(name, getattr(self, name))
        checks.non_negative("exponent", self.exponent)
        for name in ("symmetric", "weighted", "eos"):
            checks.flag(name, getattr(self, name))
        checks.one_of("combine", self.combine, ("sum", "mean", "word"))

    def fit(
        self,
        sentences: Iterable[Sequence[str]],
        vocabulary: Vocabulary,
        *,
        device: torch.device | str = "cpu",
        progress: Progress | None = None,
    ) -> WordVectors:
        """Train vectors of the words of a vocabulary on tokenised sentences."""
        cooccurrence = self.count(sentences, vocabulary)
        rule = "at least two words of the vocabulary near each other"
        checks.must(len(cooccurrence.values) > 0, "sentences", rule, "without any")
        fitted = self.factorise(cooccurrence, device=device, progress=progress)
        known = torch.ones(len(vocabulary), dtype=torch.bool)
        known[[PAD, BOS, UNK] if self.eos else [PAD, BOS, UNK, EOS]] = False
        words = tuple(word for word, has in zip(vocabulary.words, known.tolist(), strict=True) if has)
        return WordVectors(words, fitted.vectors(self.combine)[known])

    def count(self, sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> Cooccurrence:
        """Count which words are near each other; words that are not known take up no place."""
        ids, offsets = vocabulary.encode_all(sentences, eos=self.eos, unk=False)
        return count(
            ids, offsets, len(vocabulary), window=self.window, symmetric=self.symmetric, weighted=self.weighted
        )

    def factorise(
        self,
        cooccurrence: Cooccurrence,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        progress: Progress | None = None,
    ) -> Factors:
        """Minimise the weighted squares of Eq. 8 by AdaGrad."""
        generator = torch.Generator().manual_seed(self.seed)
        batches = self._batches(cooccurrence, generator, torch.device(device), dtype)
        factors = Factors.initial(cooccurrence.size, self.dim, generator, torch.device(device), dtype)
        for iteration in range(1, self.iterations + 1):
            losses = [
                factors.step(batches[place], self.rate)
                for place in torch.randperm(len(batches), generator=generator).tolist()
            ]
            loss = float(torch.stack(losses).sum()) / len(cooccurrence.values)
            checks.must(loss < float("inf"), "rate", "small enough for the loss to fall", f"{self.rate}: it diverged")
            if progress is not None:
                progress(iteration, self.iterations, loss)
        return factors

    def _batches(
        self, cooccurrence: Cooccurrence, generator: torch.Generator, device: torch.device, dtype: torch.dtype
    ) -> list[PairBatch]:
        entries = len(cooccurrence.values)
        fullest = max(int(torch.bincount(side).max()) for side in (cooccurrence.rows, cooccurrence.columns))
        wanted = max(ceil(fullest / _FULLEST), _LEAST) if self.batches is None else self.batches
        shuffled = torch.randperm(entries, generator=generator)
        return [
            PairBatch.of(cooccurrence, chosen.sort().values, self.x_max, self.exponent, device, dtype)
            for chosen in shuffled.tensor_split(min(wanted, entries))
        ]


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some entries of the matrix, sorted by row, and how to walk them by column.

    In these orders each sum over the entries of a word is one bag of `embedding_bag`, which reads only what it needs
    and adds it in a fixed order.
    """

    logs: Tensor  # (N,) ln X_ij
    weights: Tensor  # (N,) f(X_ij)
    rows: Tensor  # (N,) int32
    columns: Tensor  # (N,) int32
    row_starts: Tensor  # (V,) int32
    by_column: Tensor  # (N,) int64: the places of the entries, sorted by column
    rows_by_column: Tensor  # (N,) int32
    column_starts: Tensor  # (V,) int32

    @classmethod
    def of(
        cls,
        cooccurrence: Cooccurrence,
        chosen: Tensor,  # (N,) ascending
        x_max: float,
        exponent: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> PairBatch:
        """Make a batch of the chosen entries."""
        rows, columns, values = cooccurrence.rows[chosen], cooccurrence.columns[chosen], cooccurrence.values[chosen]
        ids = torch.arange(cooccurrence.size)
        sorted_columns, by_column = columns.sort(stable=True)
        return cls(
            logs=values.log().to(device, dtype),
            weights=((values / x_max).clamp(max=1) ** exponent).to(device, dtype),
            rows=rows.int().to(device),
            columns=columns.int().to(device),
            row_starts=torch.searchsorted(rows, ids).int().to(device),
            by_column=by_column.to(device),
            rows_by_column=rows[by_column].int().to(device),
            column_starts=torch.searchsorted(sorted_columns, ids).int().to(device),
        )


@dataclass(frozen=True, eq=False)
class Factors:
    """The vectors and biases of words and of contexts, with the sums of squares of AdaGrad.

    A row of `words` is (w, b, 1) and one of `contexts` is (w~, 1, b~), so that their product is w w~ + b + b~.
    """

    words: Tensor  # (V, d + 2)
    contexts: Tensor  # (V, d + 2)
    word_squares: Tensor  # (V, d + 2)
    context_squares: Tensor  # (V, d + 2)

    @classmethod
    def initial(
        cls, size: int, dim: int, generator: torch.Generator, device: torch.device, dtype: torch.dtype
    ) -> Factors:
        """Draw vectors and biases uniformly in +-0.5/(d + 1), as Stanford's program does."""
        words, contexts = (torch.rand(2, size, dim + 2, generator=generator, dtype=torch.float64) - 0.5) / (dim + 1)
        words[:, dim + 1] = 1
        contexts[:, dim] = 1
        tables = [table.to(device, dtype) for table in (words, contexts)]
        return cls(*tables, *map(torch.ones_like, tables))

    def vectors(self, combine: str) -> Tensor:  # (V, d) on the host
        """Return one vector for each word, from its vectors as a word and as a context."""
        words, contexts = self.words[:, :-2], self.contexts[:, :-2]
        together = words if combine == "word" else words + contexts
        return (together / 2 if combine == "mean" else together).float().cpu()

    def gradients(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor]:  # (), (V, d + 2), (V, d + 2)
        """Return the loss 1/2 sum f(X) (w w~ + b + b~ - ln X)^2 of a batch, and its gradients."""
        # The products of some rows with some columns are what `embedding_bag` differentiates its weights by.
        products = torch.ops.aten._embedding_bag_per_sample_weights_backward(
            self.words, self.contexts, batch.columns, batch.row_starts, batch.rows, 0
        )
        errors = products - batch.logs
        pulls = batch.weights * errors
        words = F.embedding_bag(batch.columns, self.contexts, batch.row_starts, mode="sum", per_sample_weights=pulls)
        contexts = F.embedding_bag(
            batch.rows_by_column,
            self.words,
            batch.column_starts,
            mode="sum",
            per_sample_weights=pulls[batch.by_column],
        )
        words[:, -1] = 0  # of the ones that are no parameters
        contexts[:, -2] = 0
        return (pulls * errors).sum() / 2, words, contexts

    def step(self, batch: PairBatch, rate: float) -> Tensor:  # ()
        """Take a step of AdaGrad as Stanford's program does, squares being of rate x gradient; return its loss."""
        loss, *slopes = self.gradients(batch)
        tables = ((self.words, self.word_squares), (self.contexts, self.context_squares))
        for (table, squares), slope in zip(tables, slopes, strict=True):
            slope *= rate
            table.addcdiv_(slope, squares.sqrt(), value=-1)
            squares.addcmul_(slope, slope)
        return loss
