"""`bench loss`: losses on given logits, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.bench import peers
from seqsmooth.bench.harness import Call, Contest, Contestant, Results, again
from seqsmooth.bench.objectives import EPSILON, TOKEN_ALPHA, TOKEN_TAU, TOP, Loss, Vocabulary
from seqsmooth.bench.records import Table
from seqsmooth.bench.shapes import GivenLogits, Shape, Words, given_logits

GIVEN = ", target given"
PEER = "F.cross_entropy"
SMOOTHED = f"{PEER}, label_smoothing"
TABLE = f"{PEER}, probabilities S[y]"
SPARSE = "gather form, K=65"
LOOP = "loop of 6 cross entropies"
RESULTS = ("loss", "dz")


@dataclass(frozen=True)
class Form:
    """A loss of others: a function of logits and some arguments."""

    name: str
    function: Callable[..., Tensor]
    arguments: Callable[[Words], tuple[object, ...]]
    target: Callable[[Words], Tensor]
    """The target that it stands for, (N, V) float64."""

    def compiled(self) -> Form:
        """The same through torch.compile."""
        return replace(self, function=peers.compiled(self.function))


def table(shape: Shape, dtype: torch.dtype, contest: Contest, *, compiled: bool = False, seed: int = 0) -> Table:
    """Compare all losses on one shape."""
    generator = torch.Generator(contest.clock.device).manual_seed(seed)
    vocabulary = Vocabulary.of(shape, generator)
    size = shape.rows * shape.vocab * dtype.itemsize
    inputs = [given_logits(shape, dtype, generator) for _ in range(shape.sets(size))]
    sample = given_logits(shape.sample(), dtype, generator)
    everyone = [*ours(vocabulary), *theirs(vocabulary, compiled=compiled)]
    rows = contest.rows(contest.chosen(again(everyone, "MLE")), inputs, sample, RESULTS)
    kind = str(dtype).removeprefix("torch.")
    title = f"loss {shape.name}: {shape.rows} x {shape.vocab} {kind}, {shape.what}"
    told = shape.described() | {"dtype": kind, "input sets": len(inputs)}
    return Table(title, told, rows, peer=PEER, copied_bytes=2 * size)


def ours(vocabulary: Vocabulary) -> Iterator[Contestant[GivenLogits]]:
    """Our losses: the whole of what a training step does, and the cross entropy alone with its target given."""
    losses = vocabulary.losses()
    for loss in losses:
        yield Contestant(loss.name, True, _whole(loss), against="MLE")
    for loss in losses:
        if loss.name != "MLE + entropy":
            yield Contestant(loss.name + GIVEN, True, _given(loss), against="MLE" + GIVEN)


def theirs(vocabulary: Vocabulary, *, compiled: bool = False) -> Iterator[Contestant[GivenLogits]]:
    """The peers; those compiled take half a minute each before they start."""
    listed = forms(vocabulary)
    for form in listed:
        yield Contestant(form.name, False, _peer(form))
    if peers.found("liger_kernel"):
        yield Contestant("Liger CE", False, _overwriting(peers.liger_loss, vocabulary.one_hot))
        yield Contestant(
            "Liger CE, label smoothing", False, _overwriting(lambda: peers.liger_loss(EPSILON), vocabulary.smoothed)
        )
    if compiled:
        for form in listed:
            if form.name in (PEER, SMOOTHED, SPARSE, TABLE):
                yield Contestant(f"{form.name}, compiled", False, _peer(form.compiled()))


def forms(vocabulary: Vocabulary) -> list[Form]:
    """The losses that people write by hand."""
    listed = [
        Form(PEER, peers.index_loss, lambda text: (text.labels,), vocabulary.one_hot),
        Form(f"{PEER}, fp32", peers.wide_index_loss, lambda text: (text.labels,), vocabulary.one_hot),
        Form(SMOOTHED, peers.label_smoothing, lambda text: (text.labels, EPSILON), vocabulary.smoothed),
        Form(SPARSE, peers.gather_loss, slots(vocabulary), lambda text: scattered(vocabulary, text)),
        Form(LOOP, peers.loop_loss, lambda text: (text.labels, text.samples), lambda text: looped(vocabulary, text)),
    ]
    if vocabulary.stored:
        dense = DenseForms(vocabulary)
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


def slots(vocabulary: Vocabulary, count: int = TOP) -> Callable[[Words], tuple[Tensor, Tensor]]:
    """The label and `count` other tokens at each position, with weights; which ones does not matter for the time."""

    def made(text: Words) -> tuple[Tensor, Tensor]:
        labels = text.labels.unsqueeze(1)
        steps = torch.arange(1, count + 1, device=labels.device) * 97  # distinct, and not side by side in memory
        others = (labels + steps) % vocabulary.shape.vocab
        weights = torch.full((len(labels), count), TOKEN_ALPHA / count, device=labels.device)
        own = torch.full((len(labels), 1), 1 - TOKEN_ALPHA, device=labels.device)
        return torch.cat([labels, others], 1), torch.cat([own, weights], 1)

    return made


def looped(vocabulary: Vocabulary, text: Words) -> Tensor:  # (N, V) float64
    """The target of the loop over sampled sequences."""
    total = vocabulary.one_hot(text)
    ones = torch.ones_like(total[:, :1])
    for sampled in text.samples:
        total.scatter_add_(1, sampled.unsqueeze(1), ones)
    return total / (1 + len(text.samples))


def scattered(vocabulary: Vocabulary, text: Words) -> Tensor:  # (N, V) float64
    """The target of these slots."""
    ids, weights = slots(vocabulary)(text)
    empty = torch.zeros(len(ids), vocabulary.shape.vocab, dtype=torch.float64, device=ids.device)
    return empty.scatter_add_(1, ids, weights.double())


def _differentiated(loss: Callable[[], Tensor], logits: Tensor) -> Callable[[], Results]:
    def step() -> Results:
        total = loss()
        (gradient,) = torch.autograd.grad(total, logits)
        return total.detach(), gradient

    return step


def _in_float64(given: GivenLogits, target: Callable[[], Tensor], entropy: float = 0.0) -> Callable[[], Results]:
    def step() -> Results:
        wide = given.logits.detach().double().requires_grad_()
        total = exact(wide, target(), entropy)
        (gradient,) = torch.autograd.grad(total, wide)
        return total.detach(), gradient

    return step


def _whole(loss: Loss) -> Callable[[GivenLogits], Call]:
    def bind(given: GivenLogits) -> Call:
        batch, steps = given.words.targets.shape
        vocab = given.logits.shape[-1]
        objective = loss.objective

        def compute() -> Tensor:
            candidates = loss.propose(given.words)
            return objective(given.logits.view(batch, steps, vocab), candidates).total  # type: ignore[no-any-return]

        expected = _in_float64(given, lambda: loss.target(given.words, vocab), objective.entropy)
        return Call(_differentiated(compute, given.logits), expected)

    return bind


def _given(loss: Loss) -> Callable[[GivenLogits], Call]:
    def bind(given: GivenLogits) -> Call:
        target = loss.propose(given.words).target.flatten()

        def compute() -> Tensor:
            return ss.cross_entropy(given.logits, target)

        expected = _in_float64(given, lambda: target.dense(given.logits.shape[-1]).double())
        return Call(_differentiated(compute, given.logits), expected)

    return bind


def _peer(form: Form) -> Callable[[GivenLogits], Call]:
    def bind(given: GivenLogits) -> Call:
        rest = form.arguments(given.words)
        expected = _in_float64(given, lambda: form.target(given.words))
        return Call(_differentiated(lambda: form.function(given.logits, *rest), given.logits), expected)

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

        step = _differentiated(lambda: function(own, labels), own)
        return Call(step, _in_float64(given, lambda: target(given.words)), restore)

    return bind


class DenseForms:
    """The peers that gather a row of V numbers a position from a V x V table, which is made when it is needed."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.by_table = Form(TABLE, peers.table_loss, lambda text: (text.labels, self.table), vocabulary.similar)
        self.by_authors = Form(
            "authors' dense form",
            peers.authors_loss,
            lambda text: (text.labels, self.cosines, TOKEN_TAU, TOKEN_ALPHA),
            vocabulary.similar,
        )

    @cached_property
    def cosines(self) -> Tensor:  # (V, V) fp32
        """Of all pairs of tokens."""
        return self.vocabulary.vectors @ self.vocabulary.vectors.T

    @cached_property
    def table(self) -> Tensor:  # (V, V) fp32
        """The target of each label."""
        law = torch.softmax(self.cosines / TOKEN_TAU, -1).mul_(TOKEN_ALPHA)
        law.diagonal().add_(1 - TOKEN_ALPHA)
        return law
