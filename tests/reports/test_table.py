from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.made_records import ITEMS, record
from seqsmooth.reports.charts import Chart, Interval, Series, forest, forests, room_for, ticks
from seqsmooth.reports.losses import LossName, name_loss
from seqsmooth.reports.rows import Row, Table
from seqsmooth.reports.table import TableCell, latex, markdown, plain

REFS = {"kind": "hamming", "pool": "refs"}
CIDER = {"kind": "rewarded", "reward": {"kind": "cider"}, "proposal": REFS}
GLOVE = {"kind": "similarity", "beta": 0.0}


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        ({}, ("MLE", "", "")),
        ({"entropy": 0.1}, ("MLE + gamma H", "", "")),
        ({"token": {"kind": "uniform"}}, ("Label smoothing", "", "")),
        ({"token": GLOVE}, ("Tok", "GloVe sim", "")),
        ({"token": GLOVE | {"beta": 0.2}}, ("Tok", "GloVe sim r^freq", "")),
        ({"sequence": REFS, "lazy": True}, ("Seq, lazy", "Hamming", "V_refs")),
        ({"sequence": {"kind": "hamming"}, "lazy": False}, ("Seq", "Hamming", "V")),
        ({"sequence": CIDER, "token": GLOVE, "lazy": False}, ("Tok-Seq", "CIDEr", "V_refs")),
    ],
)
def test_losses_are_named_as_in_the_paper(objective: dict[str, object], name: tuple[str, str, str]) -> None:
    assert name_loss(objective) == LossName(*name)


def rows(label: str, values: tuple[float, ...], **config: object) -> Row:
    """A row whose seeds have these scores, alike on all items but for a little."""
    around = np.linspace(-1, 1, ITEMS)
    made = [record(label, seed, value + around) for seed, value in enumerate(values)]
    facts = [one.facts | {"config": one.facts["config"] | config} for one in made]
    return Row.of(label, [replace(one, facts=each) for one, each in zip(made, facts, strict=True)])


SEQ = {"objective": {"sequence": REFS, "lazy": False}}


def table(values: tuple[float, ...], baseline: tuple[float, ...] = (60.0, 61.0, 62.0), name: str = "Scenes") -> Table:
    return Table(name, "test", (rows("MLE", baseline), rows("Seq", values, **SEQ)))


SURE, UNSURE, ALONE = (71.0, 72.0, 73.0), (60.0, 61.5, 63.0), (72.0,)


def test_markdown_has_mean_spread_and_both_intervals() -> None:
    told = markdown(table(SURE), ["cider"])
    assert "| MLE |  |  | 61.0 ± 1.0 |" in told
    assert "| Seq | Hamming | V_refs | **72.0 ± 1.0†** |" in told
    difference = table(SURE).difference("cider", "Seq")
    assert difference is not None
    assert difference.trainings is not None
    low, high = difference.trainings
    assert 0 < low < 11 < high
    line = f"| Seq | **+11.00** [+11.00, +11.00] | [{low:+.2f}, {high:+.2f}] |"
    assert line in told.replace("\u00a0", " ")
    assert "†" not in markdown(table(UNSURE), ["cider"]).split("Scores in points")[0]


def test_what_items_alone_say_has_another_mark() -> None:
    told = markdown(table(ALONE), ["cider"])
    assert "| Seq | Hamming | V_refs | **72.0‡** |" in told
    assert "| Seq | *+11.00* [+11.00, +11.00] |  |" in told.replace("\u00a0", " ")
    assert plain(table(ALONE), ["cider"]).splitlines()[4].split() == ["Seq", "72.0‡*"]


def test_one_seed_has_no_spread() -> None:
    cell = TableCell((3.0,))
    assert cell.spread is None
    assert "±" not in plain(Table("", "test", (rows("MLE", (3.0,)),)), ["cider"])


@pytest.mark.parametrize("values", [SURE, UNSURE, ALONE])
def test_latex_is_balanced(values: tuple[float, ...]) -> None:
    told = latex(table(values), ["cider"])
    depth = 0
    for sign in re.findall(r"(?<!\\)[{}]", told):
        depth += 1 if sign == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert told.count("$") % 2 == 0
    assert told.count(r"\toprule") == told.count(r"\bottomrule") == 1
    lines = [line for line in told.splitlines() if line.endswith(r"\\")]
    assert [line.count("&") for line in lines] == [3, 3, 3]
    assert "_{refs}" in told
    assert told.count(r"\dagger") == (2 if values is SURE else 1)
    assert told.count(r"\ddagger") == (2 if values is ALONE else 1)
    assert told.count(r"\scriptsize") == (2 if len(values) > 1 else 1)
    assert re.search(r"(?<!\\)_(?!\{)", told) is None, "a bare underscore is an error in LaTeX"


def test_the_terminal_table_has_columns() -> None:
    lines = plain(table(SURE), ["cider"], {"Seq": {"NLL": "2.500"}}).splitlines()
    assert lines[0] == "Scenes"
    assert lines[1].split() == ["CIDEr", "NLL"]
    assert lines[4].split() == ["Seq", "72.0", "±", "1.0†*", "2.500"]
    assert len({len(line) for line in lines[1:5]}) == 1


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-3, 1e6))
def test_ticks_cover_their_range_evenly(low: float, span: float) -> None:
    made = ticks(low, low + span)
    assert 2 <= len(made) <= 8
    steps = [later - earlier for earlier, later in pairwise(made)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-4, abs_tol=1e-9) for step in steps)
    assert made[0] <= low + 1e-6 * span
    assert made[-1] >= low + span * (1 - 1e-6)


def test_a_chart_puts_points_where_they_belong() -> None:
    chart = Chart("x", "A & B", "epoch", "score", [Series("one", [(0.0, 0.0), (1.0, 10.0)], number=2)], zero=True)
    drawn = chart.svg()
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)
    across, up = ([float(point[n]) for point in found] for n in (0, 1))
    assert across[0] < across[1]
    assert up[0] > up[1], "more is higher"
    assert 'aria-label="A &amp; B"' in drawn
    assert "<style>" not in drawn
    assert "xmlns" in chart.svg(alone=True)
    assert "one</text>" in chart.svg(alone=True)
    assert Chart("x", "t", "a", "b", []).svg() == ""


def test_a_band_is_around_its_line() -> None:
    line = Series("one", [(0.0, 5.0), (1.0, 6.0)], [4.0, 4.0], [7.0, 7.0], number=0)
    drawn = Chart("x", "t", "a", "b", [line]).svg()
    assert 'class="band"' in drawn
    assert ">4</text>" in drawn
    assert ">7</text>" in drawn


@pytest.mark.parametrize("value", [0.0, 1e-17, -3e-12, 5.0, -1e6])
def test_equal_values_have_an_axis_too(value: float) -> None:
    made = ticks(value, value + 1e-13)
    assert made[0] <= value + 1e-6
    assert made[-1] > made[0]
    assert "NaN" not in forest("t", "difference", [Interval("Tok", value, value, value, 0, "")])
    assert "<path" in Chart("x", "t", "a", "b", [Series("one", [(0.0, value), (1.0, value)], number=0)]).svg()


def test_a_forest_shows_zero_and_every_interval() -> None:
    made = [Interval("Tok", -2.0, -4.0, 0.5, 1, "Tok: -2"), Interval("Seq", 3.0, 1.0, 5.0, 2, "Seq: +3")]
    drawn = forest("t", "difference", made)
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawn)]
    zero = float(re.search(r'class="ideal" x1="([\d.]+)"', drawn)[1])  # type: ignore[index]
    assert places[0] < zero < places[1]
    assert "−" in drawn
    assert "<title>Tok: -2</title>" in drawn


def test_forests_stand_side_by_side_each_with_its_own_axis() -> None:
    one = [Interval("Tok", -2.0, -4.0, 0.5, 1, "Tok: -2"), None]
    other = [Interval("Tok", 0.02, 0.01, 0.03, 2, "Tok"), Interval("Seq", -0.02, -0.03, -0.01, 0, "Seq: -0.02")]
    drawn = forests("t", "difference", ["Tok", "Seq < 2"], {"COCO": one, "Multi30k": other})
    assert re.findall(r'<text class="name"[^>]*>([^<]*)<', drawn) == ["t", "Tok", "Seq &lt; 2", "COCO", "Multi30k"]
    zeros = [float(x) for x in re.findall(r'class="ideal" x1="([\d.]+)"', drawn)]
    marks = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    ends = [float(x) for pair in re.findall(r'x1="([\d.]+)" x2="([\d.]+)"[^>]*stroke=', drawn) for x in pair]
    assert len(zeros) == 2
    assert [y for _, y in marks] == [marks[0][1], marks[0][1], marks[2][1]], "None leaves its row empty"
    assert marks[2][1] > marks[0][1], "the second row is below the first"
    assert room_for(["Tok", "Seq < 2"]) < marks[0][0] < zeros[0] < marks[2][0] < zeros[1] < marks[1][0]
    assert zeros[1] - marks[2][0] == pytest.approx(marks[1][0] - zeros[1], abs=0.2), "as far to both sides"
    width = float(re.search(r' width="(\d+)"', drawn)[1])  # type: ignore[index]
    assert room_for(["Tok", "Seq < 2"]) < min(ends) < max(ends) < width


def test_rows_of_one_loss_are_told_apart_by_their_labels() -> None:
    several = tuple(rows(f"Seq (tau 0.{n})", (float(n),), objective={"sequence": REFS, "lazy": True}) for n in (2, 3))
    table = Table("", "test", (*several, rows("MLE", (1.0,))), baseline="none")
    first = [line.split(" | ")[0].strip("| ") for line in markdown(table, ["cider"]).splitlines()[2:5]]
    assert first == ["Seq (tau 0.2)", "Seq (tau 0.3)", "MLE"]
    told = latex(table, ["cider"])
    assert told.count("Seq (tau 0.2) & ") == told.count("Seq (tau 0.3) & ") == 1


def test_labels_and_titles_may_hold_anything() -> None:
    label = r"a|b <i> \ {y} $z$ & ~^"
    table = Table("50 $ | <u>", "test", (rows(label, (1.0,)), rows("MLE", (2.0,))))
    told = markdown(table, ["cider"]).replace("\u00a0", " ")
    assert "### 50 $ \\| &lt;u>" in told
    assert told.count(r"| a\|b &lt;i> \ {y} $z$ & ~^ |") == 2
    tex = latex(table, ["cider"])
    assert r"a|b <i> \textbackslash{} \{y\} \$z\$ \& \textasciitilde{}\textasciicircum{} &" in tex
    assert r"\caption{50 \$ | <u>." in tex
