from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.models import Luong, Model, RNNsearch, ShowTell, TopDown
from seqsmooth.models.model import repeat

B, T, V, F, R, S = 3, 5, 11, 6, 4, 7
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))

MODELS: dict[str, Callable[[], Model]] = {
    "show_tell": lambda: ShowTell(V, F, 5, 7),
    "top_down": lambda: TopDown(V, F, 5, 6, 9),
    "rnnsearch": lambda: RNNsearch(V + 2, V, 5, 4, 6, 9),
    "rnnsearch_gru": lambda: RNNsearch(V + 2, V, 5, 4, 6, cell="gru"),
    "rnnsearch_deep": lambda: RNNsearch(V + 2, V, 5, 4, 6, deep_output=True, tied=True),
    "rnnsearch_two": lambda: RNNsearch(V + 2, V, 5, 4, 6, encoder_layers=2, layers=2),
    "rnnsearch_three": lambda: RNNsearch(V + 2, V, 5, 4, 6, cell="gru", encoder_layers=3, layers=3, deep_output=True),
    "rnnsearch_fed": lambda: RNNsearch(V + 2, V, 5, 4, 6, deep_output=True, input_feeding=True),
    "rnnsearch_fed_two": lambda: RNNsearch(
        V + 2, V, 5, 4, 6, layers=2, cell="gru", deep_output=True, input_feeding=True
    ),
    "luong": lambda: Luong(V + 2, V, 6, 3, tied=True),
    "luong_two": lambda: Luong(V + 2, V, 5, 3, encoder_layers=2),
    "luong_input": lambda: Luong(V + 2, V, 5, 3, feeding="input"),
    "luong_none": lambda: Luong(V + 2, V, 5, 3, feeding="none"),
}


def given(name: str) -> tuple[Tensor, ...]:
    source = torch.Generator().manual_seed(2)
    if name == "show_tell":
        return (torch.randn(B, F, generator=source),)
    if name == "top_down":
        mask = torch.tensor([[True] * 4, [True, True, False, False], [True, True, True, False]])
        return torch.randn(B, R, F, generator=source), mask
    ids = torch.randint(1, V + 2, (B, S), generator=source)
    ids[1, 3:] = 0
    return (ids,)


def build(name: str, *, dtype: torch.dtype = torch.float64) -> Model:
    torch.manual_seed(0)
    return MODELS[name]().to(dtype)


def cast(inputs: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(part.to(dtype) if part.is_floating_point() else part for part in inputs)


def written(model: Model, inputs: tuple[Tensor, ...]) -> Tensor:
    """The hidden states one step at a time."""
    memory = model.encode(*inputs)
    state, steps = model.start(memory), []
    for tokens in TOKENS.unbind(1):
        hidden, state = model.step(memory, state, tokens)
        steps.append(hidden)
    return torch.stack(steps, 1)


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_the_whole(name: str) -> None:
    model, inputs = build(name).eval(), cast(given(name), torch.float64)
    hidden = model(inputs, TOKENS)
    torch.testing.assert_close(hidden, written(model, inputs), rtol=1e-12, atol=1e-12)
    assert model.logits(hidden).shape == (B, T, V)
    assert hidden.shape[-1] == model.head.weight.shape[1]


@pytest.mark.parametrize("name", MODELS)
def test_inputs_are_read_once_for_several_rows_of_tokens(name: str) -> None:
    model, inputs = build(name).eval(), cast(given(name), torch.float64)
    tokens = torch.randint(V, (2 * B, 4, T), generator=torch.Generator().manual_seed(3))
    each = tuple(part.repeat_interleave(2, 0) for part in inputs)
    torch.testing.assert_close(model(inputs, tokens[:, 0]), model(each, tokens[:, 0]), rtol=1e-12, atol=1e-12)
    apart = torch.stack([model(each, some) for some in tokens.unbind(1)], 1)
    torch.testing.assert_close(model(inputs, tokens), apart, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"`tokens` must be of B rows, a multiple of the 3 rows of the inputs"):
        model(inputs, tokens[:4, 0])


@pytest.mark.parametrize("name", MODELS)
def test_a_prediction_does_not_see_what_comes_after(name: str) -> None:
    model, inputs = build(name).eval(), cast(given(name), torch.float64)
    changed = TOKENS.clone()
    changed[:, 3] = (changed[:, 3] + 1) % V
    before, after = model(inputs, TOKENS), model(inputs, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).any(-1).all()


@pytest.mark.parametrize("name", MODELS)
def test_an_item_does_not_see_its_neighbours(name: str) -> None:
    model, inputs = build(name).eval(), cast(given(name), torch.float64)
    together = model(inputs, TOKENS)
    alone = [model(tuple(part[b : b + 1] for part in inputs), TOKENS[b : b + 1]) for b in range(B)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "show_tell"])
def test_padding_is_not_seen(name: str) -> None:
    """The second item is the same without its padding, and whatever its padding is."""
    model, inputs = build(name).eval(), cast(given(name), torch.float64)
    whole = model(inputs, TOKENS)[1:2]
    real = 2 if name == "top_down" else 3
    short = tuple(part[1:2, :real] for part in inputs)
    torch.testing.assert_close(whole, model(short, TOKENS[1:2]), rtol=1e-12, atol=1e-12)
    mask = inputs[1] if len(inputs) > 1 else inputs[0] != 0
    noise = inputs[0].clone()
    noise[1, real:] = 5
    torch.testing.assert_close(whole, model((noise, mask), TOKENS)[1:2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_several_prefixes_an_item(name: str) -> None:
    model, inputs = build(name).eval(), cast(given(name), torch.float64)
    prefixes = torch.stack([TOKENS, TOKENS.flip(1)], 1)
    hidden = model(inputs, prefixes)
    for k in range(2):
        torch.testing.assert_close(hidden[:, k], model(inputs, prefixes[:, k]), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"`tokens` must be of shape \(B, T\) or \(B, K', T\)"):
        model(inputs, TOKENS[0])


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_is_near(name: str) -> None:
    """The parameters in half precision, or the arithmetic alone."""
    model, inputs = build(name, dtype=torch.float32).eval(), given(name)
    expected, exact = model(inputs, TOKENS), written(model, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(inputs, TOKENS).float(), expected, rtol=0.03, atol=0.03)
        torch.testing.assert_close(written(model, inputs).float(), exact, rtol=0.03, atol=0.03)
    half = model.bfloat16()
    torch.testing.assert_close(half(cast(inputs, torch.bfloat16), TOKENS).float(), expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_learns(name: str) -> None:
    model, inputs = build(name, dtype=torch.float32).eval(), given(name)  # eval: no dropout, so it can learn by heart
    objective = ss.mle(specials=ss.Specials(pad=0, bos=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    targets = torch.randint(2, V, (B, T), generator=torch.Generator().manual_seed(3))
    losses = []
    for _ in range(60):
        candidates = objective.propose(targets)
        loss = objective.head(model(inputs, candidates.inputs), model.head.weight, candidates, model.head.bias)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        losses.append(loss.total.item())
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("show_tell", "embedding_dropout"),
        ("show_tell", "output_dropout"),
        ("top_down", "embedding_dropout"),
        ("top_down", "output_dropout"),
        ("rnnsearch", "source_dropout"),
        ("rnnsearch", "embedding_dropout"),
        ("rnnsearch", "output_dropout"),
        ("rnnsearch_fed", "output_dropout"),
        ("luong", "source_dropout"),
        ("luong", "embedding_dropout"),
        ("luong", "output_dropout"),
    ],
)
def test_dropout_is_where_its_name_says(name: str, place: str) -> None:
    model, inputs = build(name).train(), cast(given(name), torch.float64)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    expected = model(inputs, TOKENS)
    assert torch.equal(expected, model(inputs, TOKENS))
    getattr(model, place).p = 1.0
    dropped = model(inputs, TOKENS)
    if place == "output_dropout":
        assert not dropped.any()
        return
    table = model.source_embedding if place == "source_dropout" else model.embedding
    with torch.no_grad():
        table.weight.zero_()
    getattr(model, place).p = 0.0
    torch.testing.assert_close(dropped, model(inputs, TOKENS))
    assert not torch.equal(dropped, expected)


def test_dropout_of_the_image() -> None:
    """Each sequence has a mask of its own, also those of one image."""
    model = build("show_tell").train()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    (features,) = cast(given("show_tell"), torch.float64)
    inputs = (features[:1].expand(2, -1),)
    tokens = TOKENS[:1].expand(2, -1)
    model.image_dropout.p = 0.5
    one, other = model(inputs, tokens)
    assert not torch.equal(one, other)
    model.image_dropout.p = 1.0
    dropped = model(inputs, tokens)
    first, _ = model.step(model.encode(*inputs), model.start(model.encode(*inputs)), tokens[:, 0])
    with torch.no_grad():
        model.image.weight.zero_()
        model.image.bias.zero_()
    model.image_dropout.p = 0.0
    torch.testing.assert_close(dropped, model(inputs, tokens))
    torch.testing.assert_close(first, dropped[:, 0])


@pytest.mark.parametrize("make", [ShowTell, TopDown, RNNsearch, Luong])
def test_every_dropout_is_as_strong_as_asked(make: type[Model]) -> None:
    names = [name for name in inspect.signature(make).parameters if name.endswith("_dropout")]
    assert "output_dropout" in names
    asked = {name: (place + 1) / 16 for place, name in enumerate(names)}
    model = make(V, F, **asked)  # type: ignore[arg-type]
    found = {name: getattr(model, name).p for name in names if hasattr(model, name)}
    assert found == {name: asked[name] for name in found}
    assert len(found) >= len(names) - 1


def test_dropout_between_layers_cuts_them() -> None:
    """Where all is dropped, the second layer sees the context alone: whatever the first one's words are."""
    model, inputs = build("rnnsearch_two").train(), cast(given("rnnsearch"), torch.float64)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    expected = model(inputs, TOKENS)
    upper = model.upper.weight_ih_l0
    model.layer_dropout.p = 1.0
    dropped = model(inputs, TOKENS)
    with torch.no_grad():
        upper[:, : model.units] = 0
    model.layer_dropout.p = 0.0
    torch.testing.assert_close(dropped, model(inputs, TOKENS))
    assert not torch.allclose(dropped, expected)


def test_dropout_between_layers_of_the_encoder() -> None:
    model, inputs = build("rnnsearch_two").train(), cast(given("rnnsearch"), torch.float64)
    model.source_dropout.p = 0.0
    model.encoder.dropout.p = 1.0
    changed = torch.where(inputs[0] > 0, inputs[0] % (V + 1) + 1, 0)
    assert torch.equal(model.encode(inputs[0]).values, model.encode(changed).values)
    model.encoder.dropout.p = 0.0
    assert not torch.equal(model.encode(inputs[0]).values, model.encode(changed).values)


def test_dropout_of_the_bridge() -> None:
    model, inputs = build("luong").train(), given("luong")
    model.source_dropout.p = 0.0
    model.bridge_dropout.p = 1.0
    assert not model.encode(*inputs).hidden.any()
    model.bridge_dropout.p = 0.0
    assert model.encode(*inputs).hidden.all()


def test_gru_is_that_of_torch() -> None:
    from seqsmooth.models import cells

    theirs = torch.nn.GRUCell(3, 4, bias=False).double()
    x, h = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    torch.testing.assert_close(cells.gru(x @ theirs.weight_ih.T, h @ theirs.weight_hh.T, h), theirs(x, h))


def test_lstm_is_that_of_torch() -> None:
    from seqsmooth.models import cells

    theirs = torch.nn.LSTMCell(3, 4, bias=False).double()
    x, h, c = (torch.randn(2, size, dtype=torch.float64) for size in (3, 4, 4))
    ours = cells.lstm(x @ theirs.weight_ih.T + h @ theirs.weight_hh.T, c)
    for part, expected in zip(ours, theirs(x, (h, c)), strict=True):
        torch.testing.assert_close(part, expected)


def test_repeat() -> None:
    assert [part.tolist() for part in repeat((torch.tensor([1, 2]),), 2)] == [[1, 1, 2, 2]]


def test_starts_from_given_vectors() -> None:
    vectors = torch.randn(V, 5)
    model = ShowTell(V, F, 5, 5, tied=True, vectors=vectors)
    assert torch.equal(model.embedding.weight, vectors)
    assert model.head.weight is model.embedding.weight
    assert model.head.weight.requires_grad


@pytest.mark.parametrize("make", [RNNsearch, Luong])
def test_both_sides_start_from_given_vectors(make: type[Model]) -> None:
    vectors, source_vectors = torch.randn(V, 5), torch.randn(V + 2, 5)
    model = make(V + 2, V, 5, 4, vectors=vectors, source_vectors=source_vectors)
    assert torch.equal(model.embedding.weight, vectors)
    assert torch.equal(model.source_embedding.weight, source_vectors)
