"""The search behind configs/demo.yaml: each loss over a few values, judged by CIDEr on the validation scenes.

    seqsmooth demo --epochs 1 --out first    # makes the corpus in data/demo
    python -m benchmarks.demo_search --data data/demo --out runs/search

Every candidate is trained as `seqsmooth train` does it; what is trained already is not trained again. The test scenes
play no part.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from seqsmooth.training.runs import Run

SEQUENCE, TOKEN = "objective.sequence", "objective.token"
VALUES: dict[str, tuple[dict[str, str], ...]] = {
    "mle": ({"optimizer.lr": "3e-3"}, {"optimizer.lr": "5e-3"}),
    "label_smoothing": tuple({f"{TOKEN}.alpha": alpha} for alpha in ("0.05", "0.1", "0.2")),
    "tok": tuple(
        {f"{TOKEN}.tau": tau, f"{TOKEN}.alpha": alpha}
        for tau, alpha in (("0.12", "0.1"), ("0.2", "0.1"), ("0.2", "0.3"))
    ),
    "seq": tuple({f"{SEQUENCE}.alpha": alpha} for alpha in ("0.1", "0.3", "0.5")),
    "tok_seq": tuple(
        {f"{SEQUENCE}.alpha": sequence, f"{TOKEN}.alpha": token}
        for sequence, token in (("0.1", "0.1"), ("0.3", "0.1"), ("0.3", "0.05"))
    ),
}


@dataclass(frozen=True)
class Candidate:
    """One run of the search."""

    loss: str
    values: tuple[tuple[str, str], ...]
    seed: int
    data: Path
    out: Path

    def score(self) -> float:
        """Train it; the best CIDEr on validation."""
        named = "_".join(f"{key.split('.', 1)[1]}={value}" for key, value in self.values)
        folder = self.out / self.loss / named / str(self.seed)
        folder.parent.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "seqsmooth", "train", "configs/demo", "--loss", self.loss, "--run", str(folder)]
        words += ["--data.folder", str(self.data.absolute()), "--trainer.progress", "false", "--seed", str(self.seed)]
        words += [word for key, value in self.values for word in (f"--{key}", value)]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        return float(Run.open(folder).manifest["best"]["value"])


def main() -> None:
    """Train every candidate, and print those of each loss from best to worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the prepared corpus")
    parser.add_argument("--out", type=Path, required=True, help="where the runs go")
    parser.add_argument("--losses", default=",".join(VALUES), help="which losses (default all)")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    given = parser.parse_args()
    for loss in given.losses.split(","):
        scores_of: dict[tuple[tuple[str, str], ...], list[float]] = {}
        jobs = [
            Candidate(loss, tuple(values.items()), seed, given.data, given.out)
            for values in VALUES[loss]
            for seed in range(given.seeds)
        ]
        with ThreadPoolExecutor(given.jobs) as pool:
            for job, score in zip(jobs, pool.map(Candidate.score, jobs), strict=True):
                scores_of.setdefault(job.values, []).append(score)
        for values, scores in sorted(scores_of.items(), key=lambda pair: -mean(pair[1])):
            settings = ", ".join(f"{key} {value}" for key, value in values)
            print(f"{loss:<16} {mean(scores):6.2f}  {settings}", flush=True)


if __name__ == "__main__":
    main()
