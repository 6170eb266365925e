"""Processor time of our corpus metrics beside the tools that define them, on the same sentences.

    python -m benchmarks.score_peers --text test.en --json score_peers.json

References are the lines of a file; hypotheses, and further references, are the same with three words in ten replaced by
others of the file. Contestants take turns, and what they keep between calls is forgotten before each; the ratio is the
median of those of the turns. Both must give the same score.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import platform
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import seqsmooth as ss
from benchmarks.machine import git_commit
from benchmarks.prepare_pairs import processor
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_lines
from seqsmooth.packages import version_of

KIND = "seqsmooth score peers 1"
SIZES = ((1000, 1), (1000, 4), (5000, 4))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare every metric at every size; print a line each, and keep all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="sentences, one a line")
    parser.add_argument("--sizes", nargs="+", metavar="LINES:REFERENCES", help="as in 1000:4")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where the results go")
    given = parser.parse_args(arguments)
    text = [" ".join(line.split()) for line in read_lines(given.text, "text")]  # one blank: some split there alone
    sizes = [tuple(map(int, size.split(":"))) for size in given.sizes or ()] or SIZES
    rows: list[dict[str, Any]] = []
    for lines, number in sizes:
        hypotheses, references = sentences(text[:lines], number)
        for name, ours, theirs in contestants(hypotheses, references):
            row = {"metric": name, "lines": len(hypotheses), "references": number} | compare(ours, theirs, given.turns)
            rows.append(row)
            print(row, flush=True)
        if given.json is not None:
            save(given.json, rows)


def save(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write what was measured so far."""
    machine = {"processor": processor(), "python": platform.python_version(), "commit": git_commit()}
    machine |= {name: version_of(name) for name in ("numpy", "torch", "sacrebleu", "pycocoevalcap")}
    with atomic_write_text(path) as file:
        file.write(json.dumps({"kind": KIND, "machine": machine, "rows": list(rows)}, indent=1) + "\n")


def sentences(text: Sequence[str], number: int) -> tuple[list[str], list[list[str]]]:
    """Hypotheses, and so many references of each."""
    draw = random.Random(0)
    words = [word for line in text for word in line.split()]

    def vary(line: str) -> str:
        return " ".join(word if draw.random() < 0.7 else draw.choice(words) for word in line.split())

    return [vary(line) for line in text], [[line, *(vary(line) for _ in range(number - 1))] for line in text]


def contestants(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> list[tuple[str, Callable[[], float], Callable[[], float]]]:
    """Every metric: its name, ours, theirs."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from sacrebleu.metrics.bleu import BLEU

    ours, gold = dict(enumerate(hypotheses)), dict(enumerate(references))
    streams = [list(stream) for stream in zip(*references, strict=True)]
    lists = {key: [text] for key, text in ours.items()}

    def theirs(metric: Any, **how: Any) -> Callable[[], float]:
        def score() -> float:
            with contextlib.redirect_stdout(io.StringIO()):
                value = metric().compute_score(gold, lists, **how)[0]
            return float(value[-1] if isinstance(value, list) else value)

        return score

    return [
        (
            "sacreBLEU, 13a",
            lambda: ss.metrics.sacrebleu(ours, gold, tokenise="13a", lowercase=False).value,
            lambda: float(BLEU(tokenize="13a", force=True).corpus_score(hypotheses, streams).score),
        ),
        ("BLEU-4", lambda: ss.metrics.bleu(ours, gold).value, theirs(Bleu, verbose=0)),
        ("CIDEr-D", lambda: ss.metrics.cider(ours, gold).value, theirs(Cider)),
        ("ROUGE-L", lambda: ss.metrics.rouge_l(ours, gold).value, theirs(Rouge)),
    ]


def compare(ours: Callable[[], float], theirs: Callable[[], float], turns: int) -> dict[str, float]:
    """Take turns; seconds of both and their ratio."""
    times: list[tuple[float, float]] = []
    for _ in range(turns):
        (our_time, our_score), (their_time, their_score) = timed(ours), timed(theirs)
        if abs(our_score - their_score) > 1e-9:
            raise ValueError(f"Both must give one score; they give {our_score} and {their_score}.")
        times.append((our_time, their_time))
    return {
        "ours": round(median(one for one, _ in times), 4),
        "theirs": round(median(other for _, other in times), 4),
        "ratio": round(median(one / other for one, other in times), 3),
    }


def line_of(row: dict[str, Any]) -> tuple[str, str, str, str]:
    """A row of the table in `docs/metrics.md`."""
    return row["metric"], f"{row['lines']:,}", str(row["references"]), f"{row['ratio']:.2f}"


def timed(score: Callable[[], float]) -> tuple[float, float]:
    """The time of the processor that a call takes, and its result."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    for kept in (Tokenizer13a.__call__, TokenizerRegexp.__call__):
        kept.cache_clear()
    gc.collect()
    start = time.process_time()
    value = score()
    return time.process_time() - start, value


if __name__ == "__main__":
    main()
