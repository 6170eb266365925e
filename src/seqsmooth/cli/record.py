"""`seqsmooth record`: what runs leave behind for good, one small file each."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqsmooth.cli.report import find_runs, say

DESCRIPTION = """\
Write a record of each run: one file of JSON with its config, its validation curve, its scores with the statistics of
every item (so that tests between runs can be repeated from records alone), how the model behaves, what it wrote for
twenty items drawn at random, and the command that repeats it. No weights and no references are in it, and the weights
need not be there any more. `seqsmooth results` makes tables of records.

RUN is the folder of a run, or a folder with runs below it; of these, those without scores of the split are left out."""

EXAMPLES = """\
examples:
  seqsmooth record runs/coco --split test --out results
  seqsmooth record runs/mle/0 runs/mle/1 --hypotheses ensemble.jsonl --out results"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run, or of many")
    parser.add_argument("--split", default="test", help="what was decoded (default test)")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the records go")
    rule = "what `seqsmooth decode RUN... --out FILE` wrote, as one record: an ensemble, another beam"
    parser.add_argument("--hypotheses", type=Path, metavar="FILE", help=rule)
    parser.add_argument("--overwrite", action="store_true", help="replace the record of another run of the same name")


def start(given: argparse.Namespace) -> int:
    """Write the records, all or none of those that cannot be made."""
    from seqsmooth.files.paths import inner_path
    from seqsmooth.ops import checks
    from seqsmooth.reports.record import Record
    from seqsmooth.reports.recording import record_hypotheses, record_run

    out: Path = given.out
    checks.must(not out.exists() or out.is_dir(), "out", "a folder", f"the file {out}")
    if given.hypotheses is not None:
        records = [record_hypotheses(given.runs, given.hypotheses)]
    else:
        records = [record_run(folder, given.split) for folder in _scored(given.runs, given.split)]
    checks.must(len(records) > 0, "runs", f"one or more with scores of {given.split}", "none")
    names = [inner_path("name", str(record.file)) for record in records]
    for name in names:
        checks.must(names.count(name) == 1, "runs", "of different names, seeds or splits", f"two of {name}")
    for record in records:
        path = out / record.file
        if path.is_file() and not given.overwrite:
            there = Record.load(path)
            same = there.facts["started"] == record.facts["started"]
            same = same and (there.members, there.decoding) == (record.members, record.decoding)
            rule = "of the same run, or replaced with --overwrite"
            checks.must(same, str(path), rule, "of another one, or of one decoded in another way")
    for record in records:
        path = out / record.file
        path.parent.mkdir(parents=True, exist_ok=True)
        record.save(path)
        unseen = (
            "" if record.behaviour is not None or record.variant else ", not observed (`seqsmooth decode --observe`)"
        )
        say(f"wrote {path}: {path.stat().st_size / 1024:.0f} KiB{unseen}")
    return 0


def _scored(folders: list[Path], split: str) -> list[Path]:
    """The runs given, and those below a folder that were scored."""
    found = []
    for folder in find_runs(folders):
        if folder in folders or (folder / "scores" / f"{split}.json").is_file():
            found.append(folder)
        else:
            say(f"left out {folder}: no scores of {split}")
    return found
