"""`step`: whole training steps of the paper's models at the paper's sizes, on random data."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from benchmarks.harness import Call, Contest, Contestant, Part, again
from benchmarks.paths import along, named
from benchmarks.records import TimingTable
from seqsmooth import rewards
from seqsmooth.models import Model, RNNsearch, ShowTell, TopDown
from seqsmooth.ops import checks
from seqsmooth.packages import is_installed
from seqsmooth.smoothing import Hamming, Objective, Rewarded, Similarity, Specials
from seqsmooth.smoothing.sequence_law import SequenceLaw
from seqsmooth.training import Batch, GraphedStep, Report, TrainingStep, adam

ModelName = Literal["show_tell", "top_down", "rnnsearch"]
ObjectiveName = Literal[
    "mle",
    "tok",
    "seq-hamming",
    "seq-hamming-5",
    "seq-cider-5",
    "tok-seq-cider-5",
    "own-hamming-1",
    "own-cider-2",
]
Precision = Literal["bf16", "tf32", "fp32"]
MODELS: tuple[ModelName, ...] = ("show_tell", "top_down", "rnnsearch")
OBJECTIVES: tuple[ObjectiveName, ...] = (
    "mle",
    "tok",
    "seq-hamming",
    "seq-hamming-5",
    "seq-cider-5",
    "tok-seq-cider-5",
)
OWN: tuple[ObjectiveName, ...] = ("own-hamming-1", "own-cider-2")
"""Objectives that feed the decoder prefixes of their own samples, one and two of them: not lazy."""
PRECISIONS: tuple[Precision, ...] = ("bf16", "tf32", "fp32")
PAD, BOS, EOS, UNK = range(4)
SPECIALS = Specials(PAD, BOS, EOS, UNK)


@dataclass(frozen=True)
class Size:
    """The sizes of a step."""

    items: int  # B
    length: int  # T, with EOS
    vocabulary: int  # V
    units: int  # H
    embedding: int  # E
    references: int  # R
    places: int = 36  # regions, or source words
    features: int = 2048  # F
    vectors: int = 300  # dimensions of the vectors that Similarity compares
    documents: int = 2000  # behind the document frequencies


SIZES: dict[ModelName, Size] = {
    "show_tell": Size(items=50, length=17, vocabulary=9800, units=512, embedding=512, references=5),
    "top_down": Size(items=50, length=17, vocabulary=9800, units=512, embedding=512, references=5),
    # The encoder has E units each way, so d = 128, and what the decoder attends to is 2 d wide, as its own state.
    "rnnsearch": Size(items=32, length=25, vocabulary=22822, units=256, embedding=128, references=1, places=25),
}
TINY = Size(
    items=4, length=6, vocabulary=40, units=8, embedding=8, references=2, places=5, features=7, vectors=5, documents=20
)


ON_CPU: dict[ModelName, Size] = {
    "show_tell": replace(SIZES["show_tell"], vocabulary=9953),
    "rnnsearch": SIZES["rnnsearch"],
}
"""The models that take part on the CPU."""
BASE: ObjectiveName = "mle"
PLAIN, JOEY = "plain torch, F.cross_entropy", "JoeyNMT"


def parts(precision: Precision, size: Size | None = None, models: Iterable[ModelName] | None = None) -> list[Part]:
    """One table for each model."""

    def part(model: ModelName) -> Part:
        return model, lambda contest: table(model, precision, contest, size)

    return [part(model) for model in models or MODELS]


def table(model: ModelName, precision: Precision, contest: Contest, size: Size | None = None) -> TimingTable:
    """Compare the objectives on one model: each trains its own copy, which starts from the same weights."""
    device, peer, base = contest.clock.device, None, str(BASE)
    everyone = list(contestants(model, precision, device, size))
    if contest.paths:
        size = ON_CPU[model] if size is None else size
        everyone = list(contestants(model, precision, device, size, (*OBJECTIVES, *OWN)))
        peer, base = PLAIN, named(BASE, contest.paths[0])
        everyone = along(everyone, contest.paths) + list(theirs(model, size, named(BASE, contest.paths[-1])))
    rows = contest.rows(contest.choose(again(everyone, base), peer), [None], peer=peer)
    title = f"step: {model}{contest.where}, {precision}, a whole training step"
    return TimingTable(title, {"name": model, "precision": precision} | contest.facts, rows, peer=peer)


def contestants(
    model: ModelName,
    precision: Precision,
    device: torch.device,
    size: Size | None = None,
    objectives: Iterable[ObjectiveName] | None = None,
) -> Iterator[Contestant[None]]:
    """A step for each objective."""

    def bind(objective: ObjectiveName, _: None) -> Call:
        bench = build(model, objective, device=device, precision=precision, size=size)

        def eager() -> tuple[Tensor, ...]:
            bench.eager()
            return ()

        return Call(eager, capture=bench.capture)

    for objective in objectives or OBJECTIVES:
        yield Contestant(objective, True, partial(bind, objective), against=BASE)


def theirs(model: ModelName, size: Size, against: str) -> Iterator[Contestant[None]]:
    """The same model in plain torch, and JoeyNMT's where it is installed; both train by MLE."""
    peers: Any = importlib.import_module("benchmarks.step_peers")  # which knows the sizes of this file
    makers: dict[str, Callable[[Batch], Callable[[], object]]] = {}
    kind = {"show_tell": peers.PlainShowTell, "rnnsearch": peers.PlainRNNsearch}[model]
    makers[PLAIN] = lambda batch: peers.plain(kind(size), batch)
    if model == "rnnsearch" and is_installed("joeynmt"):
        makers[JOEY] = lambda batch: peers.joeynmt(size, batch)

    def bind(make: Callable[[Batch], Callable[[], object]], _: None) -> Call:
        source = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        step = make(make_batch(model, size, source, torch.device("cpu")))

        def call() -> tuple[Tensor, ...]:
            step()
            return ()

        return Call(call)

    for name, make in makers.items():
        yield Contestant(name, False, partial(bind, make), against=against)


@dataclass(frozen=True, eq=False)
class StepBench:
    """One step to time: call `eager` or `graphed`, each learns from the same batch again."""

    name: str
    step: TrainingStep
    batch: Batch

    def eager(self) -> Report:
        """The step, one launch after the other."""
        return self.step(self.batch)

    def capture(self) -> Callable[[], Report]:
        """The step as one CUDA graph (eager again where there is no CUDA)."""
        graphed = GraphedStep(self.step, self.batch)
        return lambda: graphed(graphed.batch)  # its own batch: the time is that of the step, without a copy


def build(
    model: ModelName,
    objective: ObjectiveName,
    *,
    device: torch.device | str = "cuda",
    precision: Precision = "bf16",
    size: Size | None = None,
    seed: int = 0,
    **options: Any,
) -> StepBench:
    """Make a step: a model, an objective, Adam and a gradient clipped at norm 5, and a batch.

    Args:
        model: which model.
        objective: which objective; all are lazy but those of `OWN`.
        device: where.
        precision: "bf16" is autocast; "tf32" and "fp32" set torch's precision of matrix products for the whole process.
        size: that of the paper by default.
        seed: of weights and data.
        options: more arguments of the model.
    """
    checks.one_of("model", model, MODELS)
    checks.one_of("objective", objective, (*OBJECTIVES, *OWN))
    checks.one_of("precision", precision, PRECISIONS)
    size = SIZES[model] if size is None else size
    home = torch.device(device)
    source, words = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    network = _model(model, size, options).to(home)
    step = TrainingStep(
        network,
        make_objective(objective, size, source, home),
        adam(network.parameters(), 5e-4),
        clip=5.0,
        autocast=torch.bfloat16 if precision == "bf16" else None,
    )
    return StepBench(f"{model}/{objective}/{precision}", step, make_batch(model, size, words, home))


def make_objective(name: ObjectiveName, size: Size, source: torch.Generator, device: torch.device) -> Objective:
    """An objective by name, its embeddings random and its document frequencies those of random captions."""
    sequence: SequenceLaw | None = None
    own = {"own-hamming-1": 1, "own-cider-2": 2}.get(name)
    if name == "own-hamming-1":
        sequence = Hamming(tau=0.3, pool="refs", alpha=0.5, samples=own)
    elif name.startswith("seq-hamming"):
        sequence = Hamming(tau=0.3, pool="refs", alpha=0.5, samples=5 if name == "seq-hamming-5" else None)
    elif "cider" in name:
        reward = rewards.Cider(_frequencies(size, source))
        sequence = Rewarded(reward, Hamming(tau=0.3, pool="refs"), tau=0.5, samples=own or 5, alpha=0.5)
    token = None
    if name.startswith("tok"):
        vectors = torch.randn(size.vocabulary, size.vectors, generator=source).to(device)
        kept = None if device.type == "cpu" else torch.float16
        token = Similarity(vectors, tau=0.18, alpha=0.7, stored=kept)
    made = Objective(sequence, token, lazy=own is None, specials=SPECIALS, vocab_size=size.vocabulary)
    return made.to(device)


def make_batch(model: ModelName, size: Size, source: torch.Generator, device: torch.device) -> Batch:
    """A batch of random captions, the first reference of each item its target."""
    references = captions(size, size.items * size.references, source).view(size.items, size.references, size.length)
    if model == "show_tell":
        inputs: tuple[Tensor, ...] = (torch.randn(size.items, size.features, generator=source).relu(),)
    elif model == "top_down":
        inputs = (torch.randn(size.items, size.places, size.features, generator=source).relu(),)
    else:
        inputs = (captions(replace(size, length=size.places), size.items, source),)
    moved = tuple(value.to(device) for value in inputs)
    return Batch(moved, references[:, 0].contiguous().to(device), references.to(device))


def captions(
    size: Size,
    count: int,
    source: torch.Generator,
) -> Tensor:  # (count, T)
    """Random captions: words by Zipf's law, half to all of the length, then EOS and PAD."""
    words = size.vocabulary - len((PAD, BOS, EOS, UNK))
    drawn = torch.rand(count, size.length, generator=source)
    ids = (float(words) ** drawn - 1).long().clamp(0, words - 1) + UNK + 1
    lengths = torch.randint(size.length // 2, size.length, (count, 1), generator=source)
    places = torch.arange(size.length)
    ids = torch.where(places < lengths, ids, PAD)
    return torch.where(places == lengths, EOS, ids)


def _frequencies(size: Size, source: torch.Generator) -> rewards.DocumentFrequencies:
    tokens = captions(size, size.documents * size.references, source)
    bare = tokens.masked_fill((tokens == PAD) | (tokens == EOS), -1)
    return rewards.DocumentFrequencies.build(bare.view(size.documents, size.references, size.length).tolist())


def _model(name: ModelName, size: Size, options: dict[str, Any]) -> Model[Any, Any]:
    if name == "show_tell":
        return ShowTell(size.vocabulary, size.features, size.embedding, size.units, **options)
    if name == "top_down":
        return TopDown(size.vocabulary, size.features, size.embedding, size.units, size.units, **options)
    return RNNsearch(size.vocabulary, size.vocabulary, size.embedding, size.embedding, size.units, **options)
