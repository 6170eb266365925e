"""Time, processor time and memory of `seqsmooth prepare pairs`, of one checkout or of two side by side.

    python -m benchmarks.prepare_pairs --text train.de train.en --before ../before --json prepare_pairs.json

The corpora are made of the text that is given: it comes once as it is, and then again and again with a fifth of the
words replaced by others of the text and one in a hundred by a new one, so that words and n-grams grow with the corpus.
Processor time is of all processes together; memory is the greatest sum, looked at every 50 ms, of what all of them have
for themselves and their share of the rest (PSS), so it needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle, product
from pathlib import Path
from typing import Any

from benchmarks.machine import git_commit
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_lines
from seqsmooth.packages import version_of

KIND = "seqsmooth prepare pairs 1"
PAIRS = (100_000, 400_000, 1_600_000)
MANY = 12_000_000
TOKENISERS = ("whitespace", "moses:en:lower")
LOOK_S = 0.05


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every contestant at every size, in turn; print a table, and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, nargs=2, required=True, metavar="FILE", help="sources and targets")
    parser.add_argument("--pairs", type=int, nargs="+", default=list(PAIRS), help="the sizes")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="the numbers of processes")
    parser.add_argument("--tokenisers", nargs="+", default=list(TOKENISERS), choices=TOKENISERS, help="of both sides")
    parser.add_argument("--before", type=Path, help="another checkout, without --workers")
    parser.add_argument("--json", type=Path, help="where the results go; what it holds is not measured again")
    given = parser.parse_args(arguments)
    text = list(zip(*(read_lines(path, "text") for path in given.text), strict=True))
    contestants: list[tuple[Path | None, int | None]] = [(None, number) for number in given.workers]
    contestants = [*([(given.before, None)] if given.before else []), *contestants]
    rows = json.loads(given.json.read_text(encoding="utf-8"))["rows"] if given.json and given.json.exists() else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pairs in given.pairs:
            files = write_corpus(text, pairs, folder)
            for tokeniser, (source, workers) in product(given.tokenisers, contestants):
                row: dict[str, Any] = {"pairs": pairs, "tokeniser": tokeniser, "workers": workers}
                if any(row.items() <= one.items() for one in rows):
                    continue
                row |= measure(files, folder / "out", tokeniser, source, workers)
                print(row, flush=True)
                check_same(row, rows)
                rows.append(row)
                if given.json is not None:
                    save(given.json, rows)


def check_same(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Check that a corpus is the same whoever prepared it."""
    for one in rows:
        alike = all(row[name] == one[name] for name in ("pairs", "tokeniser"))
        if alike and row["fingerprint"] != one["fingerprint"]:
            raise ValueError(f"Two corpora of one text must be the same; these are not: {row} and {one}.")


def save(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write what was measured so far, smaller corpora first."""
    rows = sorted(rows, key=lambda row: (row["pairs"], TOKENISERS.index(row["tokeniser"]), row["workers"] or 0))
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "commit": git_commit()}
    machine |= {name: version_of(name) for name in ("numpy", "torch", "sacremoses")} | {"processor": processor()}
    with atomic_write_text(path) as file:
        told = {"kind": KIND, "machine": machine, "rows": rows, "many": extrapolate(rows)}
        file.write(json.dumps(told, indent=1) + "\n")


def write_corpus(text: Sequence[tuple[str, str]], pairs: int, folder: Path) -> tuple[Path, Path]:
    """Write so many pairs; the same text gives the same corpus."""
    draw = random.Random(1)
    words = [[word for pair in text for word in pair[side].split()] for side in (0, 1)]
    files = folder / "train.source", folder / "train.target"
    with files[0].open("w", encoding="utf-8") as source, files[1].open("w", encoding="utf-8") as target:
        for number, pair in zip(range(pairs), cycle(text), strict=False):
            lines = (
                pair if number < len(text) else [vary(line, own, draw) for line, own in zip(pair, words, strict=True)]
            )
            source.write(f"{lines[0]}\n")
            target.write(f"{lines[1]}\n")
    return files


def vary(line: str, words: Sequence[str], draw: random.Random) -> str:
    """Replace some words by others, and a few by words that were never there."""

    def other(word: str) -> str:
        chance = draw.random()
        if chance < 0.2:
            return draw.choice(words)
        if chance < 0.21:
            one, two = draw.choice(words), draw.choice(words)
            return one[: (len(one) + 1) // 2] + two[len(two) // 2 :]
        return word

    return " ".join(map(other, line.split()))


def measure(
    files: tuple[Path, Path], out: Path, tokeniser: str, checkout: Path | None, workers: int | None
) -> dict[str, Any]:
    """Prepare once: seconds by the clock and of all processors, and the most memory of all processes."""
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, "-m", "seqsmooth", "prepare", "pairs", str(out), "--train", *map(str, files)]
    words += ["--source-tokeniser", tokeniser, "--target-tokeniser", tokeniser, "--min-count", "2", "--empty", "drop"]
    words += [] if workers is None else ["--workers", str(workers)]
    source = (checkout or Path(__file__).parents[1]).absolute() / "src"
    start = time.perf_counter()
    run = subprocess.Popen(
        words, env=os.environ | {"PYTHONPATH": str(source)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    most = 0
    while True:
        pid, status, used = os.wait4(run.pid, os.WNOHANG)
        if pid:
            break
        most = max(most, sum(map(memory_of, processes(run.pid))))
        time.sleep(LOOK_S)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode != 0:
        raise ValueError(f"`{' '.join(words)}` must end well; its status is {run.returncode}.")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(most / 1e6),
        "fingerprint": json.loads((out / "corpus.json").read_text(encoding="utf-8"))["fingerprint"][:16],
    }


def processes(pid: int) -> Iterator[int]:
    """A process and all that it has started, but one that still is in the memory of its parent (vfork)."""
    yield pid
    with suppress(OSError):
        own = Path(f"/proc/{pid}/cmdline").read_bytes()
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                if Path(f"/proc/{child}/cmdline").read_bytes() != own:
                    yield from processes(int(child))


def memory_of(pid: int) -> int:
    """What a process has for itself, and its share of what it has with others, in bytes."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def extrapolate(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The straight line through the two largest sizes, at twelve million pairs."""
    found = []
    for tokeniser, workers in dict.fromkeys((row["tokeniser"], row["workers"]) for row in rows):
        own = [row for row in rows if (row["tokeniser"], row["workers"]) == (tokeniser, workers)]
        if len(own) < 2:
            continue
        (less, more) = sorted(own, key=lambda row: row["pairs"])[-2:]
        each = (more["processor_seconds"] - less["processor_seconds"]) / (more["pairs"] - less["pairs"])
        seconds = more["processor_seconds"] + each * (MANY - more["pairs"])
        found.append({"pairs": MANY, "tokeniser": tokeniser, "workers": workers, "processor_seconds": round(seconds)})
    return found


def line_of(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """A row of the table in `docs/data.md`."""
    who = "before" if row["workers"] is None else f"{row['workers']} workers"
    memory = f"{row['peak_mb']} MB" if "peak_mb" in row else "-"
    return f"{row['pairs']:,}", row["tokeniser"], who, f"{row['processor_seconds']:,}", memory


def processor() -> str:
    """What Linux calls the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
