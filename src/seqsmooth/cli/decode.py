"""`seqsmooth decode`: decode a split with trained models, and score the result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from seqsmooth.cli.train import check_packages
from seqsmooth.console import StatusLine

if TYPE_CHECKING:
    from seqsmooth.data import Corpus
    from seqsmooth.training.writing import DecodingOptions

DESCRIPTION = """\
Decode a split with the model of a run, or with several as an ensemble, and score them against all
references of the corpus. The hypotheses go to RUN/decoded/SPLIT.jsonl in the order of the corpus, the scores to
RUN/scores/SPLIT.json; those of an ensemble to --out and beside it. What was interrupted is resumed, and what is whole
is scored anew even where the weights are gone. --observe goes on to what `seqsmooth report` says
beyond scores, and keeps it in RUN/behaviour/SPLIT.json."""

EXAMPLES = """\
examples:
  seqsmooth decode runs/demo/tok_seq/0 --split test --beam 3
  seqsmooth decode runs/demo/tok_seq/0 --split test --observe
  seqsmooth decode runs/mle/0 runs/mle/1 runs/mle/2 --out ensemble.jsonl"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    add("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run; several make an ensemble")
    add("--split", default="test", help="the split to decode (default test)")
    add("--beam", type=int, help="the width of the beam; 1 is greedy (default: the config's)")
    add("--best", type=int, default=1, help="the number of hypotheses an item (default 1)")
    rule = "the normalisation by length: none, mean or gnmt (default: the config's)"
    add("--length", metavar="HOW", help=rule)
    add("--which", default="best", help="the weights: best by validation (default) or last")
    add(
        "--mean",
        default="probabilities",
        help="what an ensemble averages: probabilities (default) or log-probabilities",
    )
    add("--batch", type=int, help="the number of items at a time (default: the config's)")
    add("--data", type=Path, metavar="FOLDER", help="the folder of the corpus, if it has moved")
    add("--device", default="auto", help="cuda, cpu or auto (default)")
    add("--out", type=Path, metavar="FILE", help="the file to write (default RUN/decoded/SPLIT.jsonl)")
    add("--overwrite", action="store_true", help="replace hypotheses that were decoded in another way")
    add("--no-score", action="store_true", help="only decode")
    add("--metrics", metavar="NAMES", help="the metrics, as in bleu-4,cider (default: those of the task)")
    rule = "also measure calibration, rare words, lengths and the cost of a corrupted prefix"
    add("--observe", action="store_true", help=rule)


def start(given: argparse.Namespace) -> int:
    """Decode, score, print the table."""
    from seqsmooth import checks

    check_packages("seqsmooth decode", "yaml", "safetensors")
    from seqsmooth.cli.names import split_names
    from seqsmooth.metrics.tasks import check_names
    from seqsmooth.training.places import find_corpus
    from seqsmooth.training.runs import Run

    names = split_names("metrics", given.metrics)
    check_names(names)
    runs = [Run.open(folder) for folder in given.runs]
    find_corpus(runs[0].manifest["data"]["folder"] if given.data is None else given.data)
    from seqsmooth.cli.devices import keep_memory_on
    from seqsmooth.training.writing import DecodingOptions, write_split

    keep_memory_on(given.device)
    options = DecodingOptions(
        runs=tuple(given.runs),
        split=given.split,
        beam=given.beam,
        best=given.best,
        which=given.which,
        mean=given.mean,
        batch_size=given.batch,
        device=given.device,
        out=given.out,
        overwrite=given.overwrite,
        metrics=() if given.no_score else names or None,
        length=given.length,
    )
    if given.observe:
        own = len(given.runs) == 1 and given.out is None and given.which == "best"
        checks.must(own, "observe", "of one run, its best weights and its own folder", "of something else")
    corpus = runs[0].corpus(given.data)
    report = write_split(options, _progress, corpus)
    if report is not None:
        print(report.text(), flush=True)
    if given.observe:
        print(_observe(options, corpus), flush=True)
    return 0


def _observe(options: DecodingOptions, corpus: Corpus) -> str:
    """Observe the run, and say in a line what was seen."""
    import torch

    from seqsmooth.reports.behaviour import behaviour
    from seqsmooth.training.runs import Run

    device = "cuda" if options.device != "cpu" and torch.cuda.is_available() else "cpu"
    seen = behaviour(Run.open(options.runs[0]), options.split, device, corpus)
    worst = seen.corrupted[-1]
    return (
        f"NLL {seen.nll:.3f}, with {worst.share:.0%} of the prefix replaced {worst.nll:.3f}; "
        f"calibration error {100 * seen.calibration_error:.1f} %; "
        f"rare words {100 * seen.rare.found / max(seen.rare.of, 1):.1f} %; "
        f"{seen.words} different words; {seen.mean_length:.2f} words a text"
    )


def _progress(done: int, of: int) -> None:
    line = StatusLine()
    (line.write if done == of else line.show)(f"decoded {done} of {of}")
