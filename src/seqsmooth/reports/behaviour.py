"""The behaviour of a trained model beyond its scores: lengths, words, rare words, calibration, corrupted prefixes.

A behaviour is observed once for a run and a split, and kept in the folder of the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from seqsmooth.training.runs import Run

KIND = "seqsmooth behaviour 2"
EDGES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000)
RARE = 0.05


@dataclass(frozen=True)
class Recall:
    """The recall of words that are about equally frequent in training."""

    low: int
    """The fewest times that the words occur in training."""
    found: int
    """Pairs of an item and a word of its references that its hypothesis has, too."""
    of: int
    """All pairs of an item and a word of its references."""


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of a model on a split.

    Attributes:
        lengths: the number of hypotheses of 0, 1, 2... words.
        reference_lengths: the number of references of 0, 1, 2... words.
        words: the number of different words in the hypotheses.
        recall: the recall of words, by their frequency.
        rare: the recall of the rarest words, which together make 5 % of the training text.
        calibration: tokens of the references under teacher forcing, by the confidence of the model.
        nll: the NLL of a token of the references, EOS included, in nats.
        corrupted: NLL and accuracy with a growing share of each prefix replaced by random words.

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
        """The mean length of the hypotheses, in words."""
        return _mean_place(self.lengths)

    @property
    def reference_length(self) -> float:
        """The mean length of the references, in words."""
        return _mean_place(self.reference_lengths)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error (Guo et al. 2017): between confidence and accuracy, over the bins."""
        total = sum(part.tokens for part in self.calibration)
        return sum(abs(part.confidence - part.right) for part in self.calibration) / total


COLUMNS: Mapping[str, tuple[Callable[[Behaviour], float], str]] = {
    "NLL": (lambda one: one.nll, ".3f"),
    "calibration error, %": (lambda one: 100 * one.calibration_error, ".1f"),
    "rare-word recall, %": (lambda one: 100 * one.rare.found / max(one.rare.of, 1), ".1f"),
    "different words": (lambda one: float(one.words), ".0f"),
    "mean length": (lambda one: one.mean_length, ".2f"),
    "NLL, prefix corrupted": (lambda one: one.corrupted[-1].nll, ".3f"),
    "rise": (lambda one: one.corrupted[-1].nll - one.nll, "+.3f"),
    "accuracy, true prefix, %": (lambda one: 100 * one.corrupted[0].accuracy, ".1f"),
    "accuracy, corrupted, %": (lambda one: 100 * one.corrupted[-1].accuracy, ".1f"),
}
"""The columns of a table of behaviours: each with its number and the form of that."""
NOTE = """\
NLL: nats a token of the test references, unsmoothed whatever the loss. Calibration error: the mean distance between
the probability of the most likely next word and how often it is right. Rare words: the least frequent ones, which
together make 5 % of the training text; recall: the share of those in the references of an item that its hypothesis has.
Prefix corrupted: each word before the one to predict was replaced with a probability of 30 % by another, drawn from the
unigram law of the training text; all models read the same prefixes."""
"""An explanation of these columns."""


def behaviour(run: Run, split: str, device: str = "cpu", corpus: Corpus | None = None) -> Behaviour:
    """Observe a run; what its folder has from an earlier time counts while hypotheses and weights are the same.

    Args:
        run: trained and decoded.
        split: the split of its hypotheses.
        device: where the model reads the references.
        corpus: of the run; opened by default.
    """
    known = load_behaviour(run, split)
    if known is not None:
        return known
    corpus = run.corpus() if corpus is None else corpus
    model = run.model(corpus, device=device)
    hypotheses = {name: several[0].tokens if several else () for name, several in run.hypotheses(split)}
    rule = f"whole (`seqsmooth decode {run.folder} --split {split} --overwrite`)"
    checks.must(hypotheses.keys() == {*corpus.ids(split)}, str(run.hypotheses_file(split)), rule, "of other items")
    written = [corpus.vocabulary.sentence(hypotheses[name]) for name in corpus.ids(split)]
    observed = observe(model, corpus, split, written, torch.device(device))
    path = _path(run, split)
    path.parent.mkdir(exist_ok=True)
    of = {"kind": KIND, "weights": _checksum(run.weights()), "decoded": _checksum(run.hypotheses_file(split))}
    with atomic_write_text(path) as file:
        file.write(json.dumps(of | {"behaviour": asdict(observed)}) + "\n")
    return observed


def load_behaviour(run: Run, split: str) -> Behaviour | None:
    """The behaviour kept in the folder of a run, if hypotheses and weights (where still there) are the same."""
    try:
        content = json.loads(_path(run, split).read_text(encoding="utf-8"))
        known = content["kind"] == KIND and content["decoded"] == _checksum(run.hypotheses_file(split))
        weights = run.weights()
        if not known or (weights.is_file() and content["weights"] != _checksum(weights)):
            return None
        return read_behaviour(content["behaviour"])
    except (OSError, ValueError, KeyError, TypeError):  # it is only remembered: what is damaged is made again
        return None


def read_behaviour(content: Mapping[str, Any]) -> Behaviour:
    """Read a behaviour from JSON of what `dataclasses.asdict` made of it."""
    parts: dict[str, Any] = {name: tuple(content[name]) for name in ("lengths", "reference_lengths")}
    parts["recall"] = tuple(Recall(**part) for part in content["recall"])
    parts["rare"] = Recall(**content["rare"])
    parts["calibration"] = tuple(Bin(**part) for part in content["calibration"])
    parts["corrupted"] = tuple(Corrupted(**part) for part in content["corrupted"])
    return Behaviour(**{**content, **parts})


def observe(
    model: Model[Any, Any], corpus: Corpus, split: str, written: Sequence[Sequence[str]], device: torch.device
) -> Behaviour:
    """Observe a model and the hypotheses that it wrote for each item of a split."""
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
    """Measure word recall by frequency in training, and that of rare words. A word without a count is left out."""
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


def _path(run: Run, split: str) -> Path:
    return run.folder / "behaviour" / f"{split}.json"
