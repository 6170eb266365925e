"""Decode a split and score the hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seqsmooth.decoding import BeamSearch, Decodable, Greedy, Hypothesis
from seqsmooth.metrics import suite
from seqsmooth.metrics.evaluation_set import EvaluationSet
from seqsmooth.metrics.scores import Scores
from seqsmooth.models import Model
from seqsmooth.ops import checks
from seqsmooth.smoothing import mle
from seqsmooth.training import config as sections

if TYPE_CHECKING:
    from seqsmooth.data import Corpus

Search = BeamSearch | Greedy


def make_search(corpus: Corpus, section: sections.Decoding, beam: int) -> Search:
    """Beam search of a width, or greedy for 1."""
    rules: dict[str, Any] = {"length": section.length, "alpha": section.alpha, "no_repeat": section.no_repeat}
    specials = corpus.vocabulary.specials()
    if beam == 1:
        return Greedy(specials, section.max_length, **rules)
    return BeamSearch(specials, section.max_length, width=beam, **rules)


@torch.no_grad()
def decode(
    model: Decodable,
    corpus: Corpus,
    split: str,
    rows: Sequence[int],
    search: Search,
    batch_size: int,
    device: torch.device,
) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
    """Decode some rows of a split, batch after batch; the longest inputs first, so that batches are of a length."""
    checks.at_least("batch_size", batch_size, 1)
    sources = corpus.split(split).sources
    ordered = list(rows) if sources is None else sorted(rows, key=lambda row: (-int(sources.lengths[row]), row))
    for first in range(0, len(ordered), batch_size):
        chosen = ordered[first : first + batch_size]
        inputs = corpus.inputs(split, chosen, device)
        yield list(zip(chosen, search(model, *inputs).lists(), strict=True))


class Judge:
    """Scores hypotheses of a split against all its references, which are read once."""

    def __init__(self, corpus: Corpus, split: str) -> None:
        self.vocabulary = corpus.vocabulary
        self.ids = [str(name) for name in corpus.ids(split)]
        self.references = corpus.references(split)

    def scores(
        self, hypotheses: Mapping[int, Sequence[Hypothesis]], metrics: Sequence[str]
    ) -> tuple[dict[str, Scores], dict[str, str]]:
        """Score the best hypothesis of each row of the split; and say why metrics are absent.

        An item without hypotheses scores as an empty sentence does.
        """
        words = {
            self.ids[row]: self.vocabulary.sentence(several[0].tokens) if several else []
            for row, several in hypotheses.items()
        }
        references = {self.ids[row]: self.references[row] for row in hypotheses}
        return suite.score_set(EvaluationSet.align(words, references), metrics)


class Validator:
    """Decodes and scores the validation split, and measures its NLL.

    Every process decodes its part of the items, and all of them score the whole.

    Args:
        corpus: the prepared corpus.
        config: of the run.
        device: where the model is.
        rank: of this process.
        world: the number of processes.
    """

    def __init__(
        self, corpus: Corpus, config: sections.Config, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        section, data = config.validation, config.data
        self.corpus, self.section, self.split = corpus, section, data.validation
        self.device, self.rank, self.world = device, rank, world
        count = len(corpus.ids(self.split))
        self.rows = list(range(count if section.limit is None else min(count, section.limit)))
        self.search = make_search(corpus, config.decoding, section.beam)
        self.judge = Judge(corpus, self.split)
        self.batches = corpus.batches(
            self.split,
            data.batch_size,
            shuffle=False,
            references=0,
            captions_per_image=data.captions_per_image,
            max_words=data.max_length,
            rank=rank,
            world=world,
            device=device,
        )
        self.objective = mle(specials=corpus.vocabulary.specials(), vocab_size=len(corpus.vocabulary)).to(device)

    def __call__(
        self, model: Model[Any, Any], advance: Callable[[int, int], None] = lambda done, of: None
    ) -> dict[str, float]:
        """The metrics in the unit of papers, and the NLL a token."""
        hypotheses: dict[int, list[Hypothesis]] = {}
        mine = self.rows[self.rank :: self.world]
        for batch in decode(model, self.corpus, self.split, mine, self.search, self.section.batch_size, self.device):
            hypotheses |= dict(batch)
            advance(len(hypotheses), len(mine))
        total, tokens = self._nll(model)
        if self.world > 1:
            parts: list[Any] = [None] * self.world
            torch.distributed.all_gather_object(parts, (hypotheses, total, tokens))
            hypotheses = {row: several for part in parts for row, several in part[0].items()}
            total, tokens = sum(part[1] for part in parts), sum(part[2] for part in parts)
        scores, absent = self.judge.scores({row: hypotheses[row] for row in self.rows}, self.section.metrics)
        if self.section.monitor in absent:
            why = absent[self.section.monitor]
            raise ValueError(f"`validation.monitor` must be a metric that can be calculated here: {why}")
        return {"nll": total / max(tokens, 1)} | {name: score.scale * score.value for name, score in scores.items()}

    @torch.no_grad()
    def _nll(self, model: Model[Any, Any]) -> tuple[float, float]:
        """The negative log-likelihood of all targets, summed, and the number of their tokens."""
        self.batches.set_epoch(0)
        sums: list[Tensor] = []
        for batch in self.batches:
            candidates = self.objective.propose(batch.targets)
            hidden = model(batch.inputs, candidates.inputs)
            head = model.head
            loss = self.objective.head(hidden, head.weight, candidates, head.bias, reduction="sum")
            sums.append(torch.stack([loss.nll.double(), loss.tokens.double()]))
        total, tokens = torch.stack(sums).sum(0).tolist()
        return total, tokens
