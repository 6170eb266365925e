"""`sampler`: what a Hamming law proposes for a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

import seqsmooth as ss
from benchmarks.harness import Call, Contest, Contestant, Part, Results, again
from benchmarks.records import TimingTable
from benchmarks.shapes import Shape, Words, words

SHAPES = (Shape("captions", "COCO captions", 50, 17, 512, 9800), Shape("translation", "WMT", 80, 50, 2000, 30_000))
POOLS = ("vocab", "batch", "refs")
SAMPLES = (1, 5, 20)
TAUS = {"vocab": 0.1, "batch": 0.17, "refs": 0.3}
INPUT_SETS = 3


def parts() -> list[Part]:
    """One table for each shape."""

    def part(shape: Shape) -> Part:
        return shape.name, lambda contest: table(shape, contest)

    return [part(shape) for shape in SHAPES]


def table(shape: Shape, contest: Contest, *, seed: int = 0) -> TimingTable:
    """Compare the samplers on one shape."""
    generator = torch.Generator(contest.clock.device).manual_seed(seed)
    inputs = [words(shape, generator) for _ in range(INPUT_SETS)]
    everyone = [*ours(shape, contest.clock.device), *theirs(shape)]
    rows = contest.rows(contest.choose(again(everyone, _name("vocab", 5))), inputs)
    title = f"sampler: B = {shape.batch}, T = {shape.steps}, V = {shape.vocab}; time for the batch"
    return TimingTable(title, shape.facts(), rows, peer=LOOP.format(5), items=1)


LOOP = "RAML loop, L={}"
NUMPY = "authors' numpy, {}, L={}"


def ours(shape: Shape, device: torch.device) -> Iterator[Contestant[Words]]:
    """List our proposals: draws, their weights, the soft target."""
    for pool in POOLS:
        for samples in SAMPLES:
            yield Contestant(_name(pool, samples), True, _ours(pool, samples, shape, device), against=_name("vocab", 5))
        yield Contestant(f"Hamming {pool}, exact", True, _ours(pool, None, shape, device), against=_name("vocab", 5))


def theirs(shape: Shape) -> Iterator[Contestant[Words]]:
    """List the samplers of others, on the host."""
    for samples in SAMPLES:
        yield Contestant(LOOP.format(samples), False, _bind(raml_loop, samples, shape), on_host=True)
    for pool in POOLS:
        bind = _bind(AUTHORS[pool], 5, shape)
        yield Contestant(NUMPY.format(pool, 5), False, bind, on_host=True)


def distance_law(steps: int, others: int, tau: float) -> np.ndarray[Any, np.dtype[np.float64]]:  # (T + 1,)
    """Compute p(d) of the paper's appendix, Eq. 25: C(T, d) m^d exp(-d / tau), over all d."""
    logs = [
        math.lgamma(steps + 1) - math.lgamma(d + 1) - math.lgamma(steps - d + 1) + d * (math.log(others) - 1 / tau)
        for d in range(steps + 1)
    ]
    odds = np.exp(np.array(logs) - max(logs))
    law: np.ndarray[Any, np.dtype[np.float64]] = odds / odds.sum()
    return law


def raml_loop(text: Words, samples: int, vocab: int) -> Tensor:  # (B, L, T)
    """Draw one sample of one sentence at a time: a distance, as many positions, a new word at each."""
    drawn: list[list[list[int]]] = []
    for sentence in text.targets.tolist():
        law = distance_law(len(sentence), vocab - 1, TAUS["vocab"])
        distances = np.random.choice(len(law), samples, p=law)  # noqa: NPY002 - as in the code that is timed
        of_sentence = []
        for distance in distances:
            changed = list(sentence)
            places = np.random.choice(len(sentence), distance, replace=False)  # noqa: NPY002
            for place in places:
                changed[place] = int(np.random.randint(vocab))  # noqa: NPY002
            of_sentence.append(changed)
        drawn.append(of_sentence)
    return torch.tensor(drawn).to(text.targets.device)


def numpy_vocab(text: Words, samples: int, vocab: int) -> Tensor:  # (B, L, T)
    """Draw one distance for the whole batch, positions with replacement, words of the whole vocabulary."""
    return _numpy(text, samples, vocab - 1, TAUS["vocab"], lambda size: np.random.randint(vocab, size=size))  # noqa: NPY002


def numpy_batch(text: Words, samples: int, vocab: int) -> Tensor:  # (B, L, T)
    """Draw like `numpy_vocab`, from the words of the batch."""
    pool = np.unique(text.targets.cpu().numpy())
    return _numpy(text, samples, len(pool) - 1, TAUS["batch"], lambda size: np.random.choice(pool, size=size))  # noqa: NPY002


def numpy_refs(text: Words, samples: int, vocab: int) -> Tensor:  # (B, L, T)
    """Draw like `numpy_vocab`, from the words of each item's references; the largest set decides the distance."""
    pools = [np.unique(rows) for rows in text.references.cpu().numpy()]

    def draw(size: tuple[int, int]) -> Any:
        return np.stack([np.random.choice(pool, size=size[1]) for pool in pools])  # noqa: NPY002

    return _numpy(text, samples, max(map(len, pools)) - 1, TAUS["refs"], draw)


AUTHORS = {"vocab": numpy_vocab, "batch": numpy_batch, "refs": numpy_refs}


def _numpy(text: Words, samples: int, others: int, tau: float, draw: Callable[[tuple[int, int]], Any]) -> Tensor:
    """The authors' way: off the device and back again for each sample."""
    drawn = []
    for _ in range(samples):
        tokens = text.targets.cpu().numpy().copy()
        batch, steps = tokens.shape
        law = distance_law(steps, max(others, 1), tau)
        distance = int(np.random.choice(len(law), p=law))  # noqa: NPY002
        places = np.random.randint(steps, size=(batch, distance))  # noqa: NPY002
        tokens[np.arange(batch)[:, None], places] = draw((batch, distance))
        drawn.append(torch.from_numpy(tokens).to(text.targets.device))
    return torch.stack(drawn, 1)


def _name(pool: str, samples: int) -> str:
    return f"Hamming {pool}, L={samples}"


def _ours(pool: str, samples: int | None, shape: Shape, device: torch.device) -> Callable[[Words], Call]:
    def bind(text: Words) -> Call:
        law = ss.Hamming(tau=TAUS[pool], pool=pool, samples=samples)  # type: ignore[arg-type]
        objective = ss.Objective(law, vocab_size=shape.vocab).to(device)

        def step() -> Results:
            candidates = objective.propose(text.targets, references=text.references)
            return candidates.target.ids, candidates.target.weights

        return Call(step)

    return bind


def _bind(sampler: Callable[[Words, int, int], Tensor], samples: int, shape: Shape) -> Callable[[Words], Call]:
    return lambda text: Call(lambda: (sampler(text, samples, shape.vocab),))
