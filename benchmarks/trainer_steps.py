"""Steps of Hugging Face's Trainer with a model of a billion parameters and 128,256 tokens: stock, Liger, ours.

    python -m benchmarks.trainer_steps --json trainer_steps.json

A Llama of the 1B class in bf16 with random weights, sequences of 4,096 random tokens, AdamW. Every contestant trains
some steps with a new model. The time of a step is the median between the ends of two, without the first ones; memory
is the peak that torch allocated in training; neither counts what was made before training, such as lists of
neighbours. One round warms up and is dropped; the stock Trainer comes first and once more, which shows how far times
drift. Liger replaces parts of Llama (norms, rotations, products) for the whole process, so it comes after all others:
the last two rows are ours with these. Where there is no GPU all is small, and the numbers show only that it runs.

The file holds `machine`, `setting`, and for each row `ms`, `gib`, and the `loss` of its steps, or why it `failed`.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import seqsmooth as ss
from benchmarks.machine import git_commit
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.integrations import Smoothed, huggingface
from seqsmooth.packages import is_installed, version_of

KIND = "seqsmooth trainer steps 1"
GPU = torch.cuda.is_available()
SIZES: dict[str, Any] = (
    {"vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
     "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}
    if GPU
    else {"vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128}
)  # fmt: skip
LENGTH = 4096 if GPU else 32
TAU, ALPHA, EPSILON = 0.1, 0.1, 0.1

Objective = Callable[[PreTrainedModel], ss.Objective]


class FromHidden(Smoothed, Trainer):
    """The Trainer without logits."""


class StepClock(TrainerCallback):
    """When steps end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Look at the time when the GPU is done."""
        if GPU:
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


@dataclass(frozen=True)
class TrainerContestant:
    """One way to train."""

    name: str
    objective: Objective | None = None
    logits: bool = False
    """Whether ours is given logits, instead of hidden states."""
    liger: bool = False
    smoothing: float = 0.0

    def trainer(self, model: PreTrainedModel, arguments: dict[str, Any], **common: Any) -> Trainer:
        """The Trainer of a model."""
        given = TrainingArguments(use_liger_kernel=self.liger, label_smoothing_factor=self.smoothing, **arguments)
        if self.objective is None:
            return Trainer(model=model, args=given, **common)
        objective = self.objective(model)
        if self.logits:
            return Trainer(model=model, args=given, compute_loss_func=huggingface(objective, model), **common)
        return FromHidden(model=model, args=given, objective=objective, **common)


def near(**how: Any) -> Objective:
    """Smoothing by the model's own embeddings."""
    return lambda model: ss.Objective(token=ss.Similarity.from_model(model, TAU, alpha=ALPHA, **how))


def contestants() -> list[TrainerContestant]:
    """All of them."""
    smooth: Objective = lambda model: ss.label_smoothing(EPSILON)  # noqa: E731
    nearest, dense = near(k=16), near(rank=256 if GPU else 8, stored=False)
    patched = [
        TrainerContestant("Liger", liger=True),
        TrainerContestant("ours, the 16 nearest, Liger's other kernels", nearest),
        TrainerContestant("ours, dense, Liger's other kernels", dense),
    ]
    return [
        TrainerContestant("stock"),
        TrainerContestant("stock, label_smoothing_factor", smoothing=EPSILON),
        TrainerContestant("ours from logits, label smoothing", smooth, logits=True),
        TrainerContestant("ours, MLE", lambda model: ss.mle()),
        TrainerContestant("ours, label smoothing", smooth),
        TrainerContestant("ours, own embeddings, the 16 nearest", nearest),
        TrainerContestant("ours, own embeddings, dense, 256 components", dense),
        TrainerContestant("stock, again"),
        *(patched if GPU and is_installed("liger_kernel") else []),
    ]


def measure(who: TrainerContestant, batch: int, steps: int) -> dict[str, Any]:
    """Train a new model for some steps."""
    gc.collect()
    torch.manual_seed(0)
    with torch.device("cuda" if GPU else "cpu"):
        model = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True, attn_implementation="sdpa"))
        model = model.to(torch.bfloat16 if GPU else torch.float32)
    data = [{"input_ids": row, "labels": row} for row in torch.randint(SIZES["vocab_size"], (batch * steps, LENGTH))]
    clock = StepClock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = {
            "output_dir": folder, "max_steps": steps, "per_device_train_batch_size": batch, "report_to": "none",
            "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1, "learning_rate": 1e-5,
            "optim": "adamw_torch_fused" if GPU else "adamw_torch", "use_cpu": not GPU,
        }  # fmt: skip
        trainer = who.trainer(model, arguments, train_dataset=data, callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        if GPU:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        trainer.train()
    gaps = [end - start for start, end in zip(clock.ends[2:], clock.ends[3:], strict=False)]
    memory = torch.cuda.max_memory_allocated() / 2**30 if GPU else 0.0
    losses = [round(entry["loss"], 4) for entry in trainer.state.log_history if "loss" in entry]
    return {"ms": 1e3 * median(gaps), "gib": memory, "loss": losses}


def main(words: Sequence[str] | None = None) -> int:
    """Measure all, print a table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4 if GPU else 2, help="sequences a step")
    parser.add_argument("--steps", type=int, default=9, help="steps of each, four or more")
    parser.add_argument("--json", type=Path, help="where the numbers go")
    parser.add_argument("--commit", help="the name of the code, where git does not know it")
    given = parser.parse_args(words)
    machine = {
        "device": torch.cuda.get_device_name() if GPU else "CPU",
        "commit": given.commit or git_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version_of(name) for name in ("torch", "transformers", "triton", "liger_kernel")},
    }
    setting = {**SIZES, "length": LENGTH, "batch": given.batch, "steps": given.steps, "tau": TAU, "alpha": ALPHA}
    measure(contestants()[0], given.batch, given.steps)
    rows: list[dict[str, Any]] = []
    for who in contestants():
        try:
            row = measure(who, given.batch, given.steps)
            print(f"{who.name:48s}{row['ms']:9.1f} ms{row['gib']:9.2f} GiB   {row['loss'][-1]:.4f}", flush=True)
        except (RuntimeError, ValueError, TypeError) as error:  # as when memory is out
            row = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
            print(f"{who.name:48s}{row['failed']}", flush=True)
        rows.append({"name": who.name, **row})
        if given.json is not None:  # now, for the next one may not end
            with atomic_write_text(given.json) as file:
                content = {"kind": KIND, "machine": machine, "setting": setting, "rows": rows}
                file.write(json.dumps(content, indent=1) + "\n")
    return int(any("failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
