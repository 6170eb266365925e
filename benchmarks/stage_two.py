"""What a run of stage two changed: the training loss, and which weights.

PYTHONPATH=src python benchmarks/stage_two.py runs/flickr8k/few/*/0 --json stage_two.json

The runs are those of `configs/flickr8k/few`, or others in which stage two begins with a run of stage one that is named,
too. Losses are means over all tokens of the training split, without dropout: of stage one with the weights that stage
two begins with, of stage two with its last. Weights are compared bit for bit with those that the run began with.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from seqsmooth.models import build_encoder
from seqsmooth.ops.files import text_written_whole
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
            "relative": (
                _norm([after[name] - before[name] for name in names]) / _norm([before[name] for name in names])
            ),
        }
        for part, names in parts.items()
    ]


def begun_with(run: Run, first: Run) -> dict[str, Tensor]:
    """The weights of stage two before its first step: the encoder as its package has it, the best of stage one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.seed)  # for an encoder that is drawn, which the model draws first
        encoder = build_encoder(**plain(run.config.model.encoder))
    held = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    return held | {f"decoder.{name}": value for name, value in load_file(first.weights("best")).items()}


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
        max_length=data.max_length,
    )
    generator = torch.Generator().manual_seed(0)  # the same samples for all runs, where there are any
    sums = torch.zeros(3, dtype=torch.float64)
    for batch in batches:
        candidates = objective.propose(batch.targets, references=batch.references, generator=generator)
        hidden = model(batch.inputs, candidates.inputs)
        loss = objective.head(hidden, model.head.weight, candidates, model.head.bias, reduction="sum")
        sums += torch.stack([loss.total.double(), loss.nll.double(), loss.tokens.double()])
    total, nll, tokens = sums.tolist()
    return total / tokens, nll / tokens


def describe(run: Run, first: Run | None) -> dict[str, Any]:
    """What is told of a run; `first` is the stage one that it begins with."""
    loss, nll = training_loss(run, "best" if first is None else "last")
    told = {
        "row": run.manifest["row"],
        "seconds": round(run.manifest["seconds"]),
        "steps": run.manifest["steps"],
        "loss": round(loss, 4),
        "nll": round(nll, 4),
        "epochs": [[row["loss"], row["nll"]] for row in run.log if row["split"] == "train"],
        "validation": [[row["nll"], row["cider"]] for row in run.log if row["split"] == "val"],
        "best": run.manifest["best"],
    }
    if first is None:
        return told
    moved = compare_weights(begun_with(run, first), load_file(run.weights("last")))
    return told | {"from": first.name, "moved": moved}


def table_of_losses(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """In Markdown: a line a run."""
    columns = ("steps", "seconds", "loss, first epoch", "last epoch", "NLL, last epoch", "loss, no dropout", "NLL")
    lines = [" | ".join(["| run", *columns]) + " |", "|---|" + "---:|" * len(columns)]
    for told in runs.values():
        (first, _), (last, nll) = told["epochs"][0], told["epochs"][-1]
        cells = (first, last, nll, told["loss"], told["nll"])
        lines.append(
            " | ".join([f"| {told['row']}", str(told["steps"]), str(told["seconds"]), *(f"{x:.3f}" for x in cells)])
            + " |"
        )
    return "\n".join(lines)


def table_of_weights(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """In Markdown: a line a part of the model, two columns a run of stage two."""
    two = [told for told in runs.values() if "moved" in told]
    lines = ["| part | tensors | " + " | ".join(told["row"] for told in two) + " |", "|---|" + "---:|" * (1 + len(two))]
    for rows in zip(*(told["moved"] for told in two), strict=True):
        changed = [f"{row['changed']} ({100 * row['relative']:.1f} %)" if row["changed"] else "0" for row in rows]
        lines.append(f"| {rows[0]['part']} | {rows[0]['tensors']} | {' | '.join(changed)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Compare, print the tables, and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="of stage one and of stage two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the numbers go")
    given = parser.parse_args(words)
    runs = {folder.resolve(): Run.open(folder) for folder in given.runs}
    told = {}
    for run in runs.values():
        begun = run.config.trainer.start_from
        first = None if begun is None else runs[Path(begun.replace("{seed}", str(run.config.seed))).resolve()]
        told[run.name] = describe(run, first)
    print(table_of_losses(told), table_of_weights(told), sep="\n\n")
    if given.json is not None:
        with text_written_whole(given.json) as file:
            file.write(json.dumps({"kind": KIND, "runs": told}, indent=1) + "\n")


def _natural(name: str) -> list[tuple[int, str]]:
    """For sorting: numbers by their size."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in name.split(".")]


def _bits(value: Tensor) -> Tensor:  # any shape; (n,) bytes
    return value.contiguous().reshape(-1).view(torch.uint8)


def _norm(values: list[Tensor]) -> float:
    return sum(float(value.double().square().sum()) for value in values) ** 0.5


if __name__ == "__main__":
    main()
