"""A ViT-GPT2 captioner trained with CIDEr as in the paper: samples decoded on their own prefixes, several references.

python examples/hf_vision.py
"""

import tempfile

import torch
import transformers as hf
from torch import Tensor

import seqsmooth as ss

PAD, BOS, EOS, VOCABULARY = 0, 1, 2, 24


class SmoothedTrainer(ss.integrations.Smoothed, hf.Seq2SeqTrainer):
    """The trainer that you have, decoding what the objective proposes."""


def captioner() -> hf.VisionEncoderDecoderModel:
    """Yours is `VisionEncoderDecoderModel.from_encoder_decoder_pretrained("google/vit-base-...", "gpt2")`."""
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    encoder = hf.ViTModel(hf.ViTConfig(**small, image_size=8, patch_size=4))
    ids = {"bos_token_id": BOS, "eos_token_id": EOS, "is_decoder": True, "add_cross_attention": True}
    decoder = hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=1, n_head=4, n_positions=16, **ids)
    )
    model = hf.VisionEncoderDecoderModel(encoder=encoder, decoder=decoder)
    model.config.decoder_start_token_id, model.config.pad_token_id = BOS, PAD
    return model


def pictures(count: int, seed: int) -> list[dict[str, object]]:
    """Grey squares, described by how bright they are: "a" or "the", the shade, sometimes another word, the end."""
    draw, found = torch.Generator().manual_seed(seed), []
    for _ in range(count):
        shade = int(torch.randint(8, (), generator=draw))
        picture = torch.full((3, 8, 8), shade / 4 - 1) + 0.05 * torch.randn(3, 8, 8, generator=draw)
        captions = [[4, 8 + shade, EOS], [5, 8 + shade, 16 + shade // 2, EOS]]
        chosen = captions[int(torch.randint(2, (), generator=draw))]
        found.append({"pixel_values": picture, "labels": chosen, "references": captions})
    return found


def collate(items: list[dict[str, object]]) -> dict[str, Tensor]:
    rows = [torch.tensor(item["labels"]) for item in items]
    labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
    return {"pixel_values": torch.stack([item["pixel_values"] for item in items]), "labels": labels}


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    train = pictures(256, 1)
    words = [[caption[:-1] for caption in item["references"]] for item in train]
    cider = ss.rewards.Cider(ss.rewards.DocumentFrequencies.build(words))
    sequence = ss.Rewarded(cider, ss.Hamming(tau=0.3, pool="refs"), tau=0.5, samples=3, alpha=0.3)
    specials = ss.Specials(pad=PAD, bos=BOS, eos=EOS)
    objective = ss.Objective(sequence, lazy=False, specials=specials, vocab_size=VOCABULARY)
    arguments = hf.Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=40, per_device_train_batch_size=16, learning_rate=5e-3,
        report_to="none", save_strategy="no", use_cpu=True, dataloader_pin_memory=False, disable_tqdm=True,
        remove_unused_columns=False,
    )  # fmt: skip
    collator = ss.integrations.WithReferences(collate)
    trainer = SmoothedTrainer(
        model=captioner(), args=arguments, train_dataset=train, eval_dataset=pictures(64, 2), data_collator=collator,
        objective=objective,
    )  # fmt: skip
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    print(f"eval_loss: {before:.3f}, after 40 steps {after:.3f}")
    return before, after


if __name__ == "__main__":
    main()
