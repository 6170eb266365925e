"""How a trained model behaves beyond its scores: lengths, words, rare words, calibration.

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
from torch import Tensor

from seqsmooth.data import Corpus
from seqsmooth.models import Model
from seqsmooth.ops.files import text_written_whole
from seqsmooth.text import Vocabulary
from seqsmooth.training.runs import Run, load_model

KIND = "seqsmooth behaviour 1"
BINS = 10
EDGES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000)
RARE = 0.05
PORTION = 4096  # tokens whose logits are held at once


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
class Bin:
    """Tokens whose most likely word has a probability in one tenth of [0, 1]."""

    tokens: int
    confidence: float
    """The sum of these probabilities."""
    right: int
    """How often that word is the one in the reference."""


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

    Examples:
        >>> bins = (Bin(tokens=10, confidence=9.0, right=7), Bin(tokens=10, confidence=5.0, right=5))
        >>> seen = Behaviour((0, 2, 2), (0, 0, 4), 9, (), Recall(0, 0, 0), bins, nll=2.0)
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

    @property
    def mean_length(self) -> float:
        """Of the hypotheses, in words."""
        return _mean_place(self.lengths)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error (Guo et al. 2017): between confidence and accuracy, over the bins."""
        total = sum(held.tokens for held in self.calibration)
        return sum(abs(held.confidence - held.right) for held in self.calibration) / total


def behaviour(run: Run, split: str, device: str = "cpu") -> Behaviour:
    """Observe a run, or remember it: what is in the folder of the run counts if weights and hypotheses are the same."""
    of = {"kind": KIND, "weights": _checksum(run.weights()), "decoded": _checksum(run.decoded(split))}
    kept = run.folder / "behaviour" / f"{split}.json"
    known = _remembered(kept, of)
    if known is not None:
        return known
    model, corpus = load_model(run.folder, device=device)
    hypotheses = {name: found[0].tokens if found else () for name, found in run.hypotheses(split)}
    written = [corpus.vocabulary.sentence(hypotheses[name]) for name in corpus.ids(split)]
    made = observe(model, corpus, split, written, torch.device(device))
    kept.parent.mkdir(exist_ok=True)
    with text_written_whole(kept) as file:
        file.write(json.dumps(of | {"behaviour": asdict(made)}) + "\n")
    return made


def observe(
    model: Model[Any, Any], corpus: Corpus, split: str, written: Sequence[Sequence[str]], device: torch.device
) -> Behaviour:
    """Observe a model, and what it wrote for each item of a split."""
    references = corpus.references(split)
    bins, nll = calibration(model, corpus, split, corpus.targets(split), device)
    recall, rare = recalls(written, references, corpus.word_counts())
    return Behaviour(
        lengths=_histogram(len(words) for words in written),
        reference_lengths=_histogram(len(words) for several in references for words in several),
        words=len({word for words in written for word in words}),
        recall=recall,
        rare=rare,
        calibration=bins,
        nll=nll,
    )


def recalls(
    written: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], counts: Mapping[str, int]
) -> tuple[tuple[Recall, ...], Recall]:
    """Word recall by how often words occur in training, and that of rare words. Those without a count do not count."""
    edge = _rare_below(sorted(counts.values()))
    found, of = np.zeros(len(EDGES), dtype=int), np.zeros(len(EDGES), dtype=int)
    rare = [0, 0]
    for ours, several in zip(written, references, strict=True):
        said = set(ours)
        for word in {word for words in several for word in words if word in counts}:
            place = int(np.searchsorted(EDGES, counts[word], side="right")) - 1
            of[place] += 1
            found[place] += word in said
            if counts[word] <= edge:
                rare[0] += word in said
                rare[1] += 1
    kept = tuple(Recall(EDGES[n], int(found[n]), int(of[n])) for n in range(len(EDGES)) if of[n] > 0)
    return kept, Recall(1, *rare)


@torch.no_grad()
def calibration(
    model: Model[Any, Any],
    corpus: Corpus,
    split: str,
    references: Sequence[Sequence[Sequence[str]]],
    device: torch.device,
    items: int = 100,
) -> tuple[tuple[Bin, ...], float]:
    """Bins of confidence over all tokens of the references, and the NLL a token."""
    specials = corpus.vocabulary.specials()
    assert specials.pad is not None
    assert specials.bos is not None
    sums = torch.zeros(BINS, 3, dtype=torch.float64, device=device)
    total, tokens = torch.zeros((), dtype=torch.float64, device=device), 0
    for first in range(0, len(references), items):
        rows = range(first, min(first + items, len(references)))
        targets = _padded([references[row] for row in rows], corpus.vocabulary, specials.pad).to(device)  # (B, R, T)
        inputs = torch.nn.functional.pad(targets[..., :-1], (1, 0), value=specials.bos)
        hidden = model(corpus.inputs(split, list(rows), device), inputs)
        there = targets != specials.pad
        portions = (torch.split(values[there], PORTION) for values in (hidden, targets))
        for states, words in zip(*portions, strict=True):
            log_probs = model.logits(states).float().log_softmax(-1)
            best, guess = log_probs.max(-1)
            place = (best.exp() * BINS).long().clamp_max(BINS - 1)
            told = torch.stack([torch.ones_like(best), best.exp(), (guess == words).float()], 1).double()
            sums.index_add_(0, place, told)
            total -= log_probs.gather(1, words[:, None]).sum().double()
            tokens += len(words)
    bins = tuple(Bin(int(count), confidence, int(right)) for count, confidence, right in sums.tolist())
    return bins, float(total) / tokens


def _padded(references: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary, pad: int) -> Tensor:  # (B, R, T)
    ids = [[vocabulary.encode(words, eos=True) for words in several] for several in references]
    most = max(len(several) for several in ids)
    longest = max(len(words) for several in ids for words in several)
    filled = torch.full((len(ids), most, longest), pad)
    for n, several in enumerate(ids):
        for r, words in enumerate(several):
            filled[n, r, : len(words)] = torch.tensor(words)
    return filled


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


def _remembered(path: Path, of: dict[str, str]) -> Behaviour | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if any(held[name] != value for name, value in of.items()):
            return None
        told = held["behaviour"]
        told |= {name: tuple(told[name]) for name in ("lengths", "reference_lengths")}
        told["recall"] = tuple(Recall(**part) for part in told["recall"])
        told["rare"] = Recall(**told["rare"])
        told["calibration"] = tuple(Bin(**part) for part in told["calibration"])
        return Behaviour(**told)
    except (OSError, ValueError, KeyError, TypeError):  # it is only remembered: what is damaged is made again
        return None
