"""How to read the page of results: what is said once, for all of its tables and charts."""

from __future__ import annotations

from seqsmooth.metrics.trainings import LEAST
from seqsmooth.reports import record, times
from seqsmooth.reports.paper import paper_source
from seqsmooth.reports.results import BASELINE, RESAMPLES, SEED, Results
from seqsmooth.reports.results_tables import NOT_RUN

SCORES = f"""\
- **Rows and seeds.** Each row is a loss; the runs of a row differ in their seed alone, and its score is their mean ±
  standard deviation, with the number of seeds in brackets. The paper's numbers are from its tables ({paper_source()});
  a row of the paper without a record here says "{NOT_RUN}".
- **Two intervals.** Each difference from {BASELINE} has a 95 % interval over **items**: the paired bootstrap over the
  test items, {RESAMPLES:,} resamples of seed {SEED}, with these trained models as they are. Where both sides have
  {LEAST} seeds or more, it has one over **items and trainings**: what other seeds would give, too. The variance of the
  difference is that over seeds, plus that over items, less what both of them saw, and the interval takes Student's t
  with Welch's degrees of freedom; `seqsmooth.metrics.trainings` has the formula, and its test simulates how often such
  intervals hold the truth. None is widened for the number of rows: of twenty losses that change nothing, one would
  seem to.
- **Bold, italic, colours.** A difference is **bold**, and blue in charts, where its interval over items and trainings
  excludes 0. It is *italic*, and orange, where there is only the one over items and that excludes 0: another seed may
  say otherwise. All others are grey. Charts show the interval over items and trainings where there is one."""
BEHAVIOUR = """\
- **How the models behave.** NLL: nats a token of the test references, unsmoothed whatever the loss. Calibration error:
  the mean distance between the probability of the most likely next word and how often it is right. Rare words: the
  least frequent ones, which together make 5 % of the training text; recall: the share of those in the references of an
  item that its hypothesis has. Prefix corrupted: each word before the one to predict was replaced with a probability of
  30 % by another, drawn from the unigram law of the training text; all models read the same prefixes."""
EXAMPLES = f"""\
- **Examples** are of items drawn at random (seed {record.SEED}), none picked, the same for all losses; each loss by the
  run of its first seed. Neither references nor sources are there: they have licences of their own."""


def how_to_read(results: Results) -> str:
    """What is said once; nothing about what no record has."""
    own = [one for one in results.records if not one.variant]
    parts = [SCORES, _seconds(results)]
    parts += [BEHAVIOUR] if any(one.behaviour is not None for one in own) else []
    parts += [EXAMPLES] if any(one.examples for one in own) else []
    return "\n".join(parts)


def _seconds(results: Results) -> str:
    most = max((times.at_once(runs) for runs in times.by_device(results.records).values()), default=1)
    others = "another" if most == 2 else f"up to {most - 1} others"
    shared = f", while {others} shared the device" if most > 1 else ""
    return (
        f"- **Seconds a run** are the wall time of a run{shared}: they do not compare losses. [Benchmarks]"
        "(benchmarks.md) has what a batch costs with each loss, measured alone, beside the paper's own table of times."
    )
