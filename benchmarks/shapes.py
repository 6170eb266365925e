"""The shapes of the benchmark, and inputs of these shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seqsmooth.ops import checks

CACHE_BYTES = 64 * 2**20
"""More than the last cache of today's GPUs."""
SAMPLE_ELEMENTS = 2**25
"""Logits of the sample that is computed in float64: 256 MiB of it."""
EMBEDDING_SIZE = 300
STORED_VOCABULARY = 50_000
"""Up to this vocabulary the V x V table is kept in the benchmark."""
SQUARE_ON_CPU = 12_000
"""The same on a CPU, for peers too."""

CPU_SAMPLE_ELEMENTS = 2**20
"""The same on the CPU, where float64 takes its time."""
DTYPES: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
}


@dataclass(frozen=True)
class Shape:
    """A batch at the output of a decoder: B x T rows, D hidden units, V tokens, R references an item."""

    name: str
    what: str
    batch: int
    steps: int
    hidden: int
    vocab: int
    references: int = 5

    @property
    def rows(self) -> int:
        """N = B T."""
        return self.batch * self.steps

    def sample(self, elements: int = SAMPLE_ELEMENTS) -> Shape:
        """Return this shape with as few rows as float64 allows."""
        rows = max(1, elements // self.vocab)
        steps = min(self.steps, rows, 128) if rows < self.rows else self.steps
        return replace(self, steps=steps, batch=min(self.batch, max(1, rows // steps)))

    def sample_on(self, device: torch.device) -> Shape:
        """Return this shape with as few rows as float64 allows on a device."""
        return self.sample(SAMPLE_ELEMENTS if device.type == "cuda" else CPU_SAMPLE_ELEMENTS)

    def sets(self, bytes_each: int) -> int:
        """Return how many sets of inputs must take turns so that none survives in the cache of the device."""
        if bytes_each >= 16 * CACHE_BYTES:
            return 1
        return min(4, max(2, math.ceil(2 * CACHE_BYTES / bytes_each)))

    def facts(self) -> dict[str, int | str]:
        """Return the numbers, for the record."""
        return {
            "name": self.name,
            "what": self.what,
            "B": self.batch,
            "T": self.steps,
            "N": self.rows,
            "D": self.hidden,
            "V": self.vocab,
        }


SHAPES: dict[str, Shape] = {
    "a": Shape("a", "COCO captions", 50, 17, 512, 9800),
    "b": Shape("b", "IWSLT translation", 32, 25, 256, 22822),
    "c": Shape("c", "WMT translation", 80, 50, 2000, 30000),
    "d": Shape("d", "a language model", 8, 1024, 4096, 128256, references=1),
    "captions": Shape("captions", "COCO captions", 50, 17, 512, 9800),
    "sentences": Shape("sentences", "IWSLT translation", 32, 25, 256, 22822),
    "llm": Shape("llm", "a language model", 4, 128, 1024, 128256, references=1),
    "tiny": Shape("tiny", "for tests", 3, 5, 8, 50),
}
"""a to d are for a GPU, those with names for a CPU; captions and sentences are a and b."""


def chosen_shapes(names: str) -> list[Shape]:
    """Find shapes by their names, as in "a,b"."""
    listed = [name.strip() for name in names.split(",") if name.strip()]
    checks.must(bool(listed), "shapes", "names with commas between them, as a,b", repr(names))
    for name in listed:
        checks.one_of("shapes", name, list(SHAPES))
    return [SHAPES[name] for name in listed]


@dataclass(frozen=True, eq=False)
class Words:
    """The targets of a batch."""

    targets: Tensor  # (B, T)
    references: Tensor  # (B, R, T), of which the first is the target
    samples: Tensor  # (L, N) target sequences, as a sampler gives them

    @property
    def labels(self) -> Tensor:  # (N,)
        """The targets in one row."""
        return self.targets.flatten()


@dataclass(frozen=True, eq=False)
class GivenLogits:
    """Inputs of a loss."""

    logits: Tensor  # (N, V), a leaf
    words: Words

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """The tensors that a loss is differentiated by."""
        return (self.logits,)

    @property
    def vocab(self) -> int:
        """V."""
        return self.logits.shape[-1]

    @staticmethod
    def logits_of(logits: Tensor) -> Tensor:
        """Return the logits that leaves like these stand for."""
        return logits


@dataclass(frozen=True, eq=False)
class GivenHidden:
    """Inputs of a head."""

    hidden: Tensor  # (N, D), a leaf
    weight: Tensor  # (V, D), a leaf
    words: Words

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """What a loss is differentiated by."""
        return self.hidden, self.weight

    @property
    def vocab(self) -> int:
        """V."""
        return self.weight.shape[0]

    @staticmethod
    def logits_of(hidden: Tensor, weight: Tensor) -> Tensor:
        """The logits that leaves like these stand for."""
        return hidden @ weight.T


def zipf(
    size: Sequence[int],
    vocab: int,
    generator: torch.Generator,
) -> Tensor:  # (*size)
    """Draw tokens of text: the r-th most frequent one has a frequency of 1 / r, and ids are in no order."""
    count = math.prod(size)
    odds = 1 / torch.arange(1, vocab + 1, dtype=torch.float64, device=generator.device)
    # At least one, for torch draws no fewer: an item with one reference has no others.
    ranks = torch.multinomial(odds, max(1, count), replacement=True, generator=generator)[:count]
    order = torch.randperm(vocab, generator=torch.Generator().manual_seed(0)).to(ranks.device)
    return order[ranks].view(*size)


def words(shape: Shape, generator: torch.Generator, samples: int = 5) -> Words:
    """Draw targets, references that share most of their words, and sampled sequences."""
    targets = zipf((shape.batch, shape.steps), shape.vocab, generator)

    def change_words(count: int) -> Tensor:
        copies = targets.unsqueeze(1).expand(-1, count, -1)
        new = zipf(tuple(copies.shape), shape.vocab, generator)
        flips = torch.rand(copies.shape, device=targets.device, generator=generator) < 0.3
        return torch.where(flips, new, copies)

    references = torch.cat([targets.unsqueeze(1), change_words(shape.references - 1)], 1)
    return Words(targets, references, change_words(samples).transpose(0, 1).flatten(1).contiguous())


def logits_inputs(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> GivenLogits:
    """Draw logits as a model gives them half-way through training: the right token stands out, more or less."""
    text = words(shape, generator)
    logits = torch.empty(shape.rows, shape.vocab, dtype=dtype, device=generator.device)
    logits.normal_(0, 2, generator=generator)
    lift = 6 + 3 * torch.randn(shape.rows, 1, device=generator.device, generator=generator)
    logits.scatter_add_(1, text.labels.unsqueeze(1), lift.to(dtype))
    return GivenLogits(logits.requires_grad_(), text)


def hidden_inputs(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> GivenHidden:
    """Draw hidden states and a weight whose logits have a spread of 2."""
    text = words(shape, generator)
    hidden = torch.empty(shape.rows, shape.hidden, dtype=dtype, device=generator.device)
    weight = torch.empty(shape.vocab, shape.hidden, dtype=dtype, device=generator.device)
    hidden.normal_(generator=generator)
    weight.normal_(0, 2 / math.sqrt(shape.hidden), generator=generator)
    return GivenHidden(hidden.requires_grad_(), weight.requires_grad_(), text)


def embeddings(vocab: int, generator: torch.Generator, size: int = EMBEDDING_SIZE) -> Tensor:  # (V, size)
    """Draw word vectors with neighbourhoods, as real ones have: each is near its cluster."""
    clusters = torch.randn(max(2, vocab // 50), size, device=generator.device, generator=generator)
    which = torch.randint(len(clusters), (vocab,), device=generator.device, generator=generator)
    own = torch.randn(vocab, size, device=generator.device, generator=generator)
    return torch.nn.functional.normalize(clusters[which] + own, dim=-1)
