"""Translation with a Hugging Face T5 and Seq2SeqTrainer, after: three lines are ours, see hf_seq2seq_before.py.

python examples/hf_seq2seq.py
"""

import random
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    DataCollatorForSeq2Seq,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
)

import seqsmooth as ss

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
FRENCH = ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit"]


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokeniser of these words. Yours comes from `AutoTokenizer.from_pretrained`."""
    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(ENGLISH + FRENCH)]
    plain = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=32
    )


def sentences(count: int, tokenize: PreTrainedTokenizerFast) -> list[dict[str, list[int]]]:
    drawn = [[random.randrange(8) for _ in range(random.randint(2, 6))] for _ in range(count)]
    said = [(" ".join(ENGLISH[word] for word in one), " ".join(FRENCH[word] for word in one)) for one in drawn]
    return [{**tokenize(source), "labels": tokenize(target)["input_ids"]} for source, target in said]


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    random.seed(0)
    tokenize = tokenizer()
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "dropout_rate": 0.0}
    model = T5ForConditionalGeneration(T5Config(vocab_size=len(tokenize), **sizes, decoder_start_token_id=0))
    objective = ss.seq(rate=0.1, vocab_size=len(tokenize), specials=ss.Specials(eos=1, unk=2))
    arguments = Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=60, per_device_train_batch_size=8, gradient_accumulation_steps=2,
        learning_rate=1e-2, report_to="none", save_strategy="no", use_cpu=True, dataloader_pin_memory=False,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=sentences(256, tokenize),
        eval_dataset=sentences(64, tokenize),
        data_collator=DataCollatorForSeq2Seq(tokenize, model=model),  # `model=` is a must: it makes decoder_input_ids
        compute_loss_func=ss.integrations.huggingface(objective, model),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    print(f"eval_loss: {before:.3f}, after 60 steps {after:.3f}")
    return before, after


if __name__ == "__main__":
    main()
