"""How a trained model behaves beyond its scores: lengths, words, rare words, calibration, corrupted prefixes.

Everything is a function of a run and its corpus, calculated once and kept in the folder of the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seqsmooth.data import Corpus
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.models import Model
from seqsmooth.ops import checks
from seqsmooth.reports.forcing import Bin, Corrupted, force
from seqsmooth.training.runs import Run, load_model

KIND = "seqsmooth behaviour 2"
EDGES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000)
RARE = 0.05


@dataclass(frozen=True)
class Recall:
    """How many of the words that references use come up in the hypotheses, by how frequent they are in training."""

    low: int
    """The fewest times that the words occur in training."""
    found: int
    """Words found: pairs of an item and a word of its references that its hypothesis has, too."""
    of: int
    """All pairs of an item and a word of its references."""


@dataclass(frozen=True)
class Behaviour:
    """What a run does on a split.

    Attributes:
        lengths: how many hypotheses have 0, 1, 2... words.
        reference_lengths: the same of the references.
        words: the number of different words in the hypotheses.
        recall: by the frequency of the words.
        rare: the same for the rarest words, which together make 5 % of the training text.
        calibration: by the confidence, tokens of the references under teacher forcing.
        nll: of a token of the references, EOS included, in nats.
        corrupted: the same, and the accuracy, with a growing share of each prefix replaced by random words.

    Examples:
        >>> bins = (Bin(tokens=10, confidence=9.0, right=7), Bin(tokens=10, confidence=5.0, right=5))
        >>> seen = Behaviour((0, 2, 2), (0, 0, 4), 9, (), Recall(0, 0, 0), bins, nll=2.0, corrupted=())
        >>> seen.mean_length, f"{seen.calibration_error:.2f}"  # two of one word, two of two; |9 - 7| of 20
        (1.5, '0.10')
    """

    lengths: tuple[int, ...]
    reference_lengths: tuple[int, ...]
    words: int
    recall: tuple[Recall, ...]
    rare: Recall
    calibration: tuple[Bin, ...]
    nll: float
    corrupted: tuple[Corrupted, ...]

    @property
    def mean_length(self) -> float:
        """Of the hypotheses, in words."""
        return _mean_place(self.lengths)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error (Guo et al. 2017): between confidence and accuracy, over the bins."""
        total = sum(held.tokens for held in self.calibration)
        return sum(abs(held.confidence - held.right) for held in self.calibration) / total


def behaviour(run: Run, split: str, device: str = "cpu", *, data: Path | None = None) -> Behaviour:
    """Observe a run, or remember it: what is in its folder counts while hypotheses and weights are the same.

    Args:
        run: trained and decoded.
        split: that of the hypotheses.
        device: where the model reads the references.
        data: where the corpus is now; where it was by default.
    """
    known = remembered(run, split)
    if known is not None:
        return known
    model, corpus = load_model(run.folder, device=device, data=data)
    hypotheses = {name: found[0].tokens if found else () for name, found in run.hypotheses(split)}
    rule = f"whole (`seqsmooth decode {run.folder} --split {split} --overwrite`)"
    checks.must(hypotheses.keys() == {*corpus.ids(split)}, str(run.decoded(split)), rule, "of other items")
    written = [corpus.vocabulary.sentence(hypotheses[name]) for name in corpus.ids(split)]
    made = observe(model, corpus, split, written, torch.device(device))
    kept = _kept(run, split)
    kept.parent.mkdir(exist_ok=True)
    of = {"kind": KIND, "weights": _checksum(run.weights()), "decoded": _checksum(run.decoded(split))}
    with atomic_write_text(kept) as file:
        file.write(json.dumps(of | {"behaviour": asdict(made)}) + "\n")
    return made


def remembered(run: Run, split: str) -> Behaviour | None:
    """What was observed of these hypotheses, and of the weights where they are still there; None where nothing was."""
    try:
        held = json.loads(_kept(run, split).read_text(encoding="utf-8"))
        known = held["kind"] == KIND and held["decoded"] == _checksum(run.decoded(split))
        weights = run.weights()
        if not known or (weights.is_file() and held["weights"] != _checksum(weights)):
            return None
        return read_behaviour(held["behaviour"])
    except (OSError, ValueError, KeyError, TypeError):  # it is only remembered: what is damaged is made again
        return None


def read_behaviour(told: Mapping[str, Any]) -> Behaviour:
    """From what `dataclasses.asdict` made of it, and JSON of that."""
    parts: dict[str, Any] = {name: tuple(told[name]) for name in ("lengths", "reference_lengths")}
    parts["recall"] = tuple(Recall(**part) for part in told["recall"])
    parts["rare"] = Recall(**told["rare"])
    parts["calibration"] = tuple(Bin(**part) for part in told["calibration"])
    parts["corrupted"] = tuple(Corrupted(**part) for part in told["corrupted"])
    return Behaviour(**{**told, **parts})


def observe(
    model: Model[Any, Any], corpus: Corpus, split: str, written: Sequence[Sequence[str]], device: torch.device
) -> Behaviour:
    """Observe a model, and what it wrote for each item of a split."""
    references = corpus.references(split)
    bins, corrupted = force(model, corpus, split, device)
    recall, rare = recalls(written, references, corpus.word_counts())
    return Behaviour(
        lengths=_histogram(len(words) for words in written),
        reference_lengths=_histogram(len(words) for several in references for words in several),
        words=len({word for words in written for word in words}),
        recall=recall,
        rare=rare,
        calibration=bins,
        nll=corrupted[0].nll,
        corrupted=corrupted,
    )


def recalls(
    written: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], counts: Mapping[str, int]
) -> tuple[tuple[Recall, ...], Recall]:
    """Word recall by how often words occur in training, and that of rare words. Those without a count do not count."""
    edge = _rare_below(sorted(counts.values()))
    found, of = [0] * len(EDGES), [0] * len(EDGES)
    rare = [0, 0]
    places = dict(zip(counts, (np.searchsorted(EDGES, list(counts.values()), side="right") - 1).tolist(), strict=True))
    for ours, several in zip(written, references, strict=True):
        said = set(ours)
        for word in {word for words in several for word in words if word in counts}:
            of[places[word]] += 1
            found[places[word]] += word in said
            if counts[word] <= edge:
                rare[0] += word in said
                rare[1] += 1
    kept = tuple(Recall(EDGES[n], found[n], of[n]) for n in range(len(EDGES)) if of[n] > 0)
    return kept, Recall(1, *rare)


def _rare_below(counts: list[int]) -> int:
    """The greatest count of the rarest words that together make no more than RARE of the text; at least the least."""
    share = np.cumsum(counts) / sum(counts)
    return counts[max(0, int(np.searchsorted(share, RARE, side="right")) - 1)]


def _histogram(lengths: Iterable[int]) -> tuple[int, ...]:
    return tuple(np.bincount(np.fromiter(lengths, dtype=np.int64)).tolist())


def _mean_place(counts: Sequence[int]) -> float:
    return sum(place * count for place, count in enumerate(counts)) / sum(counts)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _kept(run: Run, split: str) -> Path:
    return run.folder / "behaviour" / f"{split}.json"
