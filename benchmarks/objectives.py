"""Our losses as the benchmark runs them, and the same targets written out in float64 by other means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

import seqsmooth as ss
from benchmarks.shapes import STORED_VOCABULARY, Shape, Words, embeddings

TOKEN_TAU = 0.18
TOKEN_ALPHA = 0.7
EPSILON = 0.1
RATE = 0.3
ENTROPY = 0.1
TOP = 64
DRAWN = 16


@dataclass(frozen=True, eq=False)
class TimedLoss:
    """A loss of ours."""

    name: str
    make: Callable[[], ss.Objective]
    expected: Callable[[Words], Tensor] | None = None
    """The target as (N, V) float64 from its formula; without it, what the objective proposes, written out."""

    @cached_property
    def objective(self) -> ss.Objective:
        """The objective, made when it is first needed: some have large tables."""
        return self.make()

    @cached_property
    def source(self) -> ss.Philox:
        """The source of random numbers in a graph."""
        return ss.Philox(0, "cuda")

    def propose(self, text: Words, stream: torch.cuda.Stream | None = None) -> ss.Candidates:
        """Propose as a training step does.

        In a graph, random numbers are counted on the device: a replay would wait for the state of torch's generator.
        """
        source = self.source if text.targets.is_cuda else None
        captured = source is not None and torch.cuda.is_current_stream_capturing()
        return self.objective.propose(
            text.targets, references=text.references, stream=stream, generator=source if captured else None
        )

    def target(self, text: Words, vocab: int) -> Tensor:  # (N, V) float64
        """Return the target in full."""
        if self.expected is not None:
            return self.expected(text)
        return self.propose(text).target.dense(vocab).flatten(0, -2).double()


@dataclass(frozen=True, eq=False)
class LossSuite:
    """The losses of one shape, and the embeddings that they share."""

    shape: Shape
    vectors: Tensor  # (V, E)

    @classmethod
    def of(cls, shape: Shape, generator: torch.Generator) -> LossSuite:
        """Make the losses of a shape, with embeddings of its own."""
        return cls(shape, embeddings(shape.vocab, generator))

    @property
    def stored(self) -> bool:
        """Whether V x V tables are kept."""
        return self.shape.vocab <= STORED_VOCABULARY

    def one_hot(self, text: Words) -> Tensor:  # (N, V) float64
        """Return the target of MLE."""
        return torch.nn.functional.one_hot(text.labels, self.shape.vocab).double()

    def smoothed_target(self, text: Words) -> Tensor:  # (N, V) float64
        """Return the target of label smoothing."""
        return (1 - EPSILON) * self.one_hot(text) + EPSILON / self.shape.vocab

    def similar_target(self, text: Words) -> Tensor:  # (N, V) float64
        """Return the target of Tok, Eq. 13 of the paper."""
        units = torch.nn.functional.normalize(self.vectors.double(), dim=-1)
        law = torch.softmax(units[text.labels] @ units.T / TOKEN_TAU, -1)
        return (1 - TOKEN_ALPHA) * self.one_hot(text) + TOKEN_ALPHA * law

    def hamming_target(self, text: Words) -> Tensor:  # (N, V) float64
        """Return the expected target of lazy Hamming over the whole vocabulary."""
        same = self.one_hot(text)
        return (1 - RATE) * same + RATE / (self.shape.vocab - 1) * (1 - same)

    def losses(self) -> list[TimedLoss]:
        """List every loss of ours."""
        size = self.shape.vocab

        def similarity(*, stored: bool) -> ss.Similarity:
            kept = torch.float16 if stored else False
            return ss.Similarity(self.vectors, TOKEN_TAU, alpha=TOKEN_ALPHA, stored=kept)

        def sparse(mode: str, k: int) -> ss.Objective:
            k = min(k, size)
            law = ss.Similarity(self.vectors, TOKEN_TAU, alpha=TOKEN_ALPHA, mode=mode, k=k)  # type: ignore[arg-type]
            return ss.Objective(token=law)

        def hamming(pool: str, samples: int | None = None) -> ss.Objective:
            law = ss.Hamming(rate=RATE, pool=pool, samples=samples)  # type: ignore[arg-type]
            return ss.Objective(law, vocab_size=size).to(self.vectors.device)

        def both(samples: int) -> ss.Objective:
            law = ss.Hamming(rate=RATE, pool="refs", samples=samples)
            return ss.Objective(law, similarity(stored=self.stored))

        makers: dict[str, tuple[Callable[[], ss.Objective], Callable[[Words], Tensor] | None]] = {
            "MLE": (ss.mle, self.one_hot),
            "Label smoothing": (lambda: ss.label_smoothing(EPSILON, vocab_size=size), self.smoothed_target),
            "MLE + entropy": (lambda: ss.mle(entropy=ENTROPY), self.one_hot),
        }
        if self.stored:
            makers["Tok dense, stored"] = (lambda: ss.Objective(token=similarity(stored=True)), self.similar_target)
        makers |= {
            "Tok dense, on the fly": (lambda: ss.Objective(token=similarity(stored=False)), self.similar_target),
            "Tok top-64": (lambda: sparse("top-k", TOP), None),
            "Tok sampled-16": (lambda: sparse("sampled", DRAWN), None),
            "Seq exact, vocab": (lambda: hamming("vocab"), self.hamming_target),
            "Seq exact, batch": (lambda: hamming("batch"), None),
            "Seq exact, refs": (lambda: hamming("refs"), None),
            "Seq lazy, L=1": (lambda: hamming("vocab", 1), None),
            "Seq lazy, L=5": (lambda: hamming("vocab", 5), None),
            "Seq lazy, L=10": (lambda: hamming("vocab", 10), None),
            "Seq lazy, L=20": (lambda: hamming("vocab", 20), None),
            "Tok-Seq lazy, L=5": (lambda: both(5), None),
        }
        return [TimedLoss(name, make, expected) for name, (make, expected) in makers.items()]
