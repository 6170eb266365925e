"""Small runs that were really trained: two losses, two seeds, on a few scenes."""

from __future__ import annotations

from pathlib import Path

from seqsmooth.data.scenes.preparing import draw_pictures, prepare_scenes, train_vectors
from seqsmooth.training.reader import read_config
from seqsmooth.training.trainer import train
from seqsmooth.training.writing import DecodingOptions, write_split

SIZES = {"train": 30, "val": 6, "test": 12}
LOSSES = ("mle", "tok")
SEEDS = (0, 1)


def train_runs(root: Path) -> list[Path]:
    """Prepare, train and decode below a folder; the folders of the runs."""
    corpus = prepare_scenes(root / "data", 0, **SIZES)
    train_vectors(corpus)
    draw_pictures(root / "pictures", corpus, "test")
    folders = []
    for loss in LOSSES:
        for seed in SEEDS:
            small = {"model.units": "12", "model.embedding_size": "12", "trainer.max_epochs": "2", "seed": str(seed)}
            small |= {"data.folder": str(corpus.folder), "trainer.progress": "false", "optimizer.lr": "0.02"}
            folder = root / "runs" / loss / str(seed)
            train(read_config("configs/demo", list(small.items()), loss=loss), folder)
            write_split(DecodingOptions(runs=(folder,), metrics=("bleu-1", "bleu-4", "cider")))
            folders.append(folder)
    return folders
