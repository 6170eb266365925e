"""A model's output layer: what it must be, and how a loss takes its place for one forward pass.

`Smoothed` computes the loss from the hidden states and the output matrix. That is the model's loss only if the model
returns exactly what its output layer computed. So the layer returns a stand-in, which the model must hand on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.smoothing import Objective

MASKED = "MaskedLM"
"""Part of the class names of models that fill in masked words, as BertForMaskedLM, and of their outputs."""


def output_layer(model: nn.Module) -> Any:
    """The layer that turns hidden states into logits."""
    checks.must(isinstance(model, nn.Module), "model", "the model itself, an nn.Module", checks.describe(model))
    get: Any = getattr(model, "get_output_embeddings", None)
    layer = None if get is None else get()
    known = isinstance(getattr(layer, "weight", None), Tensor)
    checks.must(known, "model.get_output_embeddings()", "a layer with a weight (V, D)", checks.describe(layer))
    return layer


def is_encoder_decoder(model: nn.Module) -> bool:
    """Whether a decoder reads inputs of its own, one position before the labels."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def predicts_in_place(model: nn.Module) -> bool:
    """Whether the logits of a position are for its own label, as those of encoder-decoders and of masked words."""
    return is_encoder_decoder(model) or any(MASKED in type(part).__name__ for part in model.modules())


def check_vocabulary(objective: Objective, model: nn.Module) -> None:
    """Check that objective and output matrix have one size: the matrix is often padded beyond the tokeniser's."""
    size = output_layer(model).weight.shape[0]
    same = objective.vocab_size in (None, size)
    checks.must(same, "objective.vocab_size", f"that of the model's output matrix, {size}", objective.vocab_size)


def check_linear(layer: Any) -> None:
    """Check that a layer multiplies by its matrix and adds its bias, and nothing else, also once it has learnt."""
    name = f"{type(layer).__module__}.{type(layer).__name__}"  # an adapter's class may be called Linear, too
    if not isinstance(layer, nn.Linear) or not layer.weight.is_floating_point():
        problem = f"is a {name} of {layer.weight.dtype}"
    elif type(layer).forward is not nn.Linear.forward or "forward" in layer.__dict__:
        problem = f"is a {name} with a forward of its own"
    else:
        return
    raise ValueError(
        f"The model's output layer {problem}, but `Smoothed` needs a torch.nn.Linear of floats without an adapter; "
        "use Trainer(compute_loss_func=huggingface(objective)), which goes with any layer."
    )


def output_matrix(model: Any) -> tuple[Tensor, Tensor | None]:  # (V, D), (V,)
    """The output matrix, and its bias: the layer's own and the one that Marian and Bart add to the logits."""
    layer = output_layer(model)
    late = _late_bias(model)
    if late is None:
        return layer.weight, layer.bias
    bias = late.flatten().to(layer.weight.dtype)
    return layer.weight, bias if layer.bias is None else layer.bias + bias


@contextmanager
def loss_for_logits(
    layer: Any,
    loss_of: Callable[[Tensor], Tensor],  # (B, T, D) -> ()
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Inside, a layer computes the loss of its hidden states and returns a stand-in (B, 3, V) for the logits.

    Each call appends the stand-in and the loss to the list. The loss is part of the model's forward pass, and the
    stand-in depends on it: from the outputs DDP finds the parameters that will have gradients.
    """
    check_linear(layer)
    calls: list[tuple[Tensor, Tensor]] = []
    linear = layer.forward
    probe = _probe(len(layer.weight), layer.weight.device)

    def forward(hidden: Tensor) -> Tensor:
        loss = loss_of(hidden)
        with torch.no_grad():
            dtype = linear(hidden[:1, -1:]).dtype  # autocast decides
        values = probe.to(dtype).expand(len(hidden), -1, -1)
        always = torch.ones_like(values, dtype=torch.bool)
        stand_in = torch.where(always, values, loss.to(dtype))  # exact even where the loss is infinite
        calls.append((stand_in, loss))
        return stand_in

    layer.forward = forward
    try:
        yield calls
    finally:
        del layer.forward


@torch.no_grad()
def check_unchanged(
    model: Any,
    stand_in: Tensor,  # (B, 3, V) what the output layer returned
    logits: Tensor,  # what the model returned
    *,
    wait: bool,
) -> None:
    """Refuse a model that changes its logits after its output layer, bit for bit.

    The same tensor, unwritten, is proof and costs nothing. A copy, which DDP and casts to float32 make, is compared: in
    every batch on the CPU, elsewhere only if `wait`, since a comparison waits for the device.
    """
    same = logits is stand_in and not stand_in.is_inference() and stand_in._version == 0
    if same or not (wait or checks.visible(logits)):
        return
    late = _late_bias(model)
    # The stand-in itself may have been overwritten.
    expected = _probe(stand_in.shape[-1], stand_in.device).to(stand_in.dtype).expand_as(stand_in)
    expected = expected if late is None else expected + late
    keeps_bits = torch.promote_types(logits.dtype, expected.dtype) == logits.dtype
    if not keeps_bits or logits.shape != expected.shape or not torch.equal(logits, expected.to(logits.dtype)):
        raise ValueError(
            f"{type(model).__name__} changes its logits after its output layer: {_change(expected, logits)}. "
            "`Smoothed` computes the loss from hidden states, so a scale, cap or mask on the logits would be lost. "
            "Use Trainer(compute_loss_func=huggingface(objective)), which takes the logits the model returns."
        )


def _late_bias(model: Any) -> Tensor | None:  # (1, V)
    """The bias that Marian and Bart add to the logits."""
    bias: Tensor | None = getattr(model, "final_logits_bias", None)
    return bias


def _change(before: Tensor, after: Tensor) -> str:
    """An example of what happened to logits."""
    if before.shape != after.shape:
        return f"of shape {tuple(before.shape)}, they came out as {tuple(after.shape)}"
    places = (before != after).nonzero()
    if len(places) == 0:
        return f"of {before.dtype}, they came out as {after.dtype}"
    place = tuple(places[-1].tolist())
    return f"{float(before[place]):g} came out as {float(after[place]):g}"


@lru_cache(maxsize=4)
def _probe(size: int, device: torch.device) -> Tensor:  # (3, V)
    """Logits that every cap, scale, bias or mask changes, exact in every floating-point type.

    Three positions: zeros, which show what is added; numbers of all magnitudes; and large ones, which show any cap. The
    large ones have the largest 8-bit significand, 1.9921875: a scale so close to 1 that it leaves them in bf16 leaves
    every number of bf16.
    """
    draw = torch.Generator().manual_seed(0)
    signs = 1 - 2 * torch.randint(2, (2, size), generator=draw)
    significands = 1 + torch.randint(128, (size,), generator=draw) / 128
    anywhere = significands * 2.0 ** torch.randint(-8, 14, (size,), generator=draw)
    large = 1.9921875 * 2.0 ** torch.randint(11, 14, (size,), generator=draw)
    return torch.cat([torch.zeros(1, size), signs * torch.stack([anywhere, large])]).to(device)
