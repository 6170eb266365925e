"""`rewards`: CIDEr-D and BLEU of many candidates at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Call, Contest, Contestant, Part, again
from benchmarks.paths import along, named
from benchmarks.records import TimingTable
from benchmarks.shapes import zipf
from seqsmooth.packages import is_installed
from seqsmooth.rewards import Bleu, Cider, DocumentFrequencies

SIZES = (50, 250, 2500, 25_000)
ROWS = 50
REFERENCES = 5
LENGTH = 17
VOCAB = 9800
DOCUMENTS = 20_000
BY_PEERS = 50
"""Candidates that scorers of a millisecond each are given."""
BY_HOST = 50
"""Rows that ours are given on the host."""
SAMPLE_ROWS = 500
"""Rows that are also scored in float64."""
INPUT_SETS = 3


@dataclass(frozen=True, eq=False)
class Captions:
    """Candidates and the references of each row."""

    candidates: Tensor  # (B, L, T)
    references: Tensor  # (B, R, S)

    def first(self, rows: int, samples: int | None = None) -> Captions:
        """Take the first rows, with their first samples."""
        return Captions(self.candidates[:rows, :samples], self.references[:rows])

    def on_host(self) -> Captions:
        """Copy the captions to the CPU."""
        return Captions(self.candidates.cpu(), self.references.cpu())


def parts(sizes: Sequence[int] = SIZES) -> list[Part]:
    """One table for each number of candidates."""

    def part(size: int) -> Part:
        return f"{size} candidates", lambda contest: table(size, contest)

    return [part(size) for size in sizes]


def table(size: int, contest: Contest, *, documents: int = DOCUMENTS, seed: int = 0) -> TimingTable:
    """Compare the scorers on so many candidates."""
    device = contest.clock.device
    generator = torch.Generator(device).manual_seed(seed)
    rows, samples = (ROWS, size // ROWS) if size < 2500 else (size // REFERENCES, REFERENCES)
    inputs = [captions(rows, samples, generator) for _ in range(INPUT_SETS)]
    frequencies = document_frequencies(documents)
    mine, base = list(ours(frequencies, device, min(rows, BY_HOST) * samples)), "CIDEr-D"
    if contest.paths:
        mine, base = along([each for each in mine if not each.on_host], contest.paths), named(base, contest.paths[0])
    everyone = again([*mine, *theirs(inputs[0])], base)
    sample = inputs[0].first(SAMPLE_ROWS)
    measured = contest.rows(contest.choose(everyone), inputs, sample, ("score",))
    shape: dict[str, int | str] = {"B": rows, "L": samples, "R": REFERENCES, "T": LENGTH, "V": VOCAB}
    title = f"rewards{contest.where}: {size} candidates of {LENGTH} tokens, {REFERENCES} references each"
    return TimingTable(
        title, shape | {"documents": documents} | contest.facts, measured, peer="pycocoevalcap CIDEr", items=size
    )


def captions(rows: int, samples: int, generator: torch.Generator) -> Captions:
    """Draw references that share phrases, and candidates that share phrases with them, 8 to 17 tokens long."""
    base = zipf((rows, 1, LENGTH), VOCAB, generator)

    def captions_like(count: int) -> Tensor:
        copies = base.expand(-1, count, -1)
        flips = torch.rand(copies.shape, device=base.device, generator=generator) < 0.25
        words = torch.where(flips, zipf(tuple(copies.shape), VOCAB, generator), copies)
        lengths = torch.randint(8, LENGTH + 1, (rows, count, 1), device=base.device, generator=generator)
        return torch.where(torch.arange(LENGTH, device=base.device) < lengths, words, -1)

    return Captions(captions_like(samples), captions_like(REFERENCES))


@cache
def document_frequencies(documents: int) -> DocumentFrequencies:
    """Count the document frequencies of a corpus like these captions."""
    corpus = captions(documents, 1, torch.Generator().manual_seed(1))
    return DocumentFrequencies.build(corpus.references.tolist())


def ours(frequencies: DocumentFrequencies, device: torch.device, on_host: int) -> Iterator[Contestant[Captions]]:
    """List our rewards on the device, and for `on_host` candidates on the host."""
    scorers: dict[str, Callable[[torch.dtype], nn.Module]] = {
        "CIDEr-D": lambda dtype: Cider(frequencies, dtype=dtype),
        "BLEU-4": lambda dtype: Bleu(4, dtype=dtype),
    }
    for name, make in scorers.items():
        yield Contestant(name, True, _ours(make, device))
    for name, make in scorers.items():
        yield Contestant(f"{name} on the host", True, _on_host(make), on_host=True, items=on_host)


def theirs(given: Captions) -> Iterator[Contestant[Captions]]:
    """List scorers of others, on the host, each with the reward of ours that it should equal."""
    few = given.first(BY_PEERS, 1).on_host()
    count = few.candidates.shape[0]
    scorers: list[tuple[str, str, Callable[[Captions], Callable[[], list[float]]], Callable[[], nn.Module]]] = [
        ("pycocoevalcap CIDEr", "pycocoevalcap", _coco_cider, lambda: _cider_of(few)),
        ("pycocoevalcap BLEU-4", "pycocoevalcap", _coco_bleu, lambda: Bleu(4, "coco", dtype=torch.float64)),
        ("sacrebleu sentence BLEU", "sacrebleu", _sacrebleu, lambda: Bleu(4, "exp", True, dtype=torch.float64)),
        ("nltk sentence BLEU", "nltk", _nltk, lambda: Bleu(4, "method3", dtype=torch.float64)),
    ]
    for name, package, make, same in scorers:
        if is_installed(package):
            yield Contestant(name, False, _theirs(few, make, same), on_host=True, items=count)


def _ours(make: Callable[[torch.dtype], nn.Module], device: torch.device) -> Callable[[Captions], Call]:
    scorer = cache(lambda: make(torch.float32).to(device))  # once for all inputs: the table of n-grams is large
    exact = cache(lambda: make(torch.float64))

    def bind(given: Captions) -> Call:
        ready = scorer()

        def exact_scores() -> tuple[Tensor, ...]:
            return (exact()(given.candidates.cpu(), given.references.cpu()).to(device),)

        return Call(lambda: (ready(given.candidates, given.references),), exact_scores)

    return bind


def _on_host(make: Callable[[torch.dtype], nn.Module]) -> Callable[[Captions], Call]:
    scorer = cache(lambda: make(torch.float32))

    def bind(given: Captions) -> Call:
        host = given.first(BY_HOST).on_host()
        ready = scorer()
        return Call(
            lambda: (ready(host.candidates, host.references),),
            lambda: (make(torch.float64)(host.candidates, host.references),),
        )

    return bind


def _theirs(
    few: Captions, make: Callable[[Captions], Callable[[], list[float]]], same: Callable[[], nn.Module]
) -> Callable[[Captions], Call]:
    def bind(_: Captions) -> Call:
        score = make(few)

        def exact_scores() -> tuple[Tensor, ...]:
            return (same()(few.candidates, few.references)[:, 0],)

        return Call(lambda: (torch.tensor(score(), dtype=torch.float64),), exact_scores)

    return bind


def _cider_of(few: Captions) -> nn.Module:
    """Ours with the frequencies that coco-caption takes: those of the references that it is given."""
    return Cider(DocumentFrequencies.build(few.references.tolist()), dtype=torch.float64)


def _strings(ids: Tensor) -> list[str]:
    return [" ".join(str(token) for token in row if token >= 0) for row in ids.tolist()]


def _by_image(few: Captions) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    references = {image: _strings(rows) for image, rows in enumerate(few.references)}
    return references, {image: _strings(rows) for image, rows in enumerate(few.candidates)}


def _coco_cider(few: Captions) -> Callable[[], list[float]]:
    scorer: Any = importlib.import_module("pycocoevalcap.cider.cider").Cider()
    references, candidates = _by_image(few)
    return lambda: list(scorer.compute_score(references, candidates)[1])


def _coco_bleu(few: Captions) -> Callable[[], list[float]]:
    scorer: Any = importlib.import_module("pycocoevalcap.bleu.bleu").Bleu(4)
    references, candidates = _by_image(few)
    return lambda: list(scorer.compute_score(references, candidates, verbose=0)[1][3])


def _sacrebleu(few: Captions) -> Callable[[], list[float]]:
    kind: Any = importlib.import_module("sacrebleu.metrics.bleu").BLEU
    scorer = kind(tokenize="none", effective_order=True, force=True)
    references, candidates = _by_image(few)
    return lambda: [scorer.sentence_score(candidates[image][0], references[image]).score / 100 for image in references]


def _nltk(few: Captions) -> Callable[[], list[float]]:
    module: Any = importlib.import_module("nltk.translate.bleu_score")
    smoothing = module.SmoothingFunction().method3
    references, candidates = _by_image(few)
    split = {image: [reference.split() for reference in references[image]] for image in references}

    def score() -> list[float]:
        return [
            module.sentence_bleu(split[image], candidates[image][0].split(), smoothing_function=smoothing)
            for image in split
        ]

    return score
