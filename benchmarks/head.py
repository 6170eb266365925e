"""`head`: losses from hidden states and the output matrix, forward and backward to both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from benchmarks import loss as given_logits
from benchmarks import peers
from benchmarks.harness import Call, Contest, Contestant, Results
from benchmarks.loss import (
    GIVEN,
    LOOP,
    PEER,
    SMOOTHED,
    SPARSE,
    TABLE,
    differentiate,
    entrants,
    in_float64,
    peer,
    with_target,
)
from benchmarks.objectives import LossSuite, TimedLoss, suite_of
from benchmarks.paths import taken
from benchmarks.records import TimingTable
from benchmarks.shapes import GivenHidden, Shape, Words, hidden_inputs
from seqsmooth.ops import products
from seqsmooth.packages import is_installed

RESULTS = ("loss", "dh", "dW")
LINEAR = "linear + "
PRODUCTS = "the three matrix products"
ONEDNN_PRODUCTS = f"{PRODUCTS}, oneDNN"
CHUNK_MEMORIES = (1, 16, 32)


def table(shape: Shape, dtype: torch.dtype, contest: Contest, *, compiled: bool = False, seed: int = 0) -> TimingTable:
    """Compare all losses on one shape."""
    device = contest.clock.device
    suite = suite_of(shape, device, seed)
    generator = torch.Generator(device).manual_seed(seed + 1)
    size = (shape.rows + shape.vocab) * shape.hidden * dtype.itemsize
    inputs = [hidden_inputs(shape, dtype, generator) for _ in range(shape.sets(size))]
    sample = hidden_inputs(shape.sample_on(device), dtype, generator)
    others = [*theirs(suite, compiled=compiled)]
    unit = LINEAR + PEER
    if device.type == "cpu":
        unit = PRODUCTS
        others.append(Contestant(PRODUCTS, False, bare_products))
        if products.prefers_onednn():
            others.append(Contestant(ONEDNN_PRODUCTS, False, onednn_products))
    everyone = entrants(ours(suite), others, contest, ("MLE" + GIVEN,))
    rows = contest.rows(contest.choose(everyone, unit), inputs, sample, RESULTS, unit)
    kind = str(dtype).removeprefix("torch.")
    title = f"head {shape.name}{contest.where}: {shape.rows} x {shape.hidden} x {shape.vocab} {kind}, {shape.what}"
    facts = shape.facts() | {"dtype": kind, "input sets": len(inputs)} | contest.facts
    return TimingTable(title, facts, rows, peer=unit, flop=6 * shape.rows * shape.hidden * shape.vocab)


def ours(suite: LossSuite) -> Iterator[Contestant[GivenHidden]]:
    """Our losses: the whole of what a training step does, and the head alone for MLE and two targets given."""
    for loss in suite.losses:
        yield Contestant(loss.name, True, _whole(loss), against="MLE")
    for loss in suite.losses:
        if loss.name in ("MLE", "Tok top-64", "Seq lazy, L=5"):
            yield Contestant(loss.name + GIVEN, True, with_target(loss, ss.linear_cross_entropy), against="MLE" + GIVEN)


def bare_products(given: GivenHidden) -> Call:
    """The three matrix products of a linear layer and its gradients, which no loss can do without.

    The logits take memory that is there already, and serve as their own gradient: nothing is allocated but the results.
    """
    hidden, weight = (leaf.detach() for leaf in given.leaves)
    logits = hidden.new_empty(len(hidden), len(weight))

    def step() -> Results:
        torch.mm(hidden, weight.T, out=logits)
        return logits[0, 0].clone(), logits @ weight, logits.T @ hidden

    return Call(step, _products_in_float64(given))


def onednn_products(given: GivenHidden) -> Call:
    """The same by the library that ours take on processors where MKL is slow."""
    hidden, weight = (leaf.detach() for leaf in given.leaves)

    def step() -> Results:
        with taken("auto"):
            logits = products.linear(hidden, weight)
            return logits[0, 0].clone(), products.multiply(logits, weight), products.multiply(logits.T, hidden)

    return Call(step, _products_in_float64(given))


def _products_in_float64(given: GivenHidden) -> Callable[[], Results]:
    def step() -> Results:
        hidden, weight = (leaf.detach().double() for leaf in given.leaves)
        logits = hidden @ weight.T
        return logits[0, 0], logits @ weight, logits.T @ hidden

    return step


def theirs(suite: LossSuite, *, compiled: bool = False) -> Iterator[Contestant[GivenHidden]]:
    """The peers; those compiled take half a minute each before they start."""
    forms = [form for form in given_logits.forms(suite) if form.name in (PEER, SMOOTHED, SPARSE, LOOP, TABLE)]
    for form in forms:
        yield Contestant(LINEAR + form.name, False, peer(_after_linear(form.function), form.arguments, form.target))
    fused: dict[str, Callable[[], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {}
    if is_installed("liger_kernel"):
        for memory in CHUNK_MEMORIES:
            fused[f"Liger FLCE, chunk_mem_const={memory}"] = partial(peers.liger_head, memory)
    if is_installed("cut_cross_entropy"):
        fused["Apple CCE"] = peers.cce_head
    if hasattr(F, "linear_cross_entropy"):
        fused["F.linear_cross_entropy"] = peers.torch_head
    for name, make in fused.items():
        yield Contestant(name, False, _package_head(make, suite.one_hot))
    if compiled:
        for form in forms:
            if form.name in (PEER, SPARSE):
                head = peers.compile_once(_after_linear(form.function))
                yield Contestant(f"{LINEAR}{form.name}, compiled", False, peer(head, form.arguments, form.target))


def _after_linear(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def head(hidden: Tensor, weight: Tensor, *rest: object) -> Tensor:
        return function(F.linear(hidden, weight), *rest)

    return head


def _whole(loss: TimedLoss) -> Callable[[GivenHidden], Call]:
    def bind(given: GivenHidden) -> Call:
        batch, steps = given.words.targets.shape
        objective = loss.objective
        loss.propose(given.words)  # what it makes when first called could not be made in a graph
        # As a training step has it: in a graph, beside the model; calls submitted one by one would gain nothing, and
        # a loss without samples is called with plain targets.
        aside = torch.cuda.Stream(priority=-1) if given.hidden.is_cuda else None  # type: ignore[no-untyped-call]
        plain = objective.sequence.only_truth

        def compute() -> Tensor:
            captured = aside is not None and torch.cuda.is_current_stream_capturing()
            text = given.words
            candidates = text.targets if plain and not captured else loss.propose(text, aside if captured else None)
            return objective.head(given.hidden.view(batch, steps, -1), given.weight, candidates).total

        expected = in_float64(given, lambda: loss.target(given.words, given.vocab), objective.entropy)
        return Call(differentiate(compute, given.leaves), expected)

    return bind


def _package_head(
    make: Callable[[], Callable[[Tensor, Tensor, Tensor], Tensor]], target: Callable[[Words], Tensor]
) -> Callable[[GivenHidden], Call]:
    """A head of a package, imported only when it takes part: the import may fail, and that is a result."""
    return lambda given: peer(make(), lambda text: (text.labels,), target)(given)
