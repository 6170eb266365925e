"""`bench head`: losses from hidden states and the output matrix, forward and backward to both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.bench import loss as given_logits
from seqsmooth.bench import peers
from seqsmooth.bench.harness import Call, Contest, Contestant, Results, again
from seqsmooth.bench.loss import GIVEN, LOOP, PEER, SMOOTHED, SPARSE, TABLE, exact
from seqsmooth.bench.objectives import Loss, Vocabulary
from seqsmooth.bench.records import Table
from seqsmooth.bench.shapes import GivenHidden, Shape, Words, given_hidden

RESULTS = ("loss", "dh", "dW")
LINEAR = "linear + "
CHUNK_MEMORIES = (1, 16, 32)


def table(shape: Shape, dtype: torch.dtype, contest: Contest, *, compiled: bool = False, seed: int = 0) -> Table:
    """Compare all losses on one shape."""
    generator = torch.Generator(contest.clock.device).manual_seed(seed)
    vocabulary = Vocabulary.of(shape, generator)
    size = (shape.rows + shape.vocab) * shape.hidden * dtype.itemsize
    inputs = [given_hidden(shape, dtype, generator) for _ in range(shape.sets(size))]
    sample = given_hidden(shape.sample(), dtype, generator)
    everyone = [*ours(vocabulary), *theirs(vocabulary, compiled=compiled)]
    rows = contest.rows(contest.chosen(again(everyone, "MLE")), inputs, sample, RESULTS)
    kind = str(dtype).removeprefix("torch.")
    title = f"head {shape.name}: {shape.rows} x {shape.hidden} x {shape.vocab} {kind}, {shape.what}"
    told = shape.described() | {"dtype": kind, "input sets": len(inputs)}
    return Table(title, told, rows, peer=LINEAR + PEER, flop=6 * shape.rows * shape.hidden * shape.vocab)


def ours(vocabulary: Vocabulary) -> Iterator[Contestant[GivenHidden]]:
    """Our losses: the whole of what a training step does, and the head alone for MLE and two targets given."""
    losses = vocabulary.losses()
    for loss in losses:
        yield Contestant(loss.name, True, _whole(loss), against="MLE")
    for loss in losses:
        if loss.name in ("MLE", "Tok top-64", "Seq lazy, L=5"):
            yield Contestant(loss.name + GIVEN, True, _given(loss), against="MLE" + GIVEN)


def theirs(vocabulary: Vocabulary, *, compiled: bool = False) -> Iterator[Contestant[GivenHidden]]:
    """The peers; those compiled take half a minute each before they start."""
    forms = [form for form in given_logits.forms(vocabulary) if form.name in (PEER, SMOOTHED, SPARSE, LOOP, TABLE)]
    for form in forms:
        yield Contestant(LINEAR + form.name, False, _peer(_after_linear(form.function), form.arguments, form.target))
    fused: dict[str, Callable[[], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {}
    if peers.found("liger_kernel"):
        for memory in CHUNK_MEMORIES:
            fused[f"Liger FLCE, chunk_mem_const={memory}"] = partial(peers.liger_head, memory)
    if peers.found("cut_cross_entropy"):
        fused["Apple CCE"] = peers.cce_head
    if hasattr(F, "linear_cross_entropy"):
        fused["F.linear_cross_entropy"] = peers.torch_head
    for name, make in fused.items():
        yield Contestant(name, False, _fused(make, vocabulary.one_hot))
    if compiled:
        for form in forms:
            if form.name in (PEER, SPARSE):
                head = peers.compiled(_after_linear(form.function))
                yield Contestant(f"{LINEAR}{form.name}, compiled", False, _peer(head, form.arguments, form.target))


def _after_linear(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def head(hidden: Tensor, weight: Tensor, *rest: object) -> Tensor:
        return function(F.linear(hidden, weight), *rest)

    return head


def _differentiated(loss: Callable[[], Tensor], given: GivenHidden) -> Callable[[], Results]:
    def step() -> Results:
        total = loss()
        return total.detach(), *torch.autograd.grad(total, (given.hidden, given.weight))

    return step


def _in_float64(given: GivenHidden, target: Callable[[], Tensor], entropy: float = 0.0) -> Callable[[], Results]:
    def step() -> Results:
        hidden, weight = (value.detach().double().requires_grad_() for value in (given.hidden, given.weight))
        total = exact(hidden @ weight.T, target(), entropy)
        return total.detach(), *torch.autograd.grad(total, (hidden, weight))

    return step


def _whole(loss: Loss) -> Callable[[GivenHidden], Call]:
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

        vocab = given.weight.shape[0]
        expected = _in_float64(given, lambda: loss.target(given.words, vocab), objective.entropy)
        return Call(_differentiated(compute, given), expected)

    return bind


def _given(loss: Loss) -> Callable[[GivenHidden], Call]:
    def bind(given: GivenHidden) -> Call:
        target = loss.propose(given.words).target.flatten()

        def compute() -> Tensor:
            return ss.linear_cross_entropy(given.hidden, given.weight, target)

        expected = _in_float64(given, lambda: target.dense(given.weight.shape[0]).double())
        return Call(_differentiated(compute, given), expected)

    return bind


def _fused(
    make: Callable[[], Callable[[Tensor, Tensor, Tensor], Tensor]], target: Callable[[Words], Tensor]
) -> Callable[[GivenHidden], Call]:
    """A head of a package, imported only when it takes part: the import may fail, and that is a result."""
    return lambda given: _peer(make(), lambda text: (text.labels,), target)(given)


def _peer(
    head: Callable[..., Tensor],
    arguments: Callable[[Words], tuple[object, ...]],
    target: Callable[[Words], Tensor],
) -> Callable[[GivenHidden], Call]:
    def bind(given: GivenHidden) -> Call:
        rest = arguments(given.words)
        expected = _in_float64(given, lambda: target(given.words))
        return Call(_differentiated(lambda: head(given.hidden, given.weight, *rest), given), expected)

    return bind
