"""Both stages of a small captioner: pictures, features of them by a small encoder that is drawn, runs on each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from oracles.small_corpora import glove
from oracles.small_runs import values
from seqsmooth.data import Corpus, Side, write_captions
from seqsmooth.data.extraction import extract
from seqsmooth.data.feature_files import read_features
from seqsmooth.models import EfficientNetLite

SIDE = 32
DECODER = {"kind": "show_tell", "units": 12, "embedding_size": 12, "embedding_dropout": 0.3}
ENCODER = {"kind": "efficientnet_lite", "side": SIDE, "pretrained": False}
CAPTIONER = {"kind": "captioner", "encoder": ENCODER, "decoder": DECODER, "tuned": 2}


def run_of(corpus: Corpus, **changes: Any) -> dict[str, Any]:
    """A small run of stage two, or of another model."""
    made = values(corpus.folder, validation={"batch_size": 7}, **changes)
    return made | {"model": changes.get("model", CAPTIONER)}


def drawn_encoder(seed: int, **options: Any) -> EfficientNetLite:
    """The encoder that a run of this seed draws: it comes before the decoder."""
    torch.manual_seed(seed)
    return EfficientNetLite(0, side=SIDE, pretrained=False, **options)


def seen_by(encoder: EfficientNetLite, pictures: Corpus, folder: Path) -> Corpus:
    """A corpus of pictures as one of features, for stage one."""
    files, seen = {}, {}
    for split in pictures.splits:
        for row, name in enumerate(pictures.ids(split)):
            files[name] = Path(str(name))
            seen[str(name)] = pictures.inputs(split, [row])[0]
    extract(
        files,
        encoder,
        folder / "features",
        read=lambda several: torch.cat([seen[str(file)] for file in several]),
        name=json.dumps({**encoder.config(), "resize": None}),
        dtype="float32",
    )
    splits = {name: list(zip(pictures.ids(name), pictures.references(name), strict=True)) for name in pictures.splits}
    features = read_features(folder / "features.json")
    made = write_captions(folder / "one.corpus", splits, features, side=Side(min_count=1))
    glove(made, 8)
    return made
