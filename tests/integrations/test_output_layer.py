"""Which heads the mixin takes: those whose model returns exactly what its output layer made, in every precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import seqsmooth as ss
from oracles import tiny_transformers as tiny
from seqsmooth.integrations import Smoothed

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'seqsmooth[hf]'")
pytest.importorskip("accelerate", reason="needs accelerate: pip install 'seqsmooth[hf]'")

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
REFUSED = r"^{} changes its logits after its output layer: .* Use Trainer\(compute_loss_func=huggingface\(objective\)\)"
CHANGING: dict[str, dict[str, Any]] = {  # caps, scales and masks of published models
    "Gemma2Config Gemma2ForCausalLM": {"final_logit_softcapping": 30.0},
    "GraniteConfig GraniteForCausalLM": {"logits_scaling": 1.3},
    "CohereConfig CohereForCausalLM": {"logit_scale": 0.0625},
}
PLAIN: dict[str, dict[str, Any]] = {
    "LlamaConfig LlamaForCausalLM": {},
    "Qwen2Config Qwen2ForCausalLM": {},
    "Gemma2Config Gemma2ForCausalLM": {"final_logit_softcapping": None},
    "GraniteConfig GraniteForCausalLM": {"logits_scaling": 1.0},  # a division by one, which makes a copy
    "CohereConfig CohereForCausalLM": {"logit_scale": 1.0},
}


class Fused(Smoothed, transformers.Trainer):
    pass


def built(names: str, more: dict[str, Any], dtype: torch.dtype, gain: float = 1.0) -> Any:
    """A model in evaluation mode whose logits are `gain` times those of a fresh one."""
    torch.manual_seed(0)
    model = tiny.causal(names, **more).to(dtype).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(gain)
    return model


def loss_of(model: Any, folder: Path, **options: Any) -> Tensor:
    trainer = Fused(model=model, args=tiny.arguments(folder, **options), objective=ss.label_smoothing(0.1))
    return trainer.compute_loss(model, tiny.collated(model)(tiny.items("llama", 4, ragged=True)))


def expected(model: Any) -> Tensor:
    """Of the logits that the model returns, in float64."""
    batch = tiny.collated(model)(tiny.items("llama", 4, ragged=True))
    logits = model(input_ids=batch["input_ids"]).logits[:, :-1].double()
    return F.cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten(), label_smoothing=0.1)


# At a gain of 40 the change is worth more than 0.1 of loss; at 0.01 no logit of the batch shows a cap.
@pytest.mark.parametrize("gain", [0.01, 40.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("names", CHANGING)
def test_heads_that_cap_or_scale_are_refused(names: str, dtype: torch.dtype, gain: float, tmp_path: Path) -> None:
    model = built(names, CHANGING[names], dtype, gain)
    with pytest.raises(ValueError, match=REFUSED.format(names.split()[1])):
        loss_of(model, tmp_path)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("names", PLAIN)
def test_plain_heads_have_the_loss_of_their_logits(names: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = built(names, PLAIN[names], dtype, 40.0)
    torch.testing.assert_close(
        loss_of(model, tmp_path).double(), expected(model), rtol=4 * torch.finfo(dtype).eps, atol=0
    )


def changed(model: nn.Module, change: Callable[[Tensor], Tensor]) -> nn.Module:
    """The model with its logits changed on their way out."""
    plain = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        outputs = plain(*args, **kwargs)
        outputs.logits = change(outputs.logits)
        return outputs

    model.forward = forward  # type: ignore[method-assign]
    return model


def only_one(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A change of a single token's logit, the others left as they are."""
    return lambda logits: torch.cat([logits[..., :5], change(logits[..., 5:6]), logits[..., 6:]], -1)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "a wide cap": lambda logits: 1000 * torch.tanh(logits / 1000),
    "a scale close to one": lambda logits: logits * 1.005,
    "a scale of one token": only_one(lambda logit: logit * 1.005),
    "a cap of one token": only_one(lambda logit: 1000 * torch.tanh(logit / 1000)),
    "a small bias of one token": only_one(lambda logit: logit + 1e-4),
    "a mask": only_one(lambda logit: torch.full_like(logit, -torch.inf)),
    "a scale in place": lambda logits: logits.mul_(2),
    "a mask in place": lambda logits: logits.index_fill_(-1, torch.tensor([5]), -torch.inf),
    "log probabilities": lambda logits: logits.log_softmax(-1),
    "other positions": lambda logits: logits.flip(1),
    "fewer positions": lambda logits: logits[:, :-1],
    "fewer tokens": lambda logits: logits[..., :-1],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_kind_of_change_is_seen(change: Callable[[Tensor], Tensor], dtype: torch.dtype, tmp_path: Path) -> None:
    model = changed(built("LlamaConfig LlamaForCausalLM", {}, dtype), change)
    with pytest.raises(ValueError, match=REFUSED.format("LlamaForCausalLM")):
        loss_of(model, tmp_path)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "change",
    [Tensor.float, Tensor.clone, lambda logits: logits[:, :, :], lambda logits: logits * 1],
    ids=["float", "clone", "a view", "times one"],
)
def test_casts_and_copies_are_no_change(change: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    model = built("LlamaConfig LlamaForCausalLM", {}, dtype, 40.0)
    wanted = expected(model)
    loss = loss_of(changed(model, change), tmp_path)
    torch.testing.assert_close(loss.double(), wanted, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_a_rounding_is_a_change(tmp_path: Path) -> None:
    model = changed(built("LlamaConfig LlamaForCausalLM", {}, torch.float32), Tensor.bfloat16)
    with pytest.raises(ValueError, match=r"of torch\.float32, they came out as torch\.bfloat16\."):
        loss_of(model, tmp_path)


@pytest.mark.parametrize("names", ["LlamaConfig LlamaForCausalLM", "Gemma2Config Gemma2ForCausalLM"])
def test_under_autocast_the_same_heads_are_taken(names: str, tmp_path: Path) -> None:
    model = built(names, {}, torch.float32, 40.0)
    if "Llama" in names:
        assert loss_of(model, tmp_path, bf16=True).isfinite()
        return
    with pytest.raises(ValueError, match=REFUSED.format("Gemma2ForCausalLM")):
        loss_of(model, tmp_path, bf16=True)


def test_a_change_in_training_alone_is_seen_after_an_evaluation(tmp_path: Path) -> None:
    model = built("LlamaConfig LlamaForCausalLM", {}, torch.float32)
    changed(model, lambda logits: logits * 2 if model.training else logits)
    trainer = Fused(model=model, args=tiny.arguments(tmp_path), objective=ss.mle())
    batch = tiny.collated(model)(tiny.items("llama", 4))
    trainer.compute_loss(model, dict(batch))
    model.train()
    with pytest.raises(ValueError, match=REFUSED.format("LlamaForCausalLM")):
        trainer.compute_loss(model, dict(batch))


def test_a_change_that_comes_later_is_seen(tmp_path: Path) -> None:
    """On the CPU in any batch: there a comparison waits for nobody."""
    model = built("LlamaConfig LlamaForCausalLM", {}, torch.float32)
    trainer = Fused(model=model, args=tiny.arguments(tmp_path), objective=ss.mle())
    batch = tiny.collated(model)(tiny.items("llama", 4))
    trainer.compute_loss(model, dict(batch))
    changed(model, lambda logits: logits * 2)
    with pytest.raises(ValueError, match=REFUSED.format("LlamaForCausalLM")):
        trainer.compute_loss(model, dict(batch))


class Doubling(nn.Linear):
    def forward(self, hidden: Tensor) -> Tensor:
        return 2 * super().forward(hidden)


def test_a_layer_that_does_more_than_its_kind_is_refused(tmp_path: Path) -> None:
    model = built("LlamaConfig LlamaForCausalLM", {}, torch.float32)
    model.lm_head = Doubling(16, tiny.VOCABULARY)
    with pytest.raises(
        ValueError, match=r"^The model's output layer is a .*test_output_layer\.Doubling with a forward of its own"
    ):
        loss_of(model, tmp_path)


def test_a_hook_that_changes_what_a_head_returns_is_seen(tmp_path: Path) -> None:
    model = built("LlamaConfig LlamaForCausalLM", {}, torch.float32)
    model.lm_head.register_forward_hook(lambda module, given, logits: logits * 2)
    with pytest.raises(ValueError, match=REFUSED.format("LlamaForCausalLM")):
        loss_of(model, tmp_path)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_bias_behind_the_head_is_added_to_its_own(dtype: torch.dtype, tmp_path: Path) -> None:
    """Marian's and Bart's `final_logits_bias`, with a head that has one, too."""
    torch.manual_seed(0)
    model = tiny.marian().to(dtype).eval()
    model.lm_head = nn.Linear(16, tiny.VOCABULARY, dtype=dtype)
    batch = tiny.collated(model)(tiny.items("marian", 4))
    trainer = Fused(model=model, args=tiny.arguments(tmp_path), objective=ss.label_smoothing(0.1))
    loss = trainer.compute_loss(model, dict(batch))
    logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits.double()
    wanted = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1)
    torch.testing.assert_close(loss.double(), wanted, rtol=4 * torch.finfo(dtype).eps, atol=0)
