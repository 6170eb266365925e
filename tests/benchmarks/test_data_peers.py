"""The measurements of `prepare pairs` and of corpus metrics run; the docs tell their committed numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import prepare_pairs, score_peers

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "data"
LINES = [f"a small dog number {number % 7} runs in the snow ." for number in range(60)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").is_file(), reason="memory of processes needs Linux")
def test_preparing_is_measured(tmp_path: Path, text: Path) -> None:
    told = tmp_path / "told.json"
    words = ["--text", text, text, "--pairs", 40, "--workers", 2, "--tokenisers", "whitespace", "--json", told]
    prepare_pairs.main([*map(str, words), "--before", str(ROOT)])
    held = json.loads(told.read_text(encoding="utf-8"))
    assert held["kind"] == prepare_pairs.KIND
    assert [(row["pairs"], row["workers"]) for row in held["rows"]] == [(40, None), (40, 2)]
    for row in held["rows"]:
        assert 0 < row["processor_seconds"] < 60
        assert row["peak_mb"] > 20
    before = told.read_bytes()
    prepare_pairs.main([*map(str, words)])  # nothing is left to do
    assert told.read_bytes() == before
    with pytest.raises(ValueError, match=r"^Two corpora of one text must be the same; these are not"):
        prepare_pairs.check_same({**held["rows"][0], "fingerprint": "another"}, held["rows"])


def test_a_corpus_grows_and_is_the_same_again(tmp_path: Path) -> None:
    pairs = [(line, line.upper()) for line in LINES]
    (tmp_path / "again").mkdir()
    made = [prepare_pairs.write_corpus(pairs, 300, folder) for folder in (tmp_path, tmp_path / "again")]
    first, again = ([path.read_text(encoding="utf-8").splitlines() for path in files] for files in made)
    assert first == again
    assert [len(lines) for lines in first] == [300, 300]
    assert first[0][:60] == LINES
    assert len({word for line in first[0] for word in line.split()}) > len(
        {word for line in LINES for word in line.split()}
    )


def test_a_line_through_the_two_largest_sizes() -> None:
    rows: list[dict[str, Any]] = [
        {"pairs": pairs, "tokeniser": "x", "workers": 1, "processor_seconds": seconds}
        for pairs, seconds in ((100, 99.0), (2_000_000, 12.0), (1_000_000, 7.0))
    ]
    (found,) = prepare_pairs.extrapolate(rows)
    assert found["processor_seconds"] == 62  # 2 and 5 a million


def test_metrics_are_measured_beside_their_peers(tmp_path: Path, text: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    told = tmp_path / "told.json"
    score_peers.main(["--text", str(text), "--sizes", "50:2", "--turns", "2", "--json", str(told)])
    held = json.loads(told.read_text(encoding="utf-8"))
    assert held["kind"] == score_peers.KIND
    assert [row["metric"] for row in held["rows"]] == ["sacreBLEU, 13a", "BLEU-4", "CIDEr-D", "ROUGE-L"]
    assert all(row["ratio"] > 0 for row in held["rows"])
    with pytest.raises(ValueError, match=r"^Both must give one score; they give 1 and 2\.$"):
        score_peers.compare(lambda: 1, lambda: 2, 1)


def test_the_docs_tell_the_committed_numbers() -> None:
    told = json.loads((RESULTS / "prepare_pairs.json").read_text(encoding="utf-8"))
    assert told["kind"] == prepare_pairs.KIND
    table = re.findall(
        r"^\| ([\d,]+)(?: \(line\))? \| (\S+) \| (.+) \| ([\d,.]+) s \| (.+) \|$",
        (ROOT / "docs/data.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert table == [prepare_pairs.line_of(row) for row in (*told["rows"], *told["many"])]
    told = json.loads((RESULTS / "score_peers.json").read_text(encoding="utf-8"))
    assert told["kind"] == score_peers.KIND
    table = re.findall(
        r"^\| (.+) \| ([\d,]+) \| (\d) \| ([\d.]+) \|$",
        (ROOT / "docs/metrics.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert table == [score_peers.line_of(row) for row in told["rows"]]
    assert all(row["ratio"] < 1 for row in told["rows"])
