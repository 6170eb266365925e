from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks import claims, page, run, warm
from benchmarks.__main__ import main
from benchmarks.harness import Contest
from benchmarks.records import Spread, TimingReport, TimingRow, TimingTable

UNKNOWN_SHAPE = "`shapes` must be one of 'a', 'b', 'c', 'd', 'captions', 'sentences', 'llm', 'tiny'; it is 'z'."
TINY = ["--shapes", "tiny", "--dtype", "fp32", "--seconds", "0.01"]


def test_a_benchmark_prints_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loss.json"
    options = ["--only", "^Tok top-64$", "--device", "cpu", "--threads", "1", "--path", "torch", "--commit", "abc"]
    assert main(["loss", *TINY, *options, "--json", str(path)]) == 0
    printed = capsys.readouterr()
    held = TimingReport.load(path)
    (table,) = held.tables
    assert [row.name for row in table.rows] == ["MLE (torch)", "Tok top-64 (torch)", "F.cross_entropy"]
    assert held.machine["commit"] == "abc"
    assert "Tok top-64" in printed.out
    assert "done" in printed.err
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().out == printed.out


def test_all_writes_a_file_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_parts", lambda name, settings: [])
    assert main(["all", "--folder", str(tmp_path), "--skip", "step,rewards", "--seconds", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head.json", "loss.json", "sampler.json"]


def test_a_table_that_fails_is_told_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(contest: Contest) -> TimingTable:
        raise torch.OutOfMemoryError("no memory left")

    def works(contest: Contest) -> TimingTable:
        return TimingTable("a good one", {}, (TimingRow("one", True),))

    monkeypatch.setattr(run, "_parts", lambda name, settings: [("one", fails), ("two", works)])
    path = tmp_path / "loss.json"
    assert main(["loss", "--device", "cpu", "--threads", "1", "2", "--json", str(path)]) == 1
    why = "OutOfMemoryError: no memory left"
    assert TimingReport.load(path).failures == {"one, 1 thread": why, "one, 2 threads": why}
    printed = capsys.readouterr().out
    assert printed.count("a good one") == 2
    assert "one, 2 threads: failed: OutOfMemoryError: no memory left" in printed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["loss", "--seconds", "0"], "`seconds` must be greater than 0; it is 0.0."),
        (["loss", "--dtype", "int8"], "`dtype` must be one of 'bf16', 'fp16', 'fp32', 'fp64'; it is 'int8'."),
        (["loss", "--device", "tpu"], "`device` must be one of 'cpu', 'cuda'; it is 'tpu'."),
        (["head", "--shapes", "z"], UNKNOWN_SHAPE),
        (["loss", "--json", "none/x.json"], "`json` must be in a folder that is there; it is none/x.json."),
        (["loss", "--threads", "0"], "`threads` must be 1 or more; it is 0."),
        (["loss", "--path", "triton"], "`path` must be one of 'torch', 'native'; it is 'triton'."),
        (["warm", "--workers", "0"], "`workers` must be 1 or more; it is 0."),
        (["warm", "--shapes", "z"], UNKNOWN_SHAPE),
        (
            ["claims", "none.json"],
            "`file` must be a file written by `python -m benchmarks ... --json`, "
            "but none.json cannot be read: No such file or directory.",
        ),
        (["all", "--folder", "none"], "`folder` must be a folder that is there; it is none."),
    ],
)
def test_a_wrong_option_is_one_sentence(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*options]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"benchmarks: error: {sentence}"


def test_a_page_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"{page.BEGIN}\n{page.END}\n")
    assert main(["page", str(path)]) == 0
    assert page.NOTHING in path.read_text()


def test_a_page_that_is_not_there_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", str(tmp_path / "none.md")]) == 2
    assert "`page` must be a file that is there" in capsys.readouterr().err


def test_claims_are_printed_and_the_exit_status_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = (claim for claim in claims.CLAIMS if claim.says == "Step of Top-Down: MLE")
    monkeypatch.setattr(claims, "CLAIMS", (first,))
    for took, status, verdict in ((2.9, 0, "held"), (3.1, 1, "not held"), (None, 1, "not measured")):
        row = TimingRow("mle", True, graph=None if took is None else Spread(took, took, took, 9))
        table = TimingTable("x", {"name": "top_down", "precision": "bf16"}, (row,))
        TimingReport("step", {"device": "NVIDIA H200"}, (table,)).save(tmp_path / "step.json")
        assert main(["claims", str(tmp_path / "step.json")]) == status
        printed = capsys.readouterr().out.splitlines()
        assert printed[1].startswith("Step of Top-Down: MLE  <= 3 ms")
        assert printed[1].endswith(f"  {verdict}")


def test_warming_is_a_process_for_each_shape() -> None:
    listed = warm.tasks(["loss", "head", "step"], ["a", "d"], ["--dtype", "fp32"])
    assert [task.name for task in listed] == ["loss d", "head d", "loss a", "head a", "step"]
    assert listed[0].words == ("loss", "--shapes", "d", "--dtype", "fp32")
    assert listed[-1].words == ("step", "--dtype", "fp32")


def test_warming_runs_no_more_at_a_time_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each process leaves the times of its beginning and its end.
    code = (
        "import sys, time, pathlib; name, status = sys.argv[1:3]; start = time.time(); time.sleep(0.2); "
        f"pathlib.Path({str(tmp_path)!r}, name).write_text(f'{{start}} {{time.time()}}'); sys.exit(int(status))"
    )
    monkeypatch.setattr(warm, "COMMAND", (sys.executable, "-c", code))
    given = [warm.Task(str(number), (str(number), str(number % 2))) for number in range(4)]
    ended = {done.name: done for done in warm.run(given, 2)}
    assert {name: done.status for name, done in ended.items()} == {"0": 0, "1": 1, "2": 0, "3": 1}
    assert all(done.seconds >= 0.2 for done in ended.values())
    assert str(ended["1"]).startswith("1: failed with exit status 1 after ")
    spans = [tuple(map(float, path.read_text().split())) for path in tmp_path.iterdir()]
    moments = [start for start, _ in spans]
    assert max(sum(start <= moment < end for start, end in spans) for moment in moments) <= 2


@pytest.mark.slow
def test_warming_runs_the_benchmarks_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--only", "^Seq lazy, L=5$", "--device", "cpu", "--skip", "head,rewards,sampler,step"]
    began = time.monotonic()
    assert main(["warm", "--shapes", "tiny", *options]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "1 of 1: loss tiny: done after " in line
    assert main(["warm", "--shapes", "tiny", *options[2:], "--only", "nobody"]) == 1
    assert "failed with exit status 2" in capsys.readouterr().out
    assert time.monotonic() - began < 120


def test_progress_is_one_line_on_a_terminal_and_sparse_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, lines in ((Terminal(), 1), (io.StringIO(), 2)):
        monkeypatch.setattr("sys.stderr", stream)
        say = run.progress()
        for message in ("one", "two", "three", run.DONE):
            say(message)
        assert stream.getvalue().count("\n") == lines
        assert run.DONE in stream.getvalue()
        assert ("\r" in stream.getvalue()) == (lines == 1)


def test_the_report_is_json_for_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_parts", lambda name, settings: [])
    path = tmp_path / "x.json"
    assert main(["sampler", "--json", str(path)]) == 0
    assert json.loads(path.read_text())["benchmark"] == "sampler"
