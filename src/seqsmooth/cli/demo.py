"""`seqsmooth demo`: the whole chain on scenes that the package draws itself.

Draw and prepare, word vectors, train with five losses, decode, score, report. Each stage is the one that real data
goes through, keeps its results in files, and passes over what is there already.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seqsmooth.console import StatusLine

if TYPE_CHECKING:
    from seqsmooth.data import Corpus

LOSSES = ("mle", "label_smoothing", "tok", "seq", "tok_seq")
DESCRIPTION = """\
Run the whole chain on a corpus that the package draws itself: small pictures of scenes with five captions each. Five
captioners (Show and Tell) that differ in their loss alone learn from the same pictures, caption scenes that they have
not seen, and are compared in a table and on an HTML page. A few minutes on two cores. Run again, it reuses what is
there."""
EXAMPLES = """\
examples:
  seqsmooth demo
  seqsmooth demo --seeds 3 --out demo3

Then, for instance: seqsmooth train demo --loss tok_seq --trainer.max_epochs 1"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    add(
        "--out",
        type=Path,
        default=Path("demo"),
        metavar="FOLDER",
        help="the folder of the runs and the page (default demo)",
    )
    rule = "the folder of the corpus (default data/demo, where the configs look for it)"
    add("--data", type=Path, default=Path("data/demo"), metavar="FOLDER", help=rule)
    add("--seeds", type=int, default=1, help="the number of seeds for each loss: 0, 1... (default 1)")
    add("--seed", type=int, default=0, help="the seed of the corpus (default 0)")
    add("--epochs", type=int, help="the number of epochs (default: the configs')")
    add(
        "--scenes",
        type=int,
        default=3000,
        help="the number of training scenes (default 3000); a tenth as many validate, a sixth test",
    )
    add("--jobs", type=int, help="the number of runs trained at once (default: as many as keep all cores busy)")


def start(given: argparse.Namespace) -> int:
    """Go through all stages."""
    from seqsmooth import checks
    from seqsmooth.cli.devices import keep_memory_on

    for name in ("seeds", "scenes"):
        checks.at_least(name, getattr(given, name), 1)
    checks.at_least("seed", given.seed, 0)
    for name in ("epochs", "jobs"):
        if getattr(given, name) is not None:
            checks.at_least(name, getattr(given, name), 1)
    _check_packages()
    begin = time.monotonic()
    stage = Stage(5)
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        given.data.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`out` must be a folder that can be made, but {error.filename}: {error.strerror}.") from error
    from seqsmooth.data.scenes.preparing import draw_pictures

    keep_memory_on("cpu")
    corpus = _prepare(given, stage)
    with ThreadPoolExecutor(1) as beside:  # what waits for the disk, while others compute
        drawn = beside.submit(draw_pictures, given.out / "pictures", corpus, "test")
        folders = _train(given, corpus, stage)
        _decode(corpus, folders, stage)
        drawn.result()
    _report(given, corpus, folders, stage)
    print(f"{time.monotonic() - begin:.0f} s in all. The page: {given.out / 'report' / 'report.html'}", flush=True)
    return 0


def _check_packages() -> None:
    from importlib.util import find_spec

    needed = ("pytorch_lightning", "yaml", "safetensors", "tqdm", "jinja2")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        hint = f"{', '.join(missing)}: pip install 'seqsmooth[toolkit]'"
        raise ValueError(f"The demo trains as `seqsmooth train` does, which needs what is not installed: {hint}.")


class Stage:
    """Shows the stages on stderr: on a terminal a bar that moves, elsewhere a line each."""

    def __init__(self, of: int) -> None:
        self.of, self.number = of, 0
        self.title, self.begin = "", 0.0
        self.line = StatusLine()

    @contextmanager
    def __call__(self, title: str) -> Iterator[Callable[[int, int, str], None]]:
        """Run a stage; the function that it gives shows how far the stage is."""
        self.number += 1
        self.title, self.begin = f"[{self.number}/{self.of}] {title}", time.monotonic()
        self._show(0, 1, "")
        yield self._show
        self.line.write(f"{self.title:<48} {time.monotonic() - self.begin:6.1f} s")

    def _show(self, done: int, of: int, more: str) -> None:
        full = round(24 * done / max(of, 1))
        bar = "█" * full + "·" * (24 - full)
        self.line.show(f"{self.title:<48} {bar} {done / max(of, 1):4.0%}  {more:.40}")


def _prepare(given: argparse.Namespace, stage: Stage) -> Corpus:
    import torch

    from seqsmooth.data.scenes.preparing import prepare_scenes, train_vectors

    sizes = {"train": given.scenes, "val": max(1, given.scenes // 10), "test": max(1, given.scenes // 6)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the arrays are small, and on a busy machine threads wait for each other
    with stage(f"draw {sum(sizes.values())} scenes, five captions each") as show:
        corpus = prepare_scenes(given.data, given.seed, progress=lambda done, of: show(done, of, "pictures"), **sizes)
    with stage(f"word vectors of {len(corpus.vocabulary)} words (GloVe)") as show:
        train_vectors(corpus, progress=lambda done, of: show(done, of, ""))
    torch.set_num_threads(threads)
    return corpus


def _train(given: argparse.Namespace, corpus: Corpus, stage: Stage) -> list[Path]:
    from seqsmooth.metrics.tasks import TASKS
    from seqsmooth.training.fleet import FleetJob, at_once, run_fleet
    from seqsmooth.training.reader import read_config
    from seqsmooth.training.runs import resume_run

    folders, jobs = [], list[FleetJob]()
    for seed in range(given.seeds):
        for loss in LOSSES:
            folder = given.out / "runs" / loss / str(seed)
            values = {"seed": str(seed), "data.folder": str(corpus.folder), "trainer.progress": "false"}
            values |= {} if given.epochs is None else {"trainer.max_epochs": str(given.epochs)}
            folders.append(folder)
            # A run of another config is refused before anything is trained.
            run = resume_run(folder, read_config("configs/demo", list(values.items()), loss=loss), corpus)
            if run is not None and run.finished:
                continue
            words = [word for key, value in values.items() for word in (f"--{key}", value)]
            words += ["--decode", "test", "--metrics", ",".join(TASKS[corpus.task].quick), "--observe"]
            jobs.append(FleetJob(folder, ("train", "configs/demo", "--loss", loss, "--run", str(folder), *words)))
    known = f" ({len(folders) - len(jobs)} are there)" if len(jobs) < len(folders) else ""
    several = at_once(len(jobs)) if given.jobs is None else given.jobs
    with stage(f"train {len(folders)} captioners{known}, {several} at a time") as show:

        def watch(running: Sequence[FleetJob], waiting: Sequence[FleetJob]) -> None:
            if stage.line.rewrites:
                done = sum(_progress(job.folder) for job in running) + len(jobs) - len(waiting) - len(running)
                show(round(1000 * done), 1000 * len(jobs), ", ".join(job.folder.parent.name for job in running))

        # The model is small: two processes with a thread each are faster than two threads.
        failed = run_fleet(jobs, several, threads=1, watch=watch)
    if failed:
        raise ValueError(f"Training failed: {', '.join(str(job.folder) for job in failed)}.")
    return folders


def _progress(folder: Path) -> float:
    """Return the share of a run's epochs that is done."""
    from seqsmooth.training.journal import read_log
    from seqsmooth.training.runs import Run

    if not (folder / "manifest.json").is_file():
        return 0.0
    run = Run.open(folder)
    done = sum(row["split"] == "val" for row in read_log(folder / "log.csv"))
    return 1.0 if run.finished else min(1.0, done / int(run.manifest["config"]["trainer"]["max_epochs"]))


def _decode(corpus: Corpus, folders: Sequence[Path], stage: Stage) -> None:
    from seqsmooth.metrics.tasks import TASKS
    from seqsmooth.training.writing import DecodingOptions, write_split

    with stage("caption scenes that none has seen, and score") as show:
        for number, folder in enumerate(folders, 1):
            options = DecodingOptions((folder,), "test", device="cpu", metrics=TASKS[corpus.task].quick)
            write_split(options, corpus=corpus)
            show(number, len(folders), folder.parent.name)


def _report(given: argparse.Namespace, corpus: Corpus, folders: Sequence[Path], stage: Stage) -> None:
    from seqsmooth.reports import write_report

    sizes = ", ".join(f"{count:,} {name}" for name, count in corpus.splits.items())
    lead = (
        f"Five captioners, alike but for their loss, learned from scenes that seqsmooth draws itself ({sizes}; five "
        f"captions each, {len(corpus.vocabulary)} words). They see the pixels through a fixed encoder, never the "
        "scene's description. A small world: what it shows is how the losses behave, not what they are worth on real "
        "data."
    )
    with stage("tables, curves and the page") as show:
        sections = write_report(
            folders,
            given.out / "report",
            pictures=given.out / "pictures",
            title="seqsmooth demo",
            lead=lead,
            commands=_commands(given),
            progress=lambda what: show(0, 1, what),
        )
    print()
    print("\n\n".join(section.text() for section in sections))
    print()


def _commands(given: argparse.Namespace) -> list[str]:
    """List the commands that do by hand what the demo did."""
    return [
        f"seqsmooth demo --seed {given.seed} --seeds {given.seeds} --scenes {given.scenes}",
        "",
        "# the same, stage by stage, after the corpus is there:",
        *(f"seqsmooth train demo --loss {loss}" for loss in LOSSES),
        "seqsmooth decode runs/demo/mle/0    # and the others",
        "seqsmooth report runs/demo --out report",
    ]
