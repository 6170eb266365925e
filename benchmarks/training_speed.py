"""How much of the speed of a bare loop of CUDA graphs `seqsmooth train` keeps.

    python -m benchmarks.training_speed --json training_speed.json

The corpus is made up, in the shape of COCO restval: 26,705 images with 1,280 features and five captions each. Both
sides train losses of `coco/restval` on it. *Bare* goes over batches that lie on the GPU and replays the graph of the
batch's shape; nothing else. *Train* is the verb: Lightning, batches drawn anew, the schedule, the log, ends of epochs;
validation is left out, and so is the first epoch, in which graphs are captured. Its times are those between the first
and the last row of the log. Where there is no GPU everything is small, and the numbers say no more than that it runs.

The file holds `machine` and, for each row, `bare_ms` and `train_ms` a step, and `share`, the one over the other.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.machine import git_commit
from seqsmooth.data import Corpus, FeatureStore, Side, write_captions
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.packages import version_of
from seqsmooth.training import fitting, trainer
from seqsmooth.training.build import Builder, make_optimizer
from seqsmooth.training.config import Config
from seqsmooth.training.graphs import GraphedStep
from seqsmooth.training.reader import read_config
from seqsmooth.training.step import TrainingStep
from seqsmooth.version import __version__

KIND = "seqsmooth training speed 1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
IMAGES, FEATURES, WORDS = (26_705, 1280, 7_000) if DEVICE.type == "cuda" else (60, 16, 100)
ROWS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "mle": ("mle", {}),
    "seq, cider, lazy": ("seq_cider_refs", {"objective.lazy": "true"}),
}
SMALL = {
    "data.batch_size": "20",
    "model.units": "16",
    "model.embedding_size": "16",
    "trainer.bundle": "2",
    "trainer.log_every": "2",
    "trainer.precision": "fp32",
}


def made_up(folder: Path) -> Corpus:
    """Captions of words by Zipf's law, as long as COCO's."""
    source = np.random.default_rng(0)
    law = 1 / np.arange(1, WORDS + 1)
    lengths = np.clip(source.normal(10.5, 2.2, IMAGES * 5).round(), 6, 16).astype(int)
    words = iter(source.choice(WORDS, int(lengths.sum()), p=law / law.sum()).tolist())
    captions = (" ".join(f"w{next(words)}" for _ in range(length)) for length in lengths)
    images = [(number, [next(captions) for _ in range(5)]) for number in range(IMAGES)]
    validation = [(-1 - number, texts) for number, texts in images[:10]]
    ids = [name for name, _ in [*images, *validation]]
    features = FeatureStore(ids, source.normal(0, 1, (len(ids), FEATURES)).astype(np.float16))
    return write_captions(folder, {"train": images, "val": validation}, features, side=Side(min_count=1), max_words=16)


def bare(corpus: Corpus, config: Config, rounds: int) -> float:
    """Milliseconds of a step of the bare loop: the best of several rounds over the same batches."""
    torch.manual_seed(config.seed)
    builder, data = Builder(corpus), config.data
    model, objective = builder.model(config).to(DEVICE).train(), builder.objective(config).to(DEVICE)
    step = TrainingStep(
        model,
        objective,
        make_optimizer(model, config.optimizer),
        clip=config.optimizer.clip,
        autocast=torch.bfloat16 if config.trainer.precision == "bf16" else None,
    )
    batches = corpus.batches("train", data.batch_size, captions_per_image=5, max_words=data.max_length, device=DEVICE)
    on_device = [replace(batch, items=None) for batch in islice(batches, 300)]
    graphs: dict[torch.Size, Any] = {}
    for batch in on_device:
        if batch.targets.shape not in graphs:
            graphs[batch.targets.shape] = GraphedStep(step, batch) if DEVICE.type == "cuda" else step
    times = []
    for _ in range(rounds):
        began = now()
        for batch in on_device:
            graphs[batch.targets.shape](batch)
        times.append((now() - began) / len(on_device))
    return 1e3 * min(times)


def whole(config: Config, folder: Path) -> float:
    """Milliseconds of a step of `train`, from the first to the last row of its log after the first epoch."""
    stamps: list[tuple[int, float]] = []
    note = fitting._note

    def note_time(row: Mapping[str, Any], *rest: Any) -> None:
        note(row, *rest)
        if row["split"] == "train" and row["epoch"] >= 1:
            stamps.append((row["step"], time.perf_counter()))

    with mock.patch.object(fitting, "_note", note_time):
        trainer.train(config, folder)
    (first, began), (last, ended) = stamps[0], stamps[-1]
    return 1e3 * (ended - began) / (last - first)


def describe_machine(commit: str | None) -> dict[str, Any]:
    """The device, the versions and the commit, which git tells where it is not given."""
    return {
        "device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU",
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "python": platform.python_version(),
        "seqsmooth": __version__,
        "commit": commit or git_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def now() -> float:
    """The time, when the device is done."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print a line for each row, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="of `train`, at least 2 (default 6)")
    parser.add_argument("--rounds", type=int, default=4, help="of the bare loop (default 4)")
    parser.add_argument("--only", choices=tuple(ROWS), help="one row (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")
    parser.add_argument("--commit", help="the name of the code, where git does not know it")
    given = parser.parse_args(words)
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        corpus = made_up(Path(place) / "corpus")
        settings = {"data.folder": str(corpus.folder), "trainer.max_epochs": str(given.epochs)}
        settings |= {"validation.every": "0", "trainer.progress": "false"} | ({} if DEVICE.type == "cuda" else SMALL)
        for number, (name, (loss, own)) in enumerate(ROWS.items()):
            if given.only in (None, name):
                config = read_config("coco/restval", [*(settings | dict(own)).items()], loss=loss)
                one, other = bare(corpus, config, given.rounds), whole(config, Path(place) / f"run{number}")
                rows[name] = {"bare_ms": round(one, 4), "train_ms": round(other, 4), "share": round(one / other, 3)}
                sys.stdout.write(f"{name}: bare {one:.4f} ms a step, train {other:.4f} ms, share {one / other:.3f}\n")
                sys.stdout.flush()
    if given.json is not None:
        content = {"kind": KIND, "machine": describe_machine(given.commit), "rows": rows}
        with atomic_write_text(given.json) as out:
            out.write(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
