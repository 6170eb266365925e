"""Help, lists and mistakes are answered without torch, whose import takes longer than all the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import seqsmooth
from seqsmooth.cli.main import VERBS

RUN = """
import json, sys
sys.modules["torch"] = None  # now nobody can import it
from seqsmooth.cli.main import main
for words in json.loads(sys.argv[1]):
    try:
        status = main(words)
    except SystemExit as stopped:
        status = stopped.code
    heavy = [name for name in ("pytorch_lightning", "sacrebleu", "sacremoses", "PIL", "jinja2") if name in sys.modules]
    print(f"=={status}", *heavy, flush=True)
    print("==", end="", file=sys.stderr, flush=True)
"""
MODEL = ["--data.folder", "nowhere"]
LISTS = [["--help"], *([verb, "--help"] for verb in VERBS), ["train", "--list"], ["train", "coco/stage_one", "--list"]]
PRINTED = [
    ["train", "demo", "--loss", "tok_seq", "--print_config"],
    ["train", "multi30k", "--loss", "mle", "--print_config", "--optimizer.lr", "0.1"],
    ["train", "coco/stage_one", "--sweep", "main", "--print_config"],
]
MISTAKES = [
    (["trian"], "did you mean train?"),
    (["demo", "--scense", "3"], "did you mean --scenes?"),
    (["train", "demo", "--lr", "3"], "did you mean --optimizer.lr"),
    (["train", "demo"], "A run of demo needs one of its 5 losses"),
    (["train", "demo", "--loss", "tok_sq"], "There is no loss `tok_sq` in demo; the nearest is `tok_seq`."),
    (["train", "nothing.yaml"], "`config` names nothing.yaml"),
    (["train", "demo", "--sweep", "dmeo"], "There is no sweep `dmeo` in demo"),
    (["train", "demo", "--loss", "mle", "--trainer.epochs", "3"], "There is no key `trainer.epochs` in a config"),
    (["train", "demo", "--loss", "tok", "--objective.token.taus", "3"], "the nearest is `objective.token.tau`"),
    (
        ["train", "demo", "--loss", "tok", "--objective.token.mode", "k"],
        "`objective.token.mode` must be one of 'dense'",
    ),
    (["train", "demo", "--loss", "mle", "--model.kind", "show"], "`model.kind` must be one of `show_tell`, `top_down`"),
    (["train", "demo", "--loss", "mle", "--trainer.max_epochs", "x"], "`trainer.max_epochs` must be a whole number"),
    (["train", "demo", "--loss", "mle", *MODEL], "`data.folder` must be what `seqsmooth prepare` wrote"),
    (["train", "demo", "--loss", "mle", "--decode", "val", "--metrics", "ber"], "`metrics` must be one of 'bleu-1'"),
    (["decode", "nowhere"], "`run` must be the folder of a run of `seqsmooth train`; it is nowhere."),
    (["decode", "nowhere", "--metrics", "ber"], "`metrics` must be one of 'bleu-1'"),
    (["score", "nothing.json", "nothing.txt"], "`references` must be a file that is there; it is nothing.txt."),
    (["score", "nothing.json", "here.txt"], "`hypotheses` must be a file that is there; it is nothing.json."),
    (["score", "here.txt", "here.txt", "--metrics", "ber"], "`metrics` must be one of 'bleu-1'"),
    (["report", "nowhere", "--out", "x"], "`run` must be the folder of a run of `seqsmooth train`; it is nowhere."),
    (["report", "record", "nowhere", "--out", "x"], "`run` must be the folder of a run"),
    (["report", "results", "nowhere", "--out", "x.md"], "`results` must be a folder of records"),
    (["report", "choose", "demo/nothing"], "There is no sweep `nothing` in demo"),
    (["prepare", "captions", "nothing.json", "out"], "`captions` must be a file that is there; it is nothing.json."),
    (["prepare", "captions", "here.txt", "out", "--features", "no.npy"], "no.npy, which is not there."),
    (["prepare", "captions", "here.txt", "."], "`out` must be a folder that is not there yet, but . is."),
    (["prepare", "pairs", "out", "--train", "no.de", "no.en"], "`train` must be a file that is there; it is no.de."),
    (["prepare", "multi30k", "out", "--source", "nowhere"], "`source` must be a folder that is there; it is nowhere."),
    (["prepare", "features", "nowhere", "out"], "`images` must be a folder that is there; it is nowhere."),
    (["glove", "nothing.txt", "--out", "v.txt"], "`corpus` must be a file that is there; it is nothing.txt."),
    (["glove", "here.txt", "--out", "nowhere/v.txt"], "`out` must be in a folder that is there; it is nowhere/v.txt."),
    (["conformance"], "Give either a LOSS (MODULE:NAME) or --known."),
    (["conformance", "a:b", "--page", "nothing.md"], "`page` must be a file that is there; it is nothing.md."),
    (["demo", "--scenes", "0"], "`scenes` must be 1 or more; it is 0."),
]


def answers(commands: list[list[str]], folder: Path) -> list[tuple[str, str, str]]:
    """The status, the output and the errors of each command, in one process that cannot import torch."""
    source = str(Path(seqsmooth.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "COLUMNS": "80"}
    (folder / "here.txt").write_text("a dog\n")
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(commands)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    statuses = [line[2:] for line in done.stdout.splitlines() if line.startswith("==")]
    errors = done.stderr.split("==")[:-1]
    assert len(statuses) == len(errors) == len(commands)
    return [(status, done.stdout, error) for status, error in zip(statuses, errors, strict=True)]


def test_help_and_lists(tmp_path: Path) -> None:
    for words, (status, output, error) in zip(LISTS, answers(LISTS, tmp_path), strict=True):
        assert (status, error) == ("0", ""), (words, error)
        assert f"usage: seqsmooth{' ' if words[0] == '--help' else f' {words[0]}'}" in output


def test_printed_configs(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    given = answers(PRINTED, tmp_path)
    for words, (status, _, error) in zip(PRINTED, given, strict=True):
        assert (status, error) == ("0", ""), (words, error)
    output = given[-1][1]
    assert "kind: similarity" in output
    assert "lr: 0.1" in output


def test_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    given = answers([words for words, _ in MISTAKES], tmp_path)
    for (words, sentence), (status, _, error) in zip(MISTAKES, given, strict=True):
        assert sentence in error, (words, error)
        assert status == "2", words


def test_the_way_to_see_it_works(tmp_path: Path) -> None:
    """What does need torch fails here."""
    with pytest.raises(AssertionError, match="torch"):
        answers([["glove", "here.txt", "--out", "vectors.txt"]], tmp_path)
