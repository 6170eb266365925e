"""Transformers of a few thousand weights, made on the spot, and data for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
VOCABULARY, LONGEST = 37, 8


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes, max_position_embeddings=32))


def gpt2(**more: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=1, n_head=2, n_positions=32, **quiet, **more)
    )


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    return T5ForConditionalGeneration(T5Config(vocab_size=VOCABULARY, **sizes, decoder_start_token_id=0))


def _bart_like(names: str) -> nn.Module:
    import transformers

    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "dropout": 0.0, "max_position_embeddings": 32}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1}
    config, model = names.split()
    return getattr(transformers, model)(getattr(transformers, config)(vocab_size=VOCABULARY, **sizes, **heads, **ids))


def marian() -> nn.Module:
    model = _bart_like("MarianConfig MarianMTModel")
    model.final_logits_bias.copy_(torch.randn(1, VOCABULARY))  # as in a trained one
    return model


def bart() -> nn.Module:
    return _bart_like("BartConfig BartForConditionalGeneration")


def vision() -> nn.Module:
    from transformers import VisionEncoderDecoderModel, ViTConfig, ViTModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = ViTModel(ViTConfig(**sizes, **still, image_size=8, patch_size=4))
    model = VisionEncoderDecoderModel(encoder=encoder, decoder=gpt2(add_cross_attention=True, is_decoder=True))
    model.config.decoder_start_token_id, model.config.pad_token_id = 0, 0
    return model


def causal(names: str, **more: Any) -> nn.Module:
    """A decoder of the Llama kind, by the names of its configuration and its model."""
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
    config, model = names.split()
    return getattr(transformers, model)(getattr(transformers, config)(vocab_size=VOCABULARY, **sizes, **heads, **more))


MODELS = {"llama": llama, "gpt2": gpt2, "t5": t5, "marian": marian, "bart": bart, "vision": vision}


def build(name: str, seed: int = 0) -> nn.Module:
    """A model whose weights depend on its name and the seed alone."""
    torch.manual_seed(seed)
    return MODELS[name]()


def items(
    name: str, count: int, *, ragged: bool = False, seed: int = 1, dtype: torch.dtype = torch.float32
) -> list[dict[str, Tensor]]:
    """Random items; labels of all lengths where `ragged`, of one length and with some -100 in each where not."""
    draw = torch.Generator().manual_seed(seed)
    listed = []
    for _ in range(count):
        ids = torch.randint(2, VOCABULARY, (LONGEST,), generator=draw)
        labels = ids.clone()
        kept = int(torch.randint(2, LONGEST, (), generator=draw)) if ragged else LONGEST - 2
        causal = name in ("llama", "gpt2")
        labels[: LONGEST - kept] = -100 if causal else labels[: LONGEST - kept]
        if not causal:
            labels[kept:] = -100
        item = {"labels": labels}
        if name == "vision":
            item["pixel_values"] = torch.randn(3, 8, 8, generator=draw).to(dtype)
        else:
            item["input_ids"] = ids
        listed.append(item)
    return listed


def collated(model: nn.Module, *, decoder_inputs: bool = True) -> Any:
    """A collator that does what DataCollatorForSeq2Seq(tokenizer, model=model) does with these items."""

    def collate(features: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        batch = {name: torch.stack([feature[name] for feature in features]) for name in features[0]}
        if model.config.is_encoder_decoder and decoder_inputs:
            batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
        return batch

    return collate


def arguments(folder: Path, **more: Any) -> Any:
    """Arguments of a Trainer that runs here and says nothing."""
    from transformers import Seq2SeqTrainingArguments

    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "steps"}
    chosen = {"max_steps": 20, "logging_steps": 1, "per_device_train_batch_size": 2, "learning_rate": 1e-2, **more}
    return Seq2SeqTrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        **quiet,
        **chosen,
    )


def losses(trainer: Any) -> list[float]:
    """Train, and what was logged at each step."""
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
