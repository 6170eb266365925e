"""`loss`: losses on given logits, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

import seqsmooth as ss
from benchmarks import peers
from benchmarks.harness import Call, Contest, Contestant, Results, again
from benchmarks.objectives import EPSILON, TOKEN_ALPHA, TOKEN_TAU, TOP, LossSuite, TimedLoss, suite_of
from benchmarks.paths import along, named
from benchmarks.records import TimingTable
from benchmarks.shapes import GivenHidden, GivenLogits, Shape, Words, logits_inputs
from seqsmooth.packages import is_installed

GIVEN = ", target given"
PEER = "F.cross_entropy"
SMOOTHED = f"{PEER}, label_smoothing"
TABLE = f"{PEER}, probabilities S[y]"
SPARSE = "gather form, K=65"
LOOP = "loop of 6 cross entropies"
AUTHORS = "authors' dense form"
COMPILED = (PEER, SMOOTHED, SPARSE, TABLE, AUTHORS)
RESULTS = ("loss", "dz")
GIVEN_ON_CPU = tuple(name + GIVEN for name in ("MLE", "Tok dense", "Tok top-64", "Seq lazy, L=5"))
Given = GivenLogits | GivenHidden
I = TypeVar("I")  # noqa: E741 - the inputs of a contestant


@dataclass(frozen=True)
class Form:
    """A loss of others: a function of logits and some arguments."""

    name: str
    function: Callable[..., Tensor]
    arguments: Callable[[Words], tuple[object, ...]]
    target: Callable[[Words], Tensor]
    """The target that it stands for, (N, V) float64."""


def table(shape: Shape, dtype: torch.dtype, contest: Contest, *, compiled: bool = False, seed: int = 0) -> TimingTable:
    """Compare all losses on one shape."""
    device = contest.clock.device
    suite = suite_of(shape, device, seed)
    generator = torch.Generator(device).manual_seed(seed + 1)
    size = shape.rows * shape.vocab * dtype.itemsize
    inputs = [logits_inputs(shape, dtype, generator) for _ in range(shape.sets(size))]
    sample = logits_inputs(shape.sample_on(device), dtype, generator)
    everyone = entrants(ours(suite), theirs(suite, compiled=compiled), contest, GIVEN_ON_CPU)
    rows = contest.rows(contest.choose(everyone, PEER), inputs, sample, RESULTS, PEER)
    kind = str(dtype).removeprefix("torch.")
    title = f"loss {shape.name}{contest.where}: {shape.rows} x {shape.vocab} {kind}, {shape.what}"
    facts = shape.facts() | {"dtype": kind, "input sets": len(inputs)} | contest.facts
    return TimingTable(title, facts, rows, peer=PEER, copied_bytes=2 * size)


def entrants(
    ours: Iterable[Contestant[I]], theirs: Iterable[Contestant[I]], contest: Contest, given: Sequence[str]
) -> list[Contestant[I]]:
    """All contestants; on the CPU ours on each path, and alone with their target only those named."""
    if not contest.paths:
        return again([*ours, *theirs], "MLE")
    listed = [one for one in ours if not one.name.endswith(GIVEN) or one.name in given]
    return again([*along(listed, contest.paths), *theirs], named("MLE", contest.paths[0]))


def ours(suite: LossSuite) -> Iterator[Contestant[GivenLogits]]:
    """Our losses: the whole of what a training step does, and the cross entropy alone with its target given."""
    for loss in suite.losses:
        yield Contestant(loss.name, True, _whole(loss), against="MLE")
    for loss in suite.losses:
        if loss.name != "MLE + entropy":
            yield Contestant(loss.name + GIVEN, True, with_target(loss, ss.cross_entropy), against="MLE" + GIVEN)


def theirs(suite: LossSuite, *, compiled: bool = False) -> Iterator[Contestant[GivenLogits]]:
    """The peers; those compiled take half a minute each before they start."""
    listed = forms(suite)
    for form in listed:
        yield Contestant(form.name, False, peer(form.function, form.arguments, form.target))
    if is_installed("liger_kernel"):
        yield Contestant("Liger CE", False, _overwriting(peers.liger_loss, suite.one_hot))
        yield Contestant(
            "Liger CE, label smoothing", False, _overwriting(lambda: peers.liger_loss(EPSILON), suite.smoothed_target)
        )
    if compiled:
        for form in listed:
            if form.name in COMPILED:
                function = peers.compile_once(form.function)
                yield Contestant(f"{form.name}, compiled", False, peer(function, form.arguments, form.target))


def forms(suite: LossSuite) -> list[Form]:
    """The losses that people write by hand."""
    listed = [
        Form(PEER, peers.index_loss, lambda text: (text.labels,), suite.one_hot),
        Form(f"{PEER}, fp32", peers.wide_index_loss, lambda text: (text.labels,), suite.one_hot),
        Form(SMOOTHED, peers.label_smoothing, lambda text: (text.labels, EPSILON), suite.smoothed_target),
        Form(SPARSE, peers.gather_loss, slots(suite), lambda text: slot_target(suite, text)),
        Form(LOOP, peers.loop_loss, lambda text: (text.labels, text.samples), lambda text: loop_target(suite, text)),
    ]
    if suite.stored:
        dense = DenseForms(suite)
        listed += [dense.by_table, dense.by_authors]
    return listed


def exact(
    logits: Tensor,  # (N, V) float64
    target: Tensor,  # (N, V) float64
    entropy: float = 0.0,
) -> Tensor:  # ()
    """The mean cross entropy, less the weighted entropy of the model."""
    log_probs = logits.log_softmax(-1)
    total = -(target * log_probs).sum(-1).mean()
    if entropy:
        total = total + entropy * (log_probs.exp() * log_probs).sum(-1).mean()
    return total


def slots(suite: LossSuite, count: int = TOP) -> Callable[[Words], tuple[Tensor, Tensor]]:
    """The label and `count` other tokens at each position, with weights; which ones does not matter for the time."""

    def arguments(text: Words) -> tuple[Tensor, Tensor]:
        labels = text.labels.unsqueeze(1)
        steps = torch.arange(1, count + 1, device=labels.device) * 97  # distinct, and not side by side in memory
        others = (labels + steps) % suite.shape.vocab
        weights = torch.full((len(labels), count), TOKEN_ALPHA / count, device=labels.device)
        own = torch.full((len(labels), 1), 1 - TOKEN_ALPHA, device=labels.device)
        return torch.cat([labels, others], 1), torch.cat([own, weights], 1)

    return arguments


def loop_target(suite: LossSuite, text: Words) -> Tensor:  # (N, V) float64
    """The target of the loop over sampled sequences."""
    total = suite.one_hot(text)
    ones = torch.ones_like(total[:, :1])
    for sampled in text.samples:
        total.scatter_add_(1, sampled.unsqueeze(1), ones)
    return total / (1 + len(text.samples))


def slot_target(suite: LossSuite, text: Words) -> Tensor:  # (N, V) float64
    """The target of these slots."""
    ids, weights = slots(suite)(text)
    empty = torch.zeros(len(ids), suite.shape.vocab, dtype=torch.float64, device=ids.device)
    return empty.scatter_add_(1, ids, weights.double())


def differentiate(loss: Callable[[], Tensor], leaves: tuple[Tensor, ...]) -> Callable[[], Results]:
    """Make a step: the loss and its gradients."""

    def step() -> Results:
        total = loss()
        return total.detach(), *torch.autograd.grad(total, leaves)

    return step


def in_float64(given: Given, target: Callable[[], Tensor], entropy: float = 0.0) -> Callable[[], Results]:
    """Make the step in float64, from the target in full."""

    def step() -> Results:
        wide = tuple(leaf.detach().double().requires_grad_() for leaf in given.leaves)
        total = exact(given.logits_of(*wide), target(), entropy)
        return total.detach(), *torch.autograd.grad(total, wide)

    return step


def with_target(loss: TimedLoss, function: Callable[..., Tensor]) -> Callable[[Given], Call]:
    """Make a call of our cross entropy alone, with a target that is ready."""

    def bind(given: Given) -> Call:
        target = loss.propose(given.words).target.flatten()
        expected = in_float64(given, lambda: target.dense(given.vocab).double())
        return Call(differentiate(lambda: function(*given.leaves, target), given.leaves), expected)

    return bind


def peer(
    function: Callable[..., Tensor],
    arguments: Callable[[Words], tuple[object, ...]],
    target: Callable[[Words], Tensor],
) -> Callable[[Given], Call]:
    """Make a call of another's loss with the inputs and some arguments."""

    def bind(given: Given) -> Call:
        rest = arguments(given.words)
        expected = in_float64(given, lambda: target(given.words))
        return Call(differentiate(lambda: function(*given.leaves, *rest), given.leaves), expected)

    return bind


def _whole(loss: TimedLoss) -> Callable[[GivenLogits], Call]:
    def bind(given: GivenLogits) -> Call:
        batch, steps = given.words.targets.shape
        objective = loss.objective

        def compute() -> Tensor:
            candidates = loss.propose(given.words)
            return objective(given.logits.view(batch, steps, given.vocab), candidates).total

        expected = in_float64(given, lambda: loss.target(given.words, given.vocab), objective.entropy)
        return Call(differentiate(compute, given.leaves), expected)

    return bind


def _overwriting(
    make: Callable[[], Callable[[Tensor, Tensor], Tensor]], target: Callable[[Words], Tensor]
) -> Callable[[GivenLogits], Call]:
    """A loss that destroys its logits works on a copy, which is written anew after every call."""

    def bind(given: GivenLogits) -> Call:
        function = make()
        own = given.logits.detach().clone().requires_grad_()
        labels = given.words.labels

        def restore() -> None:
            with torch.no_grad():
                own.copy_(given.logits)

        step = differentiate(lambda: function(own, labels), (own,))
        return Call(step, in_float64(given, lambda: target(given.words)), restore)

    return bind


class DenseForms:
    """The peers that gather a row of V numbers a position from a V x V table, which is made when it is needed."""

    def __init__(self, suite: LossSuite) -> None:
        self.suite = suite
        self.by_table = Form(TABLE, peers.table_loss, lambda text: (text.labels, self.table), suite.similar_target)
        self.by_authors = Form(
            AUTHORS,
            peers.authors_loss,
            lambda text: (text.labels, self.cosines, TOKEN_TAU, TOKEN_ALPHA),
            suite.similar_target,
        )

    @cached_property
    def cosines(self) -> Tensor:  # (V, V) fp32
        """The cosines of all pairs of tokens."""
        return self.suite.vectors @ self.suite.vectors.T

    @cached_property
    def table(self) -> Tensor:  # (V, V) fp32
        """The target of each label."""
        law = torch.softmax(self.cosines / TOKEN_TAU, -1).mul_(TOKEN_ALPHA)
        law.diagonal().add_(1 - TOKEN_ALPHA)
        return law
