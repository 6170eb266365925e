"""Compare the training loss and the weights before and after stage two.

python -m benchmarks.stage_two runs/flickr8k/few/*/0 --json stage_two.json

The runs are those of the base `flickr8k/few`, or others in which stage two begins with a run of stage one that is
named, too. Losses "before" and "after" are means over all tokens of the training split, without dropout: with the
weights that a run began with (the best of stage one) and with its last. Weights are compared bit for bit with those it
began with.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.models import build_encoder
from seqsmooth.ops import checks
from seqsmooth.training.build import Builder
from seqsmooth.training.config import plain
from seqsmooth.training.runs import Run, load_model

KIND = "seqsmooth stage two 1"
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
NORMALISING = ("BatchNorm, statistics", "BatchNorm, scale and shift")


def part_of(name: str, normalising: set[str]) -> str:
    """Where a tensor of a captioner belongs; `normalising` are the modules with BatchNorm's statistics."""
    module, _, kind = name.rpartition(".")
    if not name.startswith("encoder."):
        return "decoder"
    if module in normalising:
        return NORMALISING[kind not in STATISTICS]
    number = re.search(r"\.(\d+)\.", name)  # of the outermost list of blocks
    return f"convolutions, block {number[1]}" if number else f"convolutions, {module.rpartition('.')[2].strip('_')}"


def compare_weights(
    before: Mapping[str, Tensor],  # any shapes, by name
    after: Mapping[str, Tensor],  # the same names and shapes
) -> list[dict[str, Any]]:
    """By part: how many tensors, how many of them are not the same bits, and the norm of the change over their norm."""
    if before.keys() != after.keys():
        raise ValueError(f"Both must have the same tensors, but differ in {sorted(before.keys() ^ after.keys())[:3]}.")
    normalising = {name.rpartition(".")[0] for name in before if name.endswith(".running_mean")}
    parts: dict[str, list[str]] = {}
    for name in sorted(before, key=_natural):
        parts.setdefault(part_of(name, normalising), []).append(name)
    return [
        {
            "part": part,
            "tensors": len(names),
            "changed": sum(not torch.equal(_bits(before[name]), _bits(after[name])) for name in names),
            "relative": round(_relative([before[name] for name in names], [after[name] for name in names]), 6),
        }
        for part, names in parts.items()
    ]


def begun_with(run: Run, first: Run) -> dict[str, Tensor]:
    """The weights of stage two before its first step: the encoder as its package has it, the best of stage one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.seed)  # for an encoder that is drawn, which the model draws first
        encoder = build_encoder(**plain(run.config.model.encoder))
    weights = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    return weights | {f"decoder.{name}": value for name, value in load_file(first.weights("best")).items()}


@torch.no_grad()
def training_loss(run: Run, which: Any) -> tuple[float, float]:
    """The loss of a run and the NLL, a token of its training split, without dropout."""
    model, corpus = load_model(run.folder, which)
    objective, data = Builder(corpus).objective(run.config), run.config.data
    batches = corpus.batches(
        data.train,
        data.batch_size,
        shuffle=False,
        references=data.references,
        captions_per_image=data.captions_per_image,
        max_words=data.max_length,
    )
    generator = torch.Generator().manual_seed(0)  # the same samples for all runs, where there are any
    sums = torch.zeros(3, dtype=torch.float64)
    for batch in batches:
        candidates = objective.propose(batch.targets, references=batch.references, generator=generator)
        hidden = model(batch.inputs, candidates.inputs)
        loss = objective.head(hidden, model.head.weight, candidates, model.head.bias, reduction="sum")
        sums += torch.stack([loss.total.double(), loss.nll.double(), loss.tokens.double()])
    total, nll, tokens = sums.tolist()
    return round(total / tokens, 4), round(nll / tokens, 4)


def describe(run: Run, first: Run | None) -> dict[str, Any]:
    """Return the record of a run; `first` is the stage one that it begins with."""
    epochs = [[row["loss"], row["nll"]] for row in run.log if row["split"] == "train"]
    record = {
        "row": run.manifest["row"],
        "seed": run.config.seed,
        "seconds": round(run.manifest["seconds"]),
        "steps": run.manifest["steps"],
        "epochs": epochs if len(epochs) == run.manifest["epochs"] else [],  # if the log has one row for each
        "validation": [[row["nll"], row["cider"]] for row in run.log if row["split"] == "val"],
        "best": run.manifest["best"],
        "after": training_loss(run, "last"),
    }
    if first is None:
        return record
    moved = compare_weights(begun_with(run, first), load_file(run.weights("last")))
    return record | {"from": first.name, "before": training_loss(first, "best"), "moved": moved}


def table_of_losses(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """In Markdown: a line a run."""
    columns = ["seed", "steps", "seconds", "loss, first epoch", "last epoch", "NLL, last epoch"]
    columns += ["loss before", "after", "NLL before", "after"]
    lines = []
    for record in runs.values():
        epochs = record["epochs"] or [["", ""]]
        (first, _), (last, nll) = epochs[0], epochs[-1]
        sides = zip(record.get("before", ("", "")), record["after"], strict=True)
        losses = [first, last, nll, *(value for pair in sides for value in pair)]
        cells = [value if value == "" else f"{value:.3f}" for value in losses]
        lines.append(_line((record["row"], record["seed"], record["steps"], record["seconds"], *cells)))
    return "\n".join([_line(("run", *columns)), "|---|" + "---:|" * len(columns), *lines])


def table_of_weights(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """In Markdown: a line a run of stage two, a column a part; of convolutions one for neighbours that fared alike."""
    two = [record for record in runs.values() if "moved" in record]
    parts = zip(*(record["moved"] for record in two), strict=True)
    alike = [list(several) for _, several in groupby(parts, _which_changed)]
    names = []
    for several in alike:
        first, last = several[0][0]["part"], several[-1][0]["part"]
        names.append(first if first == last else f"{first} to {last.partition(', ')[2]}")
    cells = [list(map(_share_changed, zip(*several, strict=True))) for several in alike]
    lines = [
        _line((record["row"], record["seed"], *row)) for record, row in zip(two, zip(*cells, strict=True), strict=True)
    ]
    return "\n".join([_line(("run", "seed", *names)), "|---|---:|" + "---|" * len(names), *lines])


def main(words: Sequence[str] | None = None) -> None:
    """Compare, print the tables, and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="of stage one and of stage two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the numbers go")
    given = parser.parse_args(words)
    runs = {folder.resolve(): Run.open(folder) for folder in given.runs}
    records = {}
    for run in runs.values():
        begun = run.config.trainer.start_from
        first = None
        if begun is not None:
            path = Path(begun.replace("{seed}", str(run.config.seed)))
            checks.must(path.resolve() in runs, "runs", f"given with {path}, from which {run.folder} begins", "without")
            first = runs[path.resolve()]
        records[f"{run.name}/{run.config.seed}"] = describe(run, first)
    print(table_of_losses(records), table_of_weights(records), sep="\n\n")
    if given.json is not None:
        with atomic_write_text(given.json) as file:
            file.write(json.dumps({"kind": KIND, "runs": records}, indent=1) + "\n")


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _which_changed(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[bool]]:
    part = rows[0]["part"]
    return part.partition(",")[0] if part.startswith("conv") else part, [row["changed"] > 0 for row in rows]


def _share_changed(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how many tensors of some parts changed, and how much."""
    changed, tensors = (sum(row[key] for row in rows) for key in ("changed", "tensors"))
    ends = sorted({f"{100 * value:.1f}" for value in (min(_by(rows)), max(_by(rows)))}, key=float)
    return f"{changed} of {tensors}" + (f", by {' to '.join(ends)} %" if changed else "")


def _by(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    return [row["relative"] for row in rows]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers by their size."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in name.split(".")]


def _bits(value: Tensor) -> Tensor:  # any shape; (n,) bytes
    return value.contiguous().reshape(-1).view(torch.uint8)


def _relative(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """The norm of all changes over the norm of all that was."""
    pairs = [(old.double(), new.double()) for old, new in zip(before, after, strict=True)]
    moved = sum(float((new - old).square().sum()) for old, new in pairs)
    was = sum(float(old.square().sum()) for old, _ in pairs)
    return (moved / was) ** 0.5


if __name__ == "__main__":
    main()
