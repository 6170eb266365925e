"""TRL's SFTTrainer on prompts and completions, through the mixin: no logits, no second forward pass.

python examples/trl_sft.py
"""

import random
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import seqsmooth as ss

WORDS = ["north", "south", "east", "west", "up", "down", "left", "right", "go", "turn", "stop"]
BACK = dict(zip(WORDS[:8], ["south", "north", "west", "east", "down", "up", "right", "left"], strict=True))


class SmoothedTrainer(ss.integrations.Smoothed, SFTTrainer):
    """The SFTTrainer that you have, with another loss."""


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokeniser of these words. Yours comes from `AutoTokenizer.from_pretrained`."""
    words = {word: place for place, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def ways_back(count: int) -> Dataset:
    ways = [random.choices(list(BACK), k=random.randint(2, 4)) for _ in range(count)]
    back = [[BACK[step] for step in way] for way in ways]
    return Dataset.from_dict(
        {"prompt": ["go " + " ".join(way) for way in ways], "completion": [" turn " + " ".join(way) for way in back]}
    )


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    random.seed(0)
    tokenize = tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenize), **sizes, max_position_embeddings=32, pad_token_id=0, eos_token_id=1)
    )
    arguments = SFTConfig(
        output_dir=tempfile.mkdtemp(), max_steps=80, per_device_train_batch_size=16, learning_rate=1e-2,
        report_to="none", save_strategy="no", use_cpu=True, bf16=False, dataloader_pin_memory=False,
        disable_tqdm=True, loss_type="nll", completion_only_loss=True, gradient_checkpointing=False,
    )  # fmt: skip
    trainer = SmoothedTrainer(
        model=model,
        args=arguments,
        train_dataset=ways_back(256),
        eval_dataset=ways_back(64),
        processing_class=tokenize,
        objective=ss.label_smoothing(0.05),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    print(f"eval_loss: {before:.3f}, after 80 steps {after:.3f}")
    return before, after


if __name__ == "__main__":
    main()
