from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import seqsmooth as ss
from benchmarks.step import MODELS, OBJECTIVES, TINY, make_batch, make_objective
from seqsmooth.models import RNNsearch, ShowTell, TopDown
from seqsmooth.ops import checks
from seqsmooth.training import Batch, GraphedStep, Report, TrainingStep, adam
from seqsmooth.training.graphs import restore_after

PAD, BOS, EOS = 0, 1, 2
V = TINY.vocabulary
CPU = torch.device("cpu")
NONE = {"embedding_dropout": 0.0, "output_dropout": 0.0}
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def network(name: str, device: torch.device = CPU, **options: float) -> ShowTell | TopDown | RNNsearch:
    torch.manual_seed(0)
    if name == "show_tell":
        return ShowTell(V, TINY.features, 8, 8, **(NONE | options)).to(device)
    if name == "top_down":
        return TopDown(V, TINY.features, 8, 8, 8, **(NONE | options)).to(device)
    return RNNsearch(V, V, 8, 8, 8, source_dropout=0.0, **(NONE | options)).to(device)


def objective(name: str, *, lazy: bool = True, device: torch.device = CPU) -> ss.Objective:
    if lazy:
        return make_objective(name, TINY, torch.Generator().manual_seed(1), device)
    return ss.Objective(ss.Hamming(0.8, pool="refs", alpha=0.5), lazy=False, specials=ss.Specials(PAD, BOS, EOS))


def batches(name: str, count: int, device: torch.device = CPU) -> list[Batch]:
    source = torch.Generator().manual_seed(2)
    return [make_batch(name, TINY, source, device) for _ in range(count)]


def by_hand(model: torch.nn.Module, aim: ss.Objective, given: list[Batch], clip: float) -> list[float]:
    """Training as a tutorial writes it: candidates first, all logits, torch's own clipping and plain Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
    source, losses = torch.Generator().manual_seed(3), []
    for batch in given:
        candidates = aim.propose(batch.targets, references=batch.references, generator=source)
        loss = aim(model.logits(model(batch.inputs, candidates.inputs)), candidates)
        optimizer.zero_grad()
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.total.item())
    return losses


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_what_a_tutorial_writes(name: str, lazy: bool, fused: bool) -> None:
    aim, given = objective("tok-seq-cider-5", lazy=lazy), batches(name, 4)
    for batch in given:
        batch.targets[0, -2:] = -100  # as targets of other libraries are padded
    theirs, ours = network(name), network(name)
    expected = by_hand(theirs, aim, given, clip=0.1)
    optimizer = adam(ours.parameters(), 0.01) if fused else torch.optim.Adam(ours.parameters(), lr=0.01)
    step = TrainingStep(ours, aim, optimizer, clip=0.1, generator=torch.Generator().manual_seed(3))
    reports = [step(batch) for batch in given]
    assert [report.loss.total.item() for report in reports] == pytest.approx(expected, rel=1e-5)
    assert min(report.norm.item() for report in reports) > 0.1  # so that clipping was at work
    for our, their in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fused", [True, False])
def test_clipping_leaves_short_gradients_alone(fused: bool) -> None:
    """With so large an eps that Adam minds how long a gradient is."""
    (batch,), found = batches("show_tell", 1), []
    for clip in (None, 1e3, 1e-3):
        model = network("show_tell")
        optimizer = (
            adam(model.parameters(), 0.5, eps=1.0) if fused else torch.optim.Adam(model.parameters(), 0.5, eps=1.0)
        )
        TrainingStep(model, objective("mle"), optimizer, clip=clip)(batch)
        found.append(torch.cat([value.detach().flatten() for value in model.parameters()]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-7)
    assert not torch.allclose(found[0], found[2], rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_learns(name: str) -> None:
    model, (batch,) = network("show_tell"), batches("show_tell", 1)
    step = TrainingStep(model, objective(name), adam(model.parameters(), 0.02))
    reports = [step(batch) for _ in range(40)]
    assert reports[-1].norm is None
    assert reports[-1].loss.nll < 0.8 * reports[0].loss.nll
    assert not reports[-1].loss.total.requires_grad


def test_autocast_is_near() -> None:
    results = []
    for dtype in (None, torch.bfloat16):
        model, (batch,) = network("show_tell"), batches("show_tell", 1)
        step = TrainingStep(model, objective("tok"), adam(model.parameters(), 0.02), autocast=dtype)
        results.append(torch.stack([step(batch).loss.total for _ in range(5)]))
    assert not torch.equal(*results)
    torch.testing.assert_close(*results, rtol=0.02, atol=0)


def test_the_learning_rate_can_change() -> None:
    model, (batch,) = network("show_tell"), batches("show_tell", 1)
    step = TrainingStep(model, objective("mle"), adam(model.parameters(), 0.02))
    step.optimizer.param_groups[0]["lr"].fill_(0.0)
    before = [value.clone() for value in model.parameters()]
    step(batch)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


class NoLookAtTheHost(TorchDispatchMode):
    """Refuses what waits for the device to tell the host a number or a size."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "_unique2", "masked_select", "equal", "is_nonzero")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = str(func).removeprefix("aten.")
        assert not name.startswith(self.FORBIDDEN), f"{name} looks at the host"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", MODELS)
def test_a_step_never_looks_at_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (batch,) = network(name), batches(name, 1)
    step = TrainingStep(model, objective("tok-seq-cider-5"), adam(model.parameters(), 0.02), clip=1.0)
    monkeypatch.setattr(checks, "visible", lambda value: False)  # as on an accelerator
    with NoLookAtTheHost():
        step(batch)
        with pytest.raises(AssertionError, match="looks at the host"):
            batch.targets[0, 0].item()


def run(step: Callable[[Batch], Report], given: list[Batch]) -> Tensor:
    return torch.stack([step(batch).loss.total.clone() for batch in given])


def pair(name: str, aim: str, device: torch.device, seed: int | None = 3) -> list[TrainingStep]:
    """The same step twice, from the same weights."""
    steps = []
    for _ in range(2):
        model = network(name, device, embedding_dropout=0.3)
        source = None if seed is None else torch.Generator(device).manual_seed(seed)
        task = objective(aim, device=device)
        steps.append(TrainingStep(model, task, adam(model.parameters(), 0.01), clip=0.5, generator=source))
    return steps


@pytest.mark.parametrize("aim", ["mle", "tok-seq-cider-5"])
def test_without_cuda_a_graphed_step_is_a_step(aim: str) -> None:
    plain, captured = pair("rnnsearch", aim, CPU)
    given = batches("rnnsearch", 4)
    torch.manual_seed(5)
    expected = run(plain, given)
    graphed = GraphedStep(captured, batches("rnnsearch", 5)[-1])
    assert graphed.graph is None
    torch.manual_seed(5)
    assert torch.equal(run(graphed, given), expected)
    assert torch.equal(graphed.batch.targets, given[-1].targets)
    assert graphed.batch.targets is not given[-1].targets


@on_cuda
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("aim", ["mle", "seq-hamming-5", "tok-seq-cider-5"])
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_is_the_step(name: str, aim: str, seed: int | None) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    plain, captured = pair(name, aim, device, seed)
    given = batches(name, 5, device)
    torch.manual_seed(5)
    expected = run(plain, given)
    torch.manual_seed(5)
    graphed = GraphedStep(captured, given[-1])
    assert graphed.graph is not None
    torch.testing.assert_close(run(graphed, given), expected, rtol=1e-4, atol=1e-5)
    for our, their in zip(captured.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(our, their, rtol=1e-3, atol=1e-4)


@on_cuda
@pytest.mark.parametrize("seed", [None, 3])
def test_a_replay_draws_anew(seed: int | None) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    step, _ = pair("show_tell", "seq-hamming-5", device, seed)
    step.model.embedding_dropout.p = 0.0  # so that samples alone make the difference
    step.optimizer.param_groups[0]["lr"].fill_(0.0)
    graphed = GraphedStep(step, batches("show_tell", 1, device)[0])
    assert len(set(run(graphed, [graphed.batch] * 10).tolist())) > 5


@on_cuda
def test_a_graph_needs_a_capturable_optimizer() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    model = network("show_tell", device)
    step = TrainingStep(model, objective("mle", device=device), torch.optim.Adam(model.parameters()))
    with pytest.raises(ValueError, match=r"`step\.optimizer` must be capturable"):
        GraphedStep(step, batches("show_tell", 1, device)[0])


@pytest.mark.parametrize("warm", [True, False])
def test_unchanged(warm: bool) -> None:
    step, twin = pair("show_tell", "seq-hamming-5", CPU)
    given = batches("show_tell", 3)
    for each in (step, twin):
        torch.manual_seed(5)
        if warm:
            each(given[0])
        if each is step:
            with restore_after(step):
                run(step, given)
        result = run(each, given)
        if each is step:
            ours = result
    assert torch.equal(ours, result)


def test_mistakes() -> None:
    model, (batch,) = network("show_tell"), batches("show_tell", 1)
    optimizer = adam(model.parameters(), 0.01)
    specials = ss.Specials(pad=PAD, bos=BOS)
    step = TrainingStep(model, ss.mle(specials=specials), optimizer)
    graphed = GraphedStep(step, batch)
    for make, message in (
        (lambda: TrainingStep(torch.nn.Linear(2, 2), step.objective, optimizer), "`model` must be a seqsmooth.models"),
        (lambda: TrainingStep(model, ss.mle, optimizer), "`objective` must be an Objective; it is a function"),
        (lambda: TrainingStep(model, ss.mle(), optimizer), "`objective.specials.bos` must be given"),
        (lambda: TrainingStep(model, ss.mle(specials=specials, vocab_size=7), optimizer), "over the model's 40 tokens"),
        (lambda: TrainingStep(model, step.objective, optimizer, clip=0.0), "`clip` must be greater than 0"),
        (lambda: GraphedStep(model, batch), "`step` must be a TrainingStep; it is a ShowTell"),
        (
            lambda: graphed(Batch(batch.inputs, batch.targets)),
            r"`batch` must be of inputs\[0\], targets, references",
        ),
        (lambda: graphed(Batch(batch.inputs, batch.targets[:, 1:], batch.references)), r"`targets` must be of shape"),
        (lambda: graphed(Batch(batch.inputs, batch.targets.int(), batch.references)), "of type torch.int64, as captur"),
        (
            lambda: Batch(batch.inputs[0], batch.targets),
            r"`inputs` must be a tuple of tensors, .*; it is a Tensor",
        ),  # type: ignore[arg-type]
        (lambda: adam([], 0.1), "`parameters` must be one or more"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
