"""Our losses as the benchmark runs them, and the same targets written out in float64 by other means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import torch
from torch import Tensor

import seqsmooth as ss
from benchmarks.shapes import SQUARE_ON_CPU, STORED_VOCABULARY, Shape, Words, embeddings, words
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.training.neighbours import cached_nearest

TOKEN_TAU = 0.18
TOKEN_ALPHA = 0.7
EPSILON = 0.1
RATE = 0.3
ENTROPY = 0.1
TOP = 64
DRAWN = 16
REWARD_TAU = 0.5
REWARDED = 5
DOCUMENTS = 1000
"""Items whose references make the document frequencies of CIDEr-D."""


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
        """Whether V x V tables in fp16 are kept."""
        return self.shape.vocab <= (STORED_VOCABULARY if self.vectors.is_cuda else SQUARE_ON_CPU)

    def cider(self) -> ss.rewards.Cider:
        """CIDEr-D with the document frequencies of captions of this vocabulary."""
        shape = replace(self.shape, batch=DOCUMENTS, steps=self.shape.steps)
        references = words(shape, torch.Generator().manual_seed(1), samples=1).references
        return ss.rewards.Cider(ss.rewards.DocumentFrequencies.build(references.tolist()))

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

    @cached_property
    def losses(self) -> list[TimedLoss]:
        """List every loss of ours."""
        size = self.shape.vocab

        @cache
        def similarity(*, stored: bool) -> ss.Similarity:
            kept = torch.float16 if stored else False
            return ss.Similarity(self.vectors, TOKEN_TAU, alpha=TOKEN_ALPHA, stored=kept)

        @cache
        def usual() -> ss.Similarity:
            return ss.Similarity(self.vectors, TOKEN_TAU, alpha=TOKEN_ALPHA)

        on_cpu = not self.vectors.is_cuda

        def sparse(mode: str, k: int) -> ss.Objective:
            k = min(k, size)
            law = ss.Similarity(self.vectors, TOKEN_TAU, alpha=TOKEN_ALPHA, mode=mode, k=k)  # type: ignore[arg-type]
            law.nearest = cached_nearest if self.vectors.is_cuda or size <= STORED_VOCABULARY else any_tokens
            return ss.Objective(token=law)

        def hamming(pool: str, samples: int | None = None) -> ss.Objective:
            law = ss.Hamming(rate=RATE, pool=pool, samples=samples)  # type: ignore[arg-type]
            return ss.Objective(law, vocab_size=size).to(self.vectors.device)

        def rewarded(reward: Callable[[], torch.nn.Module], token: ss.Similarity | None = None) -> ss.Objective:
            law = ss.Rewarded(reward(), ss.Hamming(rate=RATE, pool="refs"), tau=REWARD_TAU, samples=REWARDED)
            return ss.Objective(law, token).to(self.vectors.device)

        def both(samples: int | None) -> ss.Objective:
            law = ss.Hamming(rate=RATE, pool="refs", samples=samples)
            return ss.Objective(law, usual() if on_cpu else similarity(stored=self.stored))

        makers: dict[str, tuple[Callable[[], ss.Objective], Callable[[Words], Tensor] | None]] = {
            "MLE": (ss.mle, self.one_hot),
            "Label smoothing": (lambda: ss.label_smoothing(EPSILON, vocab_size=size), self.smoothed_target),
            "MLE + entropy": (lambda: ss.mle(entropy=ENTROPY), self.one_hot),
        }
        if on_cpu:
            makers["Tok dense"] = (lambda: ss.Objective(token=usual()), self.similar_target)
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
            "Seq CIDEr, L=5": (lambda: rewarded(self.cider), None),
            "Seq BLEU, L=5": (lambda: rewarded(ss.rewards.Bleu), None),
            "Tok-Seq exact, refs": (lambda: both(None), None),
            "Tok-Seq lazy, L=5": (lambda: both(5), None),
            "Tok-Seq CIDEr, L=5": (lambda: rewarded(self.cider, usual()), None),
        }
        return [TimedLoss(name, make, expected) for name, (make, expected) in makers.items()]


def any_tokens(law: SimilarityTable, k: int) -> tuple[Tensor, Tensor]:  # (V, k) twice
    """Take any tokens for the nearest, in descending weights: which ones does not matter for the time of a loss.

    To search for them takes a CPU minutes where the vocabulary is large.
    """
    steps = torch.arange(k) * 97  # distinct, and not side by side in memory
    ids = (torch.arange(law.vocab_size).unsqueeze(1) + steps) % law.vocab_size
    return ids, torch.softmax(-torch.arange(k) / 8.0, 0).mul(0.5).expand(law.vocab_size, k).contiguous()


def suite_of(shape: Shape, device: torch.device, seed: int) -> LossSuite:
    """Make the losses of a shape; on the CPU the last are kept, for each number of threads has a table."""
    make = _last_suite if device.type == "cpu" else _last_suite.__wrapped__
    return make(shape, device, seed)


@lru_cache(maxsize=1)
def _last_suite(shape: Shape, device: torch.device, seed: int) -> LossSuite:
    return LossSuite.of(shape, torch.Generator(device).manual_seed(seed))
