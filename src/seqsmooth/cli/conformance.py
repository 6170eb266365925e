"""`seqsmooth conformance`: examine a loss by the contract of a token-level loss."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from seqsmooth.conformance import ConformanceReport

DESCRIPTION = """\
Examine a loss by the contract of a token-level loss: it is cross entropy without smoothing, ignored positions
contribute nothing, micro-batches add up, half precision and minus infinity do no harm, gradients are right.

LOSS is MODULE:NAME of a function, an nn.Module or a class of either; keywords that take the strength of smoothing, the
number of items, the reduction and the shift are found in its signature. Exit status: 0 where every rule that can be
asked holds, 1 where one fails."""

EXAMPLES = """\
examples:
  seqsmooth conformance torch.nn.functional:cross_entropy
  seqsmooth conformance my_losses:focal --call sequence
  seqsmooth conformance transformers.trainer_pt_utils:LabelSmoother --json label_smoother.json
  seqsmooth conformance --known --page docs/conformance.md"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.add_argument("loss", nargs="?", metavar="LOSS", help="MODULE:NAME")
    parser.add_argument("--known", action="store_true", help="examine torch's, Hugging Face's, Liger's and our losses")
    rule = "flat: (N, V), (N,); sequence: (B, T, V), (B, T); trainer: outputs, labels; head: hidden, weight, labels"
    parser.add_argument(
        "--call", help=f"how it is called (default: by its signature). {rule}; states: the same of (B, T)"
    )
    parser.add_argument(
        "--smoothing",
        metavar="KEYWORD",
        help="the keyword for the strength of smoothing (default: label_smoothing, ...)",
    )
    parser.add_argument("--own-smoothing", action="store_true", help="its smoothing is not meant to be torch's")
    parser.add_argument("--shifts", action="store_true", help="position t always predicts label t + 1")
    parser.add_argument("--device", default="cpu", help="cpu (default; Triton kernels run in its interpreter) or cuda")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here, whole or not at all")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into a page, between its marks")


def start(given: argparse.Namespace) -> int:
    """Examine, print, write; return the exit status."""
    from seqsmooth import checks
    from seqsmooth.files.atomic import atomic_write_text
    from seqsmooth.files.paths import check_destination, check_source

    checks.require((given.loss is None) == given.known, "Give either a LOSS (MODULE:NAME) or --known.")
    if given.json is not None:
        check_destination("json", given.json)
    checks.one_of("device", given.device, ("cpu", "cuda"))
    page = None
    if given.page is not None:
        page = check_source("page", given.page).read_text(encoding="utf-8")
    device = _device(given.device)
    if page is not None:
        from seqsmooth.conformance import page as pages

        pages.fill(page, [], "")  # refuse a page without marks before the work
    reports = list(_print_each(_known(device) if given.known else [_examine(given, device)]))
    if given.json is not None:
        with atomic_write_text(given.json) as file:
            json.dump([asdict(report) | {"versions": dict(report.versions)} for report in reports], file, indent=1)
    if page is not None:
        with atomic_write_text(given.page) as file:
            file.write(pages.fill(page, reports, _machine(device)))
    return 1 if not given.known and reports[0].failures else 0


def _examine(given: argparse.Namespace, device: torch.device) -> ConformanceReport:
    from seqsmooth.conformance import examine, load

    if device.type == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")
    subject = load(
        given.loss,
        call=given.call,
        smoothing=given.smoothing,
        uniform=not given.own_smoothing,
        shifts=given.shifts,
        device=device,
    )
    return examine(subject)


def _known(device: torch.device) -> Iterator[ConformanceReport]:
    from seqsmooth.conformance import known

    for number, report in enumerate(known.reports(device), 1):
        print(f"{number} of {len(known.LOSSES)}: {report.subject}", file=sys.stderr, flush=True)
        yield report


def _print_each(reports: Iterable[ConformanceReport]) -> Iterator[ConformanceReport]:
    for report in reports:
        print(report, flush=True)
        yield report


def _device(name: str) -> torch.device:
    import torch

    from seqsmooth import checks

    possible = name == "cpu" or torch.cuda.is_available()
    checks.require(possible, "`--device cuda` needs a GPU, and there is none; use --device cpu.")
    return torch.device(name)


def _machine(device: torch.device) -> str:
    import torch

    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name()}"
    return "the CPU, Liger's kernels in Triton's interpreter"
