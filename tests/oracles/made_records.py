"""Records of runs that never were, with scores as one likes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqsmooth.reports.behaviour import Behaviour, Recall
from seqsmooth.reports.forcing import Bin, Corrupted
from seqsmooth.reports.record import Output, Record, Tally

ITEMS = 40


def behaviour(nll: float = 2.5) -> Behaviour:
    """A model whose corrupted prefixes cost 0.5 nats."""
    corrupted = tuple(Corrupted(share, nll + 5 / 3 * share, 0.4 - share) for share in (0.0, 0.1, 0.2, 0.3))
    recall = (Recall(1, 3, 10), Recall(10, 6, 10))
    return Behaviour(
        (0, 0, 10, 30), (0, 0, 20, 20), 123, recall, Recall(1, 1, 4), (Bin(100, 60.0, 50),), nll, corrupted
    )


def record(row: str, seed: int, each: np.ndarray, **changes: Any) -> Record:
    """A run that got these CIDEr scores, one an item, in points."""
    name = changes.pop("name", f"made/{row.lower().replace(', ', '_').replace(' ', '_')}")
    facts = {
        "name": name,
        "row": row,
        "table": changes.pop("table", "captioning without attention, stage one"),
        "task": "captions",
        "seed": seed,
        "config": {"data": {"fraction": changes.pop("fraction", 1.0)}},
        "objective": "seq:(truth)",
        "versions": {"seqsmooth": "0"},
        "device": changes.pop("device", "A GPU"),
        "parameters": 10,
        "started": f"2026-01-01T00:00:{seed:02d}+00:00",
        "seconds": changes.pop("seconds", 120.0),
        "epochs": 2,
        "steps": 4,
        "best": None,
    }
    counts = np.full((ITEMS, 10), 9.0) + np.arange(10)
    scores = {
        "cider": Tally("cider", float(each.mean()), "cider:D|made", each[:, None] / 100),
        "bleu-4": Tally("bleu-4", 30.0 + seed, "bleu:4|made", counts),
        "rouge-l": Tally("rouge-l", 50.0, "rouge|made", np.full((ITEMS, 1), 0.5)),
    }
    held: dict[str, Any] = {
        "facts": facts,
        "data": "fingerprint",
        "split": "test",
        "items": "checksum",
        "decoding": {"beam": 3},
        "variant": "",
        "members": (seed,),
        "commands": (f"seqsmooth train configs/{name}.yaml --seed {seed}", f"seqsmooth decode runs/{name}/{seed}"),
        "curve": {"epoch": [1, 2], "step": [2, 4], "nll": [3.0, 2.5], "cider": [80.0, float(each.mean())]},
        "scores": scores,
        "behaviour": behaviour(),
        "examples": tuple(Output(str(n), f"{row} writes | {n}") for n in range(20)),
    }
    return Record(**{**held, **changes})
