"""The best point of a grid, by validation alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seqsmooth.cli.main import main
from seqsmooth.reports.choices import choose
from seqsmooth.training.config import plain
from seqsmooth.training.reader import parse_config
from seqsmooth.training.runs import KIND
from seqsmooth.training.sweep import Planned

TAU = "objective.sequence.tau"


def planned(
    folder: Path, tau: float, seed: int, value: float | None, *, config: str = "seq", metric: str = "cider"
) -> Planned:
    """A run of a grid that reached a value; one that is not finished for None."""
    run = folder / config / f"tau={tau}" / str(seed)
    run.mkdir(parents=True)
    best = {"metric": metric, "value": value, "epoch": 3} if value is not None else None
    law = {"sequence": {"kind": "hamming", "tau": tau}}
    values = {"name": f"{config}/tau={tau}", "row": f"(tau {tau})", "seed": seed, "objective": law}
    made = parse_config(values | {"data": {"folder": "x"}, "model": {"kind": "show_tell"}})
    held = {"kind": KIND, "name": config, "finished": value is not None, "best": best, "config": plain(made)}
    (run / "manifest.json").write_text(json.dumps(held), encoding="utf-8")
    return Planned(Path(f"/configs/{config}.yaml"), seed, run, (), made, {TAU: tau})


def test_the_best_is_that_of_the_mean_over_seeds_among_finished_points(tmp_path: Path) -> None:
    grid = [(0.1, 0, 80.0), (0.2, 0, 79.0), (0.3, 0, 99.0), (0.1, 1, 70.0), (0.2, 1, 79.5), (0.3, 1, None)]
    choice = choose([planned(tmp_path, *point) for point in grid])
    assert choice.metric == "cider"
    assert [point.score for point in choice.points] == [75.0, 79.25, None]
    assert choice.best["seq"].values == {TAU: 0.2}
    assert choice.points[2].unfinished == (1,)
    lines = choice.text().splitlines()
    assert lines[0].split() == ["config", "tau", "cider", "epoch"]
    assert lines[1].split() == ["seq", "0.1", "75.00", "3,", "3"]
    assert lines[2].split() == ["seq", "0.2", "79.25", "3,", "3", "best"]
    assert lines[3].endswith("unfinished: seed 1")
    record = choice.record()
    assert [point["best"] for point in record["points"]] == [False, True, False]
    assert record["points"][0]["scores"] == {"0": 80.0, "1": 70.0}


def test_each_config_has_a_best_of_its_own(tmp_path: Path) -> None:
    several = [planned(tmp_path, 0.1, 0, 5.0, config="a/seq"), planned(tmp_path, 0.1, 0, 1.0, config="b/seq")]
    several += [planned(tmp_path, 0.2, 0, 4.0, config="a/seq"), planned(tmp_path, 0.2, 0, 2.0, config="b/seq")]
    best = choose(several).best
    assert {name: point.values[TAU] for name, point in best.items()} == {"a/seq": 0.1, "b/seq": 0.2}


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`sweep` must be one with finished runs"):
        choose([planned(tmp_path, 0.1, 0, None)])
    mixed = [planned(tmp_path, 0.2, 0, 1.0), planned(tmp_path, 0.3, 0, 1.0, metric="bleu-4")]
    with pytest.raises(ValueError, match="`runs` must be all chosen by one metric; it is cider and bleu-4"):
        choose(mixed)


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    law = "objective: {sequence: {kind: hamming, tau: 1}}"
    (tmp_path / "seq.yaml").write_text(f"data: {{folder: x}}\nmodel: {{kind: show_tell}}\n{law}\n", encoding="utf-8")
    (tmp_path / "grid.sweep.yaml").write_text(f"configs: [seq.yaml]\ngrid: {{{TAU}: [0.1, 0.2]}}\n", encoding="utf-8")
    assert main(["report", "choose", "grid.sweep.yaml"]) == 2
    assert "`sweep` must be one with finished runs" in capsys.readouterr().err
    planned(tmp_path / "runs", 0.1, 0, 12.5)
    assert main(["report", "choose", "grid.sweep.yaml", "--out", "choice.json"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split() == ["seq", "0.1", "12.50", "3", "best"]
    assert printed[2].endswith("unfinished: seed 0")
    held = json.loads((tmp_path / "choice.json").read_text(encoding="utf-8"))
    assert (held["sweep"], held["metric"]) == ("grid.sweep.yaml", "cider")
    assert [point["values"] for point in held["points"]] == [{TAU: 0.1}, {TAU: 0.2}]
    assert main(["report", "choose", "grid.sweep.yaml", "--out", "choice.json"]) == 0, "again"
    assert main(["report", "choose", "nothing.sweep.yaml"]) == 2
    assert main(["report", "choose", "grid.sweep.yaml", "--out", "seq.yaml"]) == 2
    assert "`out` must be a new file, or one of `seqsmooth report choose`" in capsys.readouterr().err
    assert "show_tell" in (tmp_path / "seq.yaml").read_text(encoding="utf-8")


def test_runs_of_another_config_are_not_taken_for_those_of_the_sweep(tmp_path: Path) -> None:
    made = planned(tmp_path, 0.1, 0, 12.5)
    edited = replace(made, config=replace(made.config, trainer=replace(made.config.trainer, max_epochs=99)))
    with pytest.raises(ValueError, match=r"must be of this sweep as it is now.* other values of `trainer\.max_epochs`"):
        choose([edited])
    moved = replace(made, config=replace(made.config, data=replace(made.config.data, folder="elsewhere")))
    assert choose([moved]).points[0].score == 12.5, "a corpus may move"


def test_of_equal_points_the_first_is_the_best_and_the_others_are_told(tmp_path: Path) -> None:
    choice = choose([planned(tmp_path, tau, 0, score) for tau, score in ((0.1, 5.0), (0.2, 7.0), (0.3, 7.0))])
    assert choice.best["seq"].values == {TAU: 0.2}
    assert [line.split("3")[-1].strip() for line in choice.text().splitlines()[1:]] == ["", "best", "as good"]


def test_a_score_that_is_no_number_never_wins(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tau=0\.1/0` must be a run with a finite score; it is one with nan"):
        choose([planned(tmp_path, 0.1, 0, float("nan")), planned(tmp_path, 0.2, 0, 5.0)])


def test_files_that_are_called_alike_are_told_apart_by_the_names_of_their_runs(tmp_path: Path) -> None:
    several = [planned(tmp_path, 0.1, 0, 5.0, config="a/seq"), planned(tmp_path, 0.1, 0, 1.0, config="b/seq")]
    several = [replace(each, file=Path("/elsewhere", each.file.parent.name, "seq.yaml")) for each in several]
    assert {name: point.score for name, point in choose(several).best.items()} == {"a/seq": 5.0, "b/seq": 1.0}
