"""A few steps of the Trainer in as many processes as torchrun starts; the first prints losses and weights as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from torch import distributed

import seqsmooth as ss
from oracles import tiny_transformers as tiny
from seqsmooth.integrations import Smoothed, huggingface


def result(kind: str) -> tuple[list[float], float]:
    from transformers import Trainer  # here, since pytest looks into this file for doctests wherever it is

    class Fused(Smoothed, Trainer):
        pass

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    model = tiny.build("llama")
    backend = {"ddp_backend": "gloo"} if processes > 1 else {}
    folder = Path(tempfile.mkdtemp())
    args = tiny.arguments(folder, max_steps=3, per_device_train_batch_size=8 // processes, **backend)
    common = {"model": model, "args": args, "train_dataset": tiny.items("llama", 40, ragged=True)}
    objective = ss.label_smoothing(0.1)
    if kind == "mixin":
        trainer = Fused(**common, data_collator=tiny.collated(model), objective=objective)
    else:
        loss = huggingface(objective)
        trainer = Trainer(**common, data_collator=tiny.collated(model), compute_loss_func=loss)
    losses = tiny.losses(trainer)
    return losses, float(sum(weight.detach().abs().sum() for weight in model.parameters()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    results = {kind: result(kind) for kind in ("function", "mixin")}
    if os.environ.get("RANK") == "0":
        Path(sys.argv[1]).write_text(json.dumps(results), encoding="utf-8")
    if distributed.is_initialized():  # the Trainer leaves that to us; a process that just ends may abort
        distributed.barrier()
        distributed.destroy_process_group()
