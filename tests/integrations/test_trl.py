"""TRL's SFTTrainer with our loss, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import seqsmooth as ss
from oracles import tiny_transformers as tiny
from seqsmooth.integrations import Smoothed, huggingface

pytest.importorskip("transformers", reason="needs transformers: pip install 'seqsmooth[trl]'")
datasets = pytest.importorskip("datasets", reason="needs datasets: pip install 'seqsmooth[trl]'")
trl = pytest.importorskip("trl", reason="needs trl: pip install 'seqsmooth[trl]'")


class Fused(Smoothed, trl.SFTTrainer):
    pass


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {f"w{place}": place for place in range(tiny.VOCABULARY)}
    plain = Tokenizer(models.WordLevel(words, unk_token="w2"))
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="w0", eos_token="w1", unk_token="w2")


def losses(kind: str, folder: Path, objective: ss.Objective | None = None, **options: Any) -> list[float]:
    chosen = {"gradient_accumulation_steps": 2, "max_steps": 10, "bf16": False, "gradient_checkpointing": False}
    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1, "use_cpu": True}
    args = trl.SFTConfig(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        dataloader_pin_memory=False,
        **quiet,
        **chosen | options,
    )
    model = tiny.build("llama")
    rows = [{name: part.tolist() for name, part in item.items()} for item in tiny.items("llama", 40, ragged=True)]
    data = datasets.Dataset.from_list(rows)
    common = {"model": model, "args": args, "train_dataset": data, "processing_class": tokenizer()}
    objective = ss.mle() if objective is None else objective
    if kind == "mixin":
        return tiny.losses(Fused(**common, objective=objective))
    if kind == "function":
        return tiny.losses(trl.SFTTrainer(**common, compute_loss_func=huggingface(objective)))
    return tiny.losses(trl.SFTTrainer(**common))


@pytest.mark.filterwarnings("ignore:.*compute_loss_func.*:FutureWarning")
@pytest.mark.parametrize("kind", ["mixin", "function"])
def test_without_smoothing_the_trajectory_is_the_stock_trainers(kind: str, tmp_path: Path) -> None:
    stock = losses("stock", tmp_path)
    assert len(stock) == 10
    assert losses(kind, tmp_path, ss.label_smoothing(0.0)) == pytest.approx(stock, abs=2e-6)


def test_other_losses_of_trl_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^`loss_type` is 'dft', but the objective is the loss; set loss_type='nll'\.$"
    ):
        losses("mixin", tmp_path, loss_type="dft")


def test_its_own_label_smoothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^`label_smoothing_factor` is 0\.1, but the objective smooths; leave it at 0"
    ):
        losses("mixin", tmp_path, label_smoothing_factor=0.1, loss_type="nll", max_steps=1)
