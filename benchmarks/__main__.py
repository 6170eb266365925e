"""`python -m benchmarks`: time every loss beside its peers, print tables, keep them as JSON, draw them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import claims, page, plot, report, run, warm
from benchmarks.records import TimingReport
from benchmarks.shapes import chosen_shapes
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.paths import check_source
from seqsmooth.ops import checks

SUMMARIES = {
    "loss": "losses on given logits, forward and backward",
    "head": "losses from hidden states and the output matrix, forward and backward",
    "rewards": "CIDEr-D and BLEU of many candidates",
    "sampler": "Hamming proposals",
    "step": "whole training steps",
}
TYPED = ("loss", "head", "step")
EXAMPLES = """\
examples:
  python -m benchmarks loss --shapes tiny --seconds 20
  python -m benchmarks loss --device cpu --shapes captions --threads 1 --only "MLE|Tok"
  python -m benchmarks all --folder results --skip step
  python -m benchmarks show results/loss.json --plot loss.png

measurements with options of their own, each run as `python -m benchmarks.NAME`:
  host_time       what the host needs to submit a loss, without a GPU; two checkouts side by side
  house           size and shape of the source of two checkouts
  training_speed  `seqsmooth train` beside a bare loop of CUDA graphs
  trainer_steps   steps of Hugging Face's Trainer: stock, Liger, ours
  stage_two       which weights stage two of a captioner changed
  prepare_pairs   time and memory of `seqsmooth prepare pairs`, of two checkouts
  score_peers     corpus metrics beside the tools that define them
  demo_search     the search behind the configs of the demo"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; what a user can mend is one sentence."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description="Time every loss beside its peers.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options(parser)
    try:
        return start(parser.parse_args(words))
    except BrokenPipeError:  # the reader has seen enough; the interpreter must not flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return 2


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    kinds = parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    for name, summary in SUMMARIES.items():
        child = kinds.add_parser(name, help=summary, description=summary)
        _run_options(child, shaped=name in run.SHAPED, typed=name in TYPED)
        child.add_argument("--json", type=Path, metavar="FILE", help="write the report here, whole or not at all")
        child.add_argument("--plot", type=Path, metavar="FILE", help="draw it: a .png or .svg (needs matplotlib)")
    child = kinds.add_parser("all", help="all of these, one after the other in one process")
    _run_options(child, shaped=True, typed=True)
    _skip_option(child)
    child.add_argument("--folder", type=Path, required=True, help="where NAME.json of each goes")
    rule = "compile all kernels before anything is timed: all of these, briefly, in processes side by side"
    child = kinds.add_parser("warm", help=rule, description=rule)
    _choices(child, shaped=True, typed=True)
    _skip_option(child)
    child.add_argument("--workers", type=int, help="processes at a time (default: as many as there are cores)")
    child = kinds.add_parser("show", help="print and draw a report that was written before")
    child.add_argument("file", type=Path, help="what --json wrote")
    child.add_argument("--plot", type=Path, metavar="FILE", help="draw it: a .png or .svg (needs matplotlib)")
    child = kinds.add_parser("claims", help="say which promises reports keep; exit status 1 unless all are held")
    child.add_argument("files", type=Path, nargs="+", help="what --json wrote")
    child = kinds.add_parser("page", help="put reports into a page of the documentation, between its marks")
    child.add_argument("page", type=Path, help="the page, in Markdown")
    child.add_argument("files", type=Path, nargs="*", help="what --json wrote")


def _run_options(parser: argparse.ArgumentParser, *, shaped: bool, typed: bool) -> None:
    parser.add_argument("--seconds", type=float, default=100.0, help="take no longer than about this (default 100)")
    parser.add_argument("--quick", action="store_true", help="leave out memory and errors of peers")
    parser.add_argument("--commit", help="the name of the code, where git does not know it")
    _choices(parser, shaped=shaped, typed=typed)


def _choices(parser: argparse.ArgumentParser, *, shaped: bool, typed: bool) -> None:
    parser.add_argument("--device", help="cuda or cpu (default: cuda where there is one)")
    parser.add_argument("--only", metavar="REGEX", help="contestants whose name this finds")
    rule = "on a CPU, a table for each number of threads (default: one, and as many as there are cores)"
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help=rule)
    rule = "on a CPU, the paths of ours: torch, native (default: all that this installation can take)"
    parser.add_argument("--path", nargs="+", metavar="PATH", help=rule)
    if typed:
        parser.add_argument("--dtype", help="bf16 (default on a GPU), fp16, fp32 (default on a CPU) or fp64")
    if shaped:
        rule = "as in a,b (default: a,b,c,d; on a CPU captions,sentences,llm, the head without the last)"
        parser.add_argument("--shapes", metavar="NAMES", help=rule)
        rule = "shapes at which torch.compile takes part, half a minute for each contestant"
        parser.add_argument("--compiled", default="", metavar="NAMES", help=rule)


def _skip_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--skip", default="", metavar="NAMES", help="leave these out, as in step,rewards")


def start(given: argparse.Namespace) -> int:
    """Do what was asked for and return the exit status."""
    if given.what == "show":
        return _deliver(TimingReport.load(given.file), None, given.plot)
    if given.what == "claims":
        reports = [TimingReport.load(file) for file in given.files]
        results = [result for device in claims.devices(reports) for result in claims.check(reports, device)]
        print(claims.text(results), flush=True)
        return 0 if all(result.verdict == "held" for result in results) else 1
    if given.what == "page":
        text = check_source("page", given.page).read_text(encoding="utf-8")
        filled = page.fill(text, [TimingReport.load(file) for file in given.files])
        with atomic_write_text(given.page) as file:
            file.write(filled)
        return 0
    if given.what == "all":
        return _all(given)
    if given.what == "warm":
        return _warm(given)
    _check_file("json", given.json)
    plot.check(given.plot)
    return _deliver(run.run(given.what, _settings(given, given.seconds)), given.json, given.plot)


def _all(given: argparse.Namespace) -> int:
    checks.must(given.folder.is_dir(), "folder", "a folder that is there", str(given.folder))
    chosen = _benchmarks_but(given.skip)
    settings = _settings(given, given.seconds / len(chosen))
    return max(_deliver(run.run(name, settings), given.folder / f"{name}.json", None) for name in chosen)


def _warm(given: argparse.Namespace) -> int:
    settings = _settings(given, 1.0)  # whatever is wrong is said here, once
    if given.workers is not None:
        checks.at_least("workers", given.workers, 1)
    shapes = [shape.name for shape in chosen_shapes(given.shapes or run.USUAL_SHAPES[settings.kind])]
    listed = []
    for name in _benchmarks_but(given.skip):
        options = {"device": given.device, "only": given.only}
        options |= {"dtype": given.dtype} if name in TYPED else {}
        options |= {"compiled": given.compiled} if name in run.SHAPED else {}
        words = [word for option, value in options.items() if value for word in (f"--{option}", value)]
        listed += warm.tasks([name], shapes, words)
    began, worst = time.monotonic(), 0
    for number, done in enumerate(warm.run(listed, given.workers), 1):
        print(f"[{time.monotonic() - began:6.1f} s] {number} of {len(listed)}: {done}", flush=True)
        worst = max(worst, abs(done.status))
    return 1 if worst else 0


def _benchmarks_but(names: str) -> list[str]:
    skipped = {name.strip() for name in names.split(",") if name.strip()}
    for name in skipped:
        checks.one_of("skip", name, list(SUMMARIES))
    return [name for name in SUMMARIES if name not in skipped]


def _settings(given: argparse.Namespace, seconds: float) -> run.Settings:
    names = ("device", "only", "quick", "commit", "shapes", "dtype", "compiled")
    threads, paths = (None if many is None else tuple(many) for many in (given.threads, given.path))
    chosen = {name: getattr(given, name) for name in names if hasattr(given, name)}
    return run.Settings(seconds=seconds, threads=threads, paths=paths, **chosen)


def _deliver(timings: TimingReport, json: Path | None, picture: Path | None) -> int:
    """Files first: whoever reads the output may have seen enough before its end."""
    if json is not None:
        timings.save(json)
    if picture is not None:
        plot.save(timings, picture)
    print(report.text(timings), flush=True)
    return 1 if timings.failures else 0


def _check_file(name: str, path: Path | None) -> None:
    """Better now than after all the measuring."""
    if path is not None:
        checks.must(path.parent.is_dir(), name, "in a folder that is there", str(path))


if __name__ == "__main__":
    sys.exit(main())
