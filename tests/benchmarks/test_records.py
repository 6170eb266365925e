from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.records import Spread, TimingReport, TimingRow, TimingTable

REPORT = TimingReport(
    "loss",
    {"device": "a machine"},
    (
        TimingTable(
            "a table",
            {"N": 3, "name": "a"},
            (
                TimingRow("MLE", True, "MLE", Spread(1.0, 2.0, 3.0, 7), None, {"graph": "it waits"}, 5, {"loss": 1e-7}),
                TimingRow("peer", False, graph=Spread(1.0, 1.0, 1.0, 1), items=50),
                TimingRow(
                    "on a CPU",
                    True,
                    cpu=Spread(1.0, 2.0, 3.0, 7),
                    wall=Spread(2.0, 3.0, 4.0, 7),
                    over_ours={"cpu": Spread(0.1, 0.2, 0.3, 7)},
                    over_peer={"wall": Spread(0.4, 0.5, 0.6, 7)},
                    system_share=0.25,
                ),
            ),
            peer="peer",
        ),
    ),
    {"d": "no memory"},
)


def test_quartiles() -> None:
    spread = Spread.of([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (spread.q1, spread.median, spread.q3, spread.repeats) == (2.0, 3.0, 4.0, 5)
    assert spread.width == pytest.approx(2 / 3)


def test_one_time_is_its_own_quartiles() -> None:
    assert Spread.of([2.5]) == Spread(2.5, 2.5, 2.5, 1)


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    REPORT.save(tmp_path / "report.json")
    assert TimingReport.load(tmp_path / "report.json") == REPORT
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_of_a_gpu_may_be_older_than_what_is_kept_of_a_cpu(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    REPORT.save(path)
    held = json.loads(path.read_text())
    for row in held["tables"][0]["rows"]:
        for name in ("cpu", "wall", "over_ours", "over_peer", "system_share"):
            del row[name]
    path.write_text(json.dumps(held))
    assert TimingReport.load(path).tables[0].rows[:2] == REPORT.tables[0].rows[:2]


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    REPORT.save(path)
    broken = TimingReport("loss", {"rate": float("nan")}, ())
    with pytest.raises(ValueError, match="JSON"):
        broken.save(path)
    assert TimingReport.load(path) == REPORT
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": "another"}', '{"kind": "seqsmooth benchmark 1"}'])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="`file` must be a file written by `python -m benchmarks"):
        TimingReport.load(path)


def test_a_row_with_a_part_missing_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    REPORT.save(path)
    held = json.loads(path.read_text())
    del held["tables"][0]["rows"][0]["eager"]["median"]
    path.write_text(json.dumps(held))
    with pytest.raises(ValueError, match="damaged"):
        TimingReport.load(path)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        TimingReport.load(tmp_path / "none.json")


def test_the_best_time_is_that_of_the_graph() -> None:
    eager, graph = Spread.of([2.0]), Spread.of([1.0])
    assert TimingRow("x", True, eager=eager, graph=graph).best() == graph
    assert TimingRow("x", True, eager=eager).best() == eager
    assert TimingRow("x", True).best() is None
