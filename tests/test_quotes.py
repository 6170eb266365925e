"""Numbers that pages quote from the tables of results and benchmarks are still there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs/results"
ELSEWHERE = (ROOT / "docs/paper.md", ROOT / "configs/losses/authors_show_tell.yaml")
"""Where scores come from that are not ours."""
PAGES = [
    ROOT / "README.md",
    ROOT / "results/discussion.md",
    ROOT / "results/summary.md",
    *(ROOT / f"docs/{name}.md" for name in ("concepts", "faq", "losses", "rewards", "start")),
    *sorted((ROOT / "docs/recipes").glob("*.md")),
]
NOT_OF_RECORDS = ("glance.md", "discussion.md")
SIGNED = r"(?<![\w.])[+-]\d+\.\d\d(?!\d)"
DIFFERENCE = re.compile(SIGNED)
SURE = re.compile(rf"({SIGNED}) (\[{SIGNED}, {SIGNED}\])")
SCORE = re.compile(r"(?<![\d.,+-])\d\d\.\d\d(?!\d)")


def prose(page: Path) -> str:
    """A page without its blocks of code, each paragraph in one line."""
    text = page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<=\S)\n *(?=[^\s|#-])", " ", text)


def rows(folder: Path) -> list[str]:
    """The rows of tables that records made, of the pages in a folder: what people wrote may be as stale as a quote.

    A row of "All losses on all sets" has several sets, and the value of one is no quote with the interval of another;
    all of its numbers are in the pages of the sets, too.
    """
    pages = (path.read_text(encoding="utf-8") for path in folder.glob("*.md") if path.name not in NOT_OF_RECORDS)
    lines = (line for text in pages for line in text.replace("\N{NO-BREAK SPACE}", " ").splitlines())
    return [line for line in lines if line.startswith("|")]


def stale(text: str, tables: list[str], others: str = "") -> list[str]:
    """The numbers of a text that no row has: differences, differences with their interval, scores."""
    known = "\n".join(tables)
    alone = [each for each in DIFFERENCE.findall(text) if each not in DIFFERENCE.findall(known)]
    together = [
        f"{value} {interval}"
        for value, interval in SURE.findall(text)
        if not any(value in row and interval in row for row in tables)
    ]
    scores = [each for each in SCORE.findall(text) if each not in SCORE.findall(known + others)]
    return alone + together + scores


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_quotes_is_in_the_tables(page: Path) -> None:
    others = "\n".join(path.read_text(encoding="utf-8") for path in ELSEWHERE)
    found = stale(prose(page), rows(TABLES), others)
    assert not found, f"{page.relative_to(ROOT)} must quote docs/results as it is, but has {', '.join(found)}."


def test_a_stale_quote_is_seen() -> None:
    tables = ["| Tok | 88.42 ± 0.13 (5) | +0.06 [-0.47, +0.63] | [-0.58, +0.69] |", "| Seq | 89.09 (4) | +0.73 |"]
    assert stale("Tok has 88.42, +0.06 [-0.58, +0.69] over MLE, and Seq +0.73.", tables) == []
    assert stale("Tok has +0.07 over MLE", tables) == ["+0.07"]
    assert stale("Seq has +0.73 [-0.58, +0.69]", tables) == ["+0.73 [-0.58, +0.69]"]
    assert stale("MLE has 88.37, 0.69 less", tables) == ["88.37"]


def test_the_value_of_one_set_is_no_quote_with_the_interval_of_another(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("# One\n| Tok | +0.10 [+0.05, +0.15] |\n")
    (tmp_path / "two.md").write_text("# Two\n| Tok | +0.70 [-0.20, +1.60] |\n")
    (tmp_path / "discussion.md").write_text("| Tok | +0.10 [-0.20, +1.60] |\n")
    (tmp_path / "glance.md").write_text("| Tok | +0.10 [+0.05, +0.15] | +0.70 [-0.20, +1.60] |\n")
    assert stale("Tok: +0.10 [-0.20, +1.60]", rows(tmp_path)) == ["+0.10 [-0.20, +1.60]"]
    assert stale("Tok: +0.70 [-0.20, +1.60]", rows(tmp_path)) == []


def promises() -> list[str]:
    """The results on GPUs and on CPUs of the page of benchmarks, as it has them one after the other."""
    return (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8").split("<!-- CPU results: begin")


def test_the_page_of_speed_tells_how_many_promises_are_held() -> None:
    told, _ = promises()
    found = re.search(r"^(\d+) held, (\d+) not held, (\d+) not measured\.$", told, re.MULTILINE)
    assert found is not None
    held, missed, unmeasured = map(int, found.groups())
    verdict = ("all are held", "one is not held", "two are not held", "three are not held")[missed]
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    assert f"[{held + missed + unmeasured} promises](benchmarks.md#the-promises-one-by-one) {verdict}" in page


def test_the_page_of_speed_tells_how_many_promises_of_a_cpu_are_held() -> None:
    _, told = promises()
    found = re.search(r"^(\d+) held, (\d+) not held, (\d+) not measured\.$", told, re.MULTILINE)
    assert found is not None
    held, missed, unmeasured = map(int, found.groups())
    assert not unmeasured
    told = (
        f"On a CPU {held} of the [{held + missed} promises](benchmarks.md#the-promises-for-a-cpu-one-by-one) are held."
    )
    assert told in prose(ROOT / "docs/speed.md")


PROMISE = re.compile(r"^\| [^|]+ \| [<>]= ([\d.e-]+)[^|]*\| ([\d.e-]+)[^|]*\| held \|$", re.MULTILINE)
NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def tight(table: str) -> list[float]:
    """What was measured of the promises that are held with less than 1 % to spare."""
    found = [(float(limit), float(value)) for limit, value in PROMISE.findall(table)]
    return [value for limit, value in found if abs(value / limit - 1) < 0.01]


def test_the_page_of_speed_names_the_promises_that_are_tight() -> None:
    measured = tight(promises()[0])
    page = prose(ROOT / "docs/speed.md")
    assert f"but {NUMBERS[len(measured)]} have less than 1 % to spare" in page
    assert [value for value in measured if f"{value:.3f}" not in page] == []


def test_a_tight_promise_is_seen() -> None:
    table = "| Head: Tok | <= 1.15 x | 1.144 x | held |\n| Loss: bandwidth | >= 70 % | 74.07 % (Tok) | held |\n"
    assert tight(table) == [1.144]


def test_the_recipe_of_fine_tuning_tells_what_smoothing_costs_at_most() -> None:
    (table,) = json.loads((ROOT / "benchmarks/results/head-d.json").read_text(encoding="utf-8"))["tables"]
    ours = {row["name"]: row for row in table["rows"] if row["ours"]}
    ratios = [row[mode]["median"] / ours["MLE"][mode]["median"] for row in ours.values() for mode in ("eager", "graph")]
    assert f"costs at most {max(ratios):.2f} times a plain one" in prose(ROOT / "docs/recipes/fine_tuning.md")
