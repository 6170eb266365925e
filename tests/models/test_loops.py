"""The recurrences in kernels are those in plain torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from seqsmooth.models import Model, RNNsearch, TopDown, loops
from seqsmooth.ops import dispatch, native

V, F = 13, 6
SHAPES = [(3, 4, 5), (1, 1, 1), (5, 2, 37)]  # items, steps, places


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # which cuDNN's encoders would use by default


def build(name: str) -> Model:
    torch.manual_seed(0)
    # Without dropout, but not in eval mode, from which cuDNN does not go back.
    none = {"embedding_dropout": 0.0, "output_dropout": 0.0}
    if name == "top_down":
        return TopDown(V, F, 5, 6, 9, **none)
    cell, deep = ("gru" if name == "rnnsearch_gru" else "lstm"), name == "rnnsearch_deep"
    layers = 2 if name == "rnnsearch_two" else 1
    return RNNsearch(V, V, 5, 4, 6, 9, cell=cell, deep_output=deep, layers=layers, source_dropout=0.0, **none)


def given(name: str, items: int, steps: int, places: int) -> tuple[tuple[Tensor, ...], Tensor]:
    source = torch.Generator().manual_seed(places)
    tokens = torch.randint(V, (items, steps), generator=source)
    mask = torch.arange(places) < torch.randint(1, places + 1, (items, 1), generator=source)
    mask[-1] = items == 1  # a whole item may be padding
    if name == "top_down":
        return (torch.randn(items, places, F, generator=source), mask), tokens
    return (torch.randint(V, (items, places), generator=source), mask), tokens


def outcome(
    model: Model, inputs: tuple[Tensor, ...], tokens: Tensor, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, dict[str, Tensor]]:
    """Hidden states, and the gradients of all parameters along a random direction."""
    model = model.to(device, dtype)
    inputs = tuple(part.to(device, dtype) if part.is_floating_point() else part.to(device) for part in inputs)
    model.zero_grad()
    hidden = model(inputs, tokens.to(device))
    along = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (hidden * along.to(hidden)).sum().backward()
    gradients = {name: value.grad.cpu().double() for name, value in model.named_parameters() if value.grad is not None}
    return hidden.detach().cpu().double(), gradients


@pytest.fixture(params=["triton", "native"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Make the kernels run, or the native library, and say where."""
    if request.param == "triton":
        device: torch.device = request.getfixturevalue("kernels")
        return device
    if native.library() is None:
        pytest.skip(f"no native library: {native.absence()}")
    monkeypatch.setenv(dispatch.VARIABLE, "native")
    return torch.device("cpu")


@pytest.mark.parametrize(("items", "steps", "places"), SHAPES)
@pytest.mark.parametrize("name", ["top_down", "rnnsearch", "rnnsearch_gru", "rnnsearch_deep", "rnnsearch_two"])
def test_kernels_are_plain_torch(
    name: str, items: int, steps: int, places: int, engine: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, tokens = given(name, items, steps, places)
    expected, their_gradients = outcome(build(name), inputs, tokens, torch.float64, torch.device("cpu"))
    used: list[bool] = []
    real = loops.runs

    def noted(*values: Tensor) -> bool:
        used.append(real(*values))
        return used[-1]

    monkeypatch.setattr(loops, "runs", noted)
    hidden, gradients = outcome(build(name), inputs, tokens, torch.float32, engine)
    assert used == [True]
    torch.testing.assert_close(hidden, expected, rtol=1e-5, atol=1e-5)
    assert gradients.keys() == their_gradients.keys()
    for parameter, gradient in gradients.items():
        torch.testing.assert_close(gradient, their_gradients[parameter], rtol=1e-4, atol=1e-5, msg=parameter)


@pytest.mark.parametrize("name", ["top_down", "rnnsearch", "rnnsearch_gru"])
def test_half_precision_is_near(name: str, kernels: torch.device) -> None:
    inputs, tokens = given(name, 3, 4, 5)
    expected, their_gradients = outcome(build(name), inputs, tokens, torch.float64, torch.device("cpu"))
    hidden, gradients = outcome(build(name), inputs, tokens, torch.bfloat16, kernels)
    torch.testing.assert_close(hidden, expected, rtol=0.02, atol=0.02)
    for parameter, gradient in gradients.items():
        scale = their_gradients[parameter].abs().max().item()
        torch.testing.assert_close(gradient, their_gradients[parameter], rtol=0, atol=0.1 * scale + 1e-3, msg=parameter)


@pytest.mark.parametrize("name", ["top_down", "rnnsearch", "rnnsearch_gru", "rnnsearch_two"])
def test_autocast(name: str, engine: torch.device) -> None:
    (inputs, tokens), model = given(name, 3, 4, 5), build(name).to(engine)
    inputs, tokens = tuple(part.to(engine) for part in inputs), tokens.to(engine)
    expected = model(inputs, tokens)
    with torch.autocast(engine.type, torch.bfloat16):
        hidden = model(inputs, tokens)
    torch.testing.assert_close(hidden.float(), expected, rtol=0.02, atol=0.02)
    hidden.float().square().sum().backward()
    assert all(value.grad.dtype == torch.float32 for value in model.parameters() if value.grad is not None)


def test_contexts_alone_may_be_asked_for(engine: torch.device) -> None:
    (inputs, tokens), gradients = given("rnnsearch", 3, 4, 5), []
    for dtype, device in ((torch.float64, torch.device("cpu")), (torch.float32, engine)):
        model = build("rnnsearch").to(device, dtype)
        memory = model.encode(*(part.to(device) for part in inputs))
        gates = model.word_gates(model.embedding(tokens.t().to(device)))
        if dtype == torch.float32:
            weights = model.score, model.recurrent.weight, model.context_gates.weight
            _, contexts = loops.apply(
                loops.SearchLoop, gates, memory.mask, memory.keys, memory.values, memory.first[:, 0], *weights
            )
        else:
            state, steps = model.start(memory), []
            for step in gates.unbind(0):
                context, state = model._attend(memory, state, step)
                steps.append(context)
            contexts = torch.stack(steps)
        contexts.square().sum().backward()
        gradients.append(model.recurrent.weight.grad.cpu().double())
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("steps", "items", "size", "units"), [(1, 1, 1, 1), (4, 3, 5, 7), (9, 20, 33, 65)])
def test_a_gru_in_c(steps: int, items: int, size: int, units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if native.library() is None:
        pytest.skip(f"no native library: {native.absence()}")
    monkeypatch.setenv(dispatch.VARIABLE, "native")
    torch.manual_seed(0)
    layer, inputs = torch.nn.GRU(size, units), torch.randn(steps, items, size, requires_grad=True)
    used: list[int] = []
    real = loops.GRULoop.forward
    monkeypatch.setattr(loops.GRULoop, "forward", staticmethod(lambda *given: used.append(1) or real(*given)))
    results = []
    for run in (loops.run_layer, lambda layer, inputs: layer(inputs)[0]):
        states = run(layer, inputs)
        along = torch.linspace(-1, 1, states.numel(), dtype=states.dtype).view_as(states)
        results.append([states, *torch.autograd.grad((states * along).sum(), [inputs, *layer.parameters()])])
        layer, inputs = layer.double(), inputs.detach().double().requires_grad_()
    assert used == [1]
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)
    assert loops.run_layer(layer, inputs).dtype == torch.float64
    assert used == [1]


class Launches(TorchDispatchMode):
    """Counts matrix products; the kernels count themselves."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = str(func).removeprefix("aten.")
        self.count += name.startswith(("mm", "addmm", "bmm", "add", "mul", "cat", "sum", "clone", "index"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "launches"), [("rnnsearch", 4), ("rnnsearch_gru", 4), ("top_down", 6)])
def test_launches_a_step(name: str, launches: int, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one more step of the loop costs, each way."""
    from seqsmooth.ops.kernels import attention, gru, lstm

    counter = Launches()

    def counted(kernel: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Tensor | None) -> None:
            with _disable_current_modes():  # what the interpreter does inside is no launch
                kernel(*args)
            counter.count += 1

        return run

    for room in (attention, gru, lstm):
        for part in ("forward", "backward"):
            monkeypatch.setattr(room, part, counted(getattr(room, part)))
    counts = []
    for steps in (3, 4):
        inputs, tokens = given(name, 3, steps, 5)
        model = build(name).to(kernels)
        inputs = tuple(value.to(kernels) for value in inputs)
        with counter:
            hidden = model(inputs, tokens.to(kernels))
            counts.append(counter.count)
            hidden.sum().backward()
            counts.append(counter.count - counts[-1])
            counter.count = 0
    assert counts[2] - counts[0] == launches
    assert counts[3] - counts[1] == launches


def test_too_many_places_and_empty_batches_are_plain(kernels: torch.device) -> None:
    gates = torch.zeros(2, 3, 8, device=kernels)
    assert loops.runs(gates, torch.zeros(3, 4, 5, device=kernels))
    assert not loops.runs(gates, torch.zeros(3, loops.PLACES + 1, 5, device=kernels))
    assert not loops.runs(gates[:, :0], torch.zeros(0, 4, 5, device=kernels))
    assert not loops.runs(gates.double(), torch.zeros(3, 4, 5, device=kernels).double())


def test_plain_torch_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dispatch.VARIABLE, "torch")
    assert not loops.runs(torch.zeros(2, 3, 8), torch.zeros(3, 4, 5))
