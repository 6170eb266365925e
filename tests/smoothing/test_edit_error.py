"""How far the law of edit scripts is from exp(-e/tau): measured by enumeration, and printed in docs/edit.md."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from pathlib import Path

import pytest
import torch

import seqsmooth as ss
from oracles import brute_force as oracle
from seqsmooth.ops.edit_distance import edit_distance
from seqsmooth.smoothing.records import Setting, Truth

PAGE = Path(__file__).parents[2] / "docs/edit.md"
CASES = [(v, t, tau) for v, t in ((2, 2), (3, 2), (4, 3), (6, 2)) for tau in (0.2, 0.4, 0.8)]


def exact_law(truth: oracle.Sentence, size: int, tau: float, longest: int) -> oracle.Law:
    """exp(-e / tau) over every sequence of at most `longest` tokens."""
    return oracle.normalise(
        {
            sentence: math.exp(-oracle.edit_distance(sentence, truth) / tau)
            for length in range(longest + 1)
            for sentence in itertools.product(range(size), repeat=length)
        }
    )


def by_distance(law: oracle.Law, truth: oracle.Sentence) -> dict[int, float]:
    found: defaultdict[int, float] = defaultdict(float)
    for sentence, probability in law.items():
        found[oracle.edit_distance(sentence, truth)] += probability
    return found


def norouzi(size: int, steps: int, tau: float, most: int) -> dict[int, float]:
    """P(e) from the count c(e, T) = v^e sum_s C(T, s) C(T + e - 2s, e - s) of Norouzi et al."""
    weights = {
        e: size**e
        * sum(
            math.comb(steps, s) * math.comb(steps + e - 2 * s, e - s)
            for s in range(min(e, steps) + 1)
            if steps + e - 2 * s >= e - s
        )
        * math.exp(-e / tau)
        for e in range(most + 1)
    }
    return {e: weight / sum(weights.values()) for e, weight in weights.items()}


def variation(one: dict, other: dict) -> float:
    return 0.5 * sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other})


def measured(size: int, steps: int, tau: float) -> str:
    truth = tuple(i % size for i in range(steps))
    exact = exact_law(truth, size, tau, 2 * steps)
    scripts = oracle.edit_law(truth, range(size), tau, steps)
    distances = by_distance(exact, truth)
    ours = variation(exact, scripts)
    ours_distance = variation(distances, by_distance(scripts, truth))
    theirs = variation(distances, norouzi(size, steps, tau, max(distances)))
    return f"| {size} | {steps} | {tau:g} | {ours:.3f} | {ours_distance:.3f} | {theirs:.3f} |"


@pytest.mark.parametrize(("size", "steps", "tau"), CASES)
def test_the_page_has_the_measured_error(size: int, steps: int, tau: float) -> None:
    assert measured(size, steps, tau) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("size", "tau"), [(9488, 0.1), (22822, 0.09), (100, 0.17)])
def test_at_the_papers_sizes_scripts_hardly_collide(size: int, tau: float) -> None:
    """Mean number of operations, in closed form, against the mean edit distance of samples: docs/edit.md."""
    steps, count = 10, 20_000
    targets = torch.arange(steps).unsqueeze(0)
    truth = Truth.of(targets, None, Setting(ss.Specials(), size, lazy=False))
    draws = ss.Edit(tau).draw(truth, count, torch.Generator().manual_seed(1))
    distance = edit_distance(torch.where(draws.mask, draws.tokens, -1), targets.unsqueeze(1)).double()
    cost = math.exp(-1 / tau)
    changed = size * cost  # (m + 1) exp(-1/tau), m = size - 1
    layouts = [math.comb(steps + i, i) * (size * cost) ** i for i in range(steps + 1)]
    operations = steps * changed / (1 + changed) + sum(i * w for i, w in enumerate(layouts)) / sum(layouts)
    shortfall = 1 - distance.mean().item() / operations
    row = f"| {size:,} | {tau:g} | {operations:.2f} | {draws.mask.sum(-1).double().mean():.1f} |"
    assert row in PAGE.read_text(encoding="utf-8").splitlines()
    assert -0.02 < shortfall < 0.02
