"""`seqsmooth results`: the page of results from records alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqsmooth.cli.report import say

DESCRIPTION = """\
Make a page of Markdown from the records of runs (`seqsmooth record`): for each table the paper's rows with the paper's
numbers and ours, mean and spread over seeds, differences from MLE with intervals over items and over trainings, how the
models behave, examples, the commands that repeat each row, and the time it all took. What `seqsmooth choose` wrote of
grids is shown, too, and the text of discussion.md in the folder comes first. Charts go to a folder beside the page."""

EXAMPLES = """\
examples:
  seqsmooth results results --out docs/results.md"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("results", type=Path, metavar="FOLDER", help="records, in it and below it")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page")


def start(given: argparse.Namespace) -> int:
    """Write the page."""
    from seqsmooth.reports.results_page import write_results

    page = write_results(given.results, given.out)
    say(f"wrote {given.out} and {len(page.charts)} charts")
    return 0
