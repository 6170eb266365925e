"""Fine-tuning a causal model on completions, tokens smoothed to those alike; the logits are never all in memory.

python examples/hf_causal.py
"""

import tempfile

import torch
from transformers import DataCollatorForSeq2Seq, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import seqsmooth as ss

VOCABULARY, PROMPT = 32, 4


class SmoothedTrainer(ss.integrations.Smoothed, Trainer):
    """The Trainer that you have, from hidden states straight to the loss."""


class Padding:
    """As much of a tokeniser as the collator needs. Yours comes from `AutoTokenizer.from_pretrained`."""

    padding_side, deprecation_warnings = "right", {}

    def pad(self, features, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors=None):
        longest = max(len(item["input_ids"]) for item in features)
        rows = [item["input_ids"] + [0] * (longest - len(item["input_ids"])) for item in features]
        seen = [[1] * len(item["input_ids"]) + [0] * (longest - len(item["input_ids"])) for item in features]
        return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(seen)}


def conversations(count: int, seed: int) -> list[dict[str, list[int]]]:
    """Prompts of four tokens and answers that repeat them, shifted by one; the prompt is not to be learnt."""
    draw, found = torch.Generator().manual_seed(seed), []
    for _ in range(count):
        prompt = torch.randint(1, VOCABULARY - 1, (PROMPT,), generator=draw).tolist()
        answer = [token + 1 for token in prompt[: int(torch.randint(2, PROMPT + 1, (), generator=draw))]]
        found.append({"input_ids": prompt + answer, "labels": [-100] * PROMPT + answer})
    return found


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes, max_position_embeddings=32))
    embeddings = model.get_input_embeddings().weight.detach().clone()  # of a trained model, in earnest
    objective = ss.tok(embeddings, tau=0.1, alpha=0.1)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=80, per_device_train_batch_size=16, gradient_accumulation_steps=2,
        learning_rate=1e-2, report_to="none", save_strategy="no", use_cpu=True, dataloader_pin_memory=False,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = SmoothedTrainer(
        model=model,
        args=arguments,
        train_dataset=conversations(512, 1),
        eval_dataset=conversations(64, 2),
        data_collator=DataCollatorForSeq2Seq(Padding()),
        objective=objective,
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    print(f"eval_loss: {before:.3f}, after 80 steps {after:.3f}")
    return before, after


if __name__ == "__main__":
    main()
