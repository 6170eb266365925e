"""What a model writes on a split, and how good that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from seqsmooth.decoding import BeamSearch, Decodable, Greedy, Hypothesis
from seqsmooth.metrics import suite
from seqsmooth.metrics.scores import Scores
from seqsmooth.metrics.sentences import Written
from seqsmooth.models import Model
from seqsmooth.ops import checks
from seqsmooth.smoothing import mle
from seqsmooth.training import config as sections

if TYPE_CHECKING:
    from seqsmooth.data import Batch, Corpus

Search = BeamSearch | Greedy
Id = int | str


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
    """Write for some rows of a split, batch after batch; the longest inputs first, so that batches are of a length."""
    checks.at_least("batch_size", batch_size, 1)
    sizes = corpus.sizes(split) if hasattr(corpus, "sizes") else None
    ordered = list(rows) if sizes is None else sorted(rows, key=lambda row: (-int(sizes[row]), row))
    for first in range(0, len(ordered), batch_size):
        chosen = ordered[first : first + batch_size]
        inputs = corpus.inputs(split, chosen, device)
        yield list(zip(chosen, search(model, *inputs).lists(), strict=True))


def score(
    corpus: Corpus, split: str, written: Mapping[int, Sequence[int]], metrics: Sequence[str]
) -> tuple[dict[str, Scores], dict[str, str]]:
    """Metrics of token ids by row of the split, against all references of those rows; and why others are absent."""
    ids, references = corpus.ids(split), corpus.references(split)
    ours = {str(ids[row]): _written(corpus.vocabulary.decode(tokens)) for row, tokens in written.items()}
    theirs = {str(ids[row]): [_written(words) for words in references[row]] for row in written}
    return suite.score(ours, theirs, metrics)


@torch.no_grad()
def mean_nll(model: Model[Any, Any], corpus: Corpus, batches: Sequence[Batch] | Any) -> tuple[float, int]:
    """The negative log-likelihood of all targets of batches, summed, and the number of their tokens."""
    objective = mle(specials=corpus.vocabulary.specials(), vocab_size=len(corpus.vocabulary))
    sums: list[torch.Tensor] = []
    for batch in batches:
        candidates = objective.propose(batch.targets)
        hidden = model(batch.inputs, candidates.inputs)
        loss = objective.head(hidden, model.head.weight, candidates, model.head.bias, reduction="sum")
        sums.append(torch.stack([loss.nll.double(), loss.tokens.double()]))
    total, tokens = torch.stack(sums).sum(0).tolist()
    return total, int(tokens)


def validate(
    model: Model[Any, Any],
    corpus: Corpus,
    config: sections.Config,
    device: torch.device,
    *,
    rank: int = 0,
    world: int = 1,
    advance: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> dict[str, float]:
    """The metrics of the validation split, in the unit of papers, and its NLL a token.

    Every process decodes its part of the items and all of them score the whole.
    """
    section, split = config.validation, config.data.validation
    count = len(corpus.ids(split))
    rows = list(range(count if section.limit is None else min(count, section.limit)))
    search = make_search(corpus, config.decoding, section.beam)
    written: dict[int, tuple[int, ...]] = {}
    mine = rows[rank::world]
    for batch in decode(model, corpus, split, mine, search, section.batch_size, device):
        written |= {row: hypotheses[0].tokens if hypotheses else () for row, hypotheses in batch}
        advance("validating", len(written), len(mine))
    data = config.data
    batches = corpus.batches(
        split,
        data.batch_size,
        shuffle=False,
        references=data.references,
        captions_per_image=data.captions_per_image,
        max_length=data.max_length,
        rank=rank,
        world=world,
        device=device,
    )
    total, tokens = mean_nll(model, corpus, batches)
    if world > 1:
        parts: list[Any] = [None] * world
        torch.distributed.all_gather_object(parts, (written, total, tokens))
        written = {row: tokens_of for part in parts for row, tokens_of in part[0].items()}
        total, tokens = sum(part[1] for part in parts), sum(part[2] for part in parts)
    scores, absent = score(corpus, split, {row: written[row] for row in rows}, section.metrics)
    if section.monitor in absent:
        raise ValueError(f"`validation.monitor` must be a metric that can be calculated here: {absent[section.monitor]}")
    return {"nll": total / max(tokens, 1)} | {name: held.scale * held.value for name, held in scores.items()}


def _written(words: Sequence[str]) -> Written:
    return Written(" ".join(words), tuple(words))
