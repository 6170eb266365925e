from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import claims, machine, page, paper, plot, report, step
from benchmarks.clock import Clock
from benchmarks.records import Mode, Spread, TimingReport, TimingRow, TimingTable

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {
    "device": "A GPU",
    "torch": "2.0",
    "triton": None,
    "cuda": "12",
    "python": "3.12",
    "seqsmooth": "0",
    "kernels": "triton",
    "peers": {"nltk": "3"},
    "commit": None,
    "date": "2026-01-02T03:04:05+00:00",
    "copy_bytes_per_s": 4e12,
    "matmul_flop_per_s": 8e14,
}


def spread(median: float) -> Spread:
    return Spread(0.9 * median, median, 1.1 * median, 50)


LOSS = TimingTable(
    "loss x",
    {"V": 5},
    (
        TimingRow("MLE", True, "MLE", spread(2.0), spread(1.0), {}, 3 * 2**20, {"loss": 2e-7}),
        TimingRow("Tok", True, "MLE", spread(3.0), spread(1.25), {}, 0, {"loss": 3e-7}),
        TimingRow("theirs", False, None, spread(4.0), spread(2.5), {}, 2**30, {}),
        TimingRow("stuck", False, None, spread(5.0), None, {"graph": "it waits for the GPU"}),
        TimingRow("gone", False, None, None, None, {"call": "ImportError: nothing"}),
    ),
    peer="theirs",
    copied_bytes=2 * 10**9,
)
REWARDS = TimingTable(
    "rewards x",
    {},
    (
        TimingRow("CIDEr-D", True, None, spread(0.5), spread(0.25)),
        TimingRow("slow", False, None, spread(40.0), items=50),
    ),
    peer="slow",
    items=250,
)
REPORT = TimingReport("loss", MACHINE, (LOSS, REWARDS), {"d": "no memory"})


def cells(text: str, name: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
    return line.removeprefix(name).split()


def test_a_row_says_times_ratios_bandwidth_memory_and_errors() -> None:
    text = report.table_text(LOSS, REPORT)
    headings = ("eager ms", "graph ms", "+-%", "/ours", "/peer", "copy %", "extra MiB", "err loss")
    assert all(heading in text.splitlines()[1] for heading in headings)
    # Eager 3 ms: 1.5 of our MLE, 0.75 of theirs. Replay 1.25 ms: 1.25 and 0.5; 2 GB in 1.25 ms are 1.6 of 4 TB/s.
    assert cells(text, "Tok") == ["3.000", "10", "1.50", "0.750", "1.250", "10", "1.25", "0.500", "40", "0", "3e-07"]
    assert cells(text, "theirs") == ["4.000", "10", "-", "1.00", "2.500", "10", "-", "1.00", "20", "1024", "-"]
    assert cells(text, "stuck") == ["5.000", "10", "-", "1.25", "failed", "-", "-", "-", "10", "-", "-"]
    assert cells(text, "gone") == ["failed", "-", "-", "-", "failed", "-", "-", "-", "-", "-", "-"]


def test_failures_are_explained_below() -> None:
    text = report.table_text(LOSS, REPORT)
    assert "stuck: capture failed: it waits for the GPU" in text
    assert "gone: did not run: ImportError: nothing" in text
    assert "/peer: times over those of theirs." in text


def test_items_are_compared_each() -> None:
    text = report.table_text(REWARDS, REPORT)
    # 0.25 ms for 250 are 1 us each; 40 ms for 50 are 800 us each, and eagerly 0.5 ms for 250 are 2 us.
    assert cells(text, "CIDEr-D") == ["500.0", "10", "0.00250", "250.0", "10", "-", "1.000"]
    assert cells(text, "slow") == ["40000", "10", "1.00", "-", "-", "-", "800.0"]


STEP = TimingTable(
    "step x", {}, tuple(TimingRow(name, True, "mle", spread(2.0), spread(1.0)) for name in ("mle", "tok", "other"))
)


def test_steps_have_the_papers_ratios_beside_them() -> None:
    made = TimingReport("step", MACHINE, (STEP,))
    text = report.text(made)
    # 359 ms over 347 ms, and nothing where the paper has nothing.
    assert cells(text, "tok")[-1] == "1.035"
    assert cells(text, "other")[-1] == "-"
    assert "Titan X with the CNN inside" in text
    assert "Titan X" not in report.text(REPORT)


def test_the_papers_ratios_are_those_of_its_table() -> None:
    # 390 to 401, 336 to 349 and 445 to 453 ms over 347 ms.
    expected = {
        "MLE": "1.000",
        "Tok": "1.035",
        "Seq": "1.124-1.156",
        "Seq lazy": "0.968-1.006",
        "Tok-Seq": "1.282-1.305",
    }
    assert {loss: paper.ratio(loss) for loss in paper.MILLISECONDS} == expected
    assert set(paper.LOSSES) == set(step.OBJECTIVES)


def test_wide_cells_keep_the_columns_straight() -> None:
    made = TimingReport(
        "step",
        MACHINE,
        (TimingTable("x", {}, tuple(TimingRow(n, True, "mle", spread(1.0)) for n in ("mle", "seq-cider-5"))),),
    )
    _, *lines = report.table_text(made.tables[0], made).splitlines()
    assert len({len(line) for line in lines if line.startswith((" ", "mle", "seq"))}) == 1


def test_the_whole_report_names_the_machine_and_what_failed() -> None:
    text = report.text(REPORT)
    facts = ("A GPU", "copies 4.00 TB/s", "800 TFLOP/s", "commit unknown", "torch 2.0", "nltk 3")
    for told in (*facts, "d: failed: no memory"):
        assert told in text
    assert "triton None" not in text


@pytest.mark.parametrize(
    ("value", "text"), [(1234.56, "1235"), (1.0, "1.000"), (0.012346, "0.01235"), (0, "0"), (999.96, "1000.0")]
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert report.number(value) == text


def test_a_page_is_filled_between_its_marks_and_again() -> None:
    empty = f"# Title\n\n{page.BEGIN}\n\nold\n\n{page.END}\n\nafter\n"
    filled = page.fill(empty, [REPORT])
    assert filled.startswith("# Title\n\n")
    assert filled.endswith(f"{page.END}\n\nafter\n")
    assert "old" not in filled
    assert "| **Tok** | 3.000 | 10 | 1.50 | 0.750 | 1.250 | 10 | 1.25 | 0.500 | 40 | 0 | 3e-07 |" in filled
    assert "- stuck: capture failed: it waits for the GPU" in filled
    assert page.fill(filled, [REPORT]) == filled
    promised = sum(claim.device == claims.GPU for claim in claims.CLAIMS)
    assert filled.count("| **not measured** |") == promised, "of another GPU than the promises"
    assert page.NOTHING in page.fill(filled, [])


def test_the_table_at_a_glance_has_ours_beside_what_it_replaces() -> None:
    """Times in graph replay, or on the host where there is no other; items one by one."""
    title, benchmark, shape, name, peer = page.PAIRS[-1]
    rows = (
        TimingRow(name, True, None, spread(9.0), spread(0.5), {}, 2**19),
        TimingRow(peer, False, None, spread(40.0), items=50),
    )
    table = TimingTable("x", {**shape, "T": 17}, rows, items=250)
    reports = [TimingReport(benchmark, MACHINE, (LOSS, table))]
    for other_title, other, where, ours, theirs in page.PAIRS[:-1]:
        pair = (TimingRow(ours, True, None, spread(1.0)), TimingRow(theirs, False, None, spread(2.0), None, {}, 2**30))
        reports.append(TimingReport(other, MACHINE, (TimingTable(other_title, where, pair),)))
    empty = f"{page.GLANCE[0]}\n{page.GLANCE[1]}\n{page.BEGIN}\n{page.END}\n"
    lines = page.fill(empty, reports).replace(page.SPACE, " ").splitlines()
    assert f"| {title} | 2.00 us | 0.5 MiB | {peer} | 0.800 ms | - |" in lines
    assert "| MLE, 8192 x 128256 logits | 1.00 ms | - | F.cross_entropy | 2.00 ms | 1,024 MiB |" in lines
    assert page.fill(empty, reports[1:]).splitlines()[2] == page.NOTHING, "a row is missing"


CPU_MACHINE = {**MACHINE, "device": "CPU: x, 2 cores", "load_before": 0.5, "load_after": 3.25, "kernels": "torch"}


def on_cpu(name: str, ours: bool, ratio: float, extra: int | None = None) -> TimingRow:
    pairs: dict[Mode, Spread] = {"cpu": spread(ratio), "wall": spread(9.0)}
    base = "MLE (torch)" if ours else None
    times = {"cpu": spread(2.0), "wall": spread(4.0)}
    return TimingRow(name, ours, base, over_ours=pairs, over_peer=pairs, system_share=0.125, extra_bytes=extra, **times)


def test_on_the_cpu_ratios_are_those_of_the_rounds() -> None:
    rows = (on_cpu("MLE (torch)", True, 1.5, 2**21), on_cpu("theirs", False, 1.0))
    made = TimingReport("loss", CPU_MACHINE, (TimingTable("x", {"threads": 1}, rows, "theirs", 10**9),))
    text = report.text(made)
    assert cells(text, "MLE (torch)") == ["2.000", "10", "1.50", "1.50", "4.000", "10", "9.00", "9.00", "12", "2.00"]
    assert "load average 0.5 before and 3.25 after" in text
    assert "multiplies fp32" in text
    assert "copy %" not in text


def test_reports_of_cpus_and_of_gpus_do_not_mix_on_a_page() -> None:
    rows = (on_cpu("MLE (torch)", True, 1.5), on_cpu("theirs", False, 1.0))
    made = TimingReport("loss", CPU_MACHINE, (TimingTable("on a CPU", {}, rows, "theirs"),))
    begin, end = page.CPU_RESULTS
    empty = f"{page.BEGIN}\n{page.END}\nbetween\n{begin}\n{end}\n"
    filled = page.fill(empty, [REPORT, made])
    gpu, cpu = filled.split("\nbetween\n")
    assert "**loss x**" in gpu
    assert "**on a CPU**" not in gpu
    assert "**on a CPU**" in cpu
    assert "**loss x**" not in cpu
    counts = [part.count("| **not measured** |") for part in (gpu, cpu)]
    devices = [claim.device for claim in claims.CLAIMS]
    assert counts == [devices.count(claims.GPU), devices.count(claims.CPU)]


def test_the_glance_at_a_cpu_has_both_paths_beside_what_they_replace() -> None:
    tables: dict[str, dict[str, TimingTable]] = {"loss": {}, "head": {}}
    for _, benchmark, shape, name, peer in page.CPU_PAIRS:
        key = str(shape["name"])
        held = tables[benchmark].get(key, TimingTable(key, shape, ()))
        rows = (on_cpu(f"{name} (torch)", True, 1.5, 2**21), on_cpu(peer, False, 1.0, 2**30))
        tables[benchmark][key] = replace(held, rows=(*held.rows, *rows))
    reports = [TimingReport(name, CPU_MACHINE, tuple(held.values())) for name, held in tables.items()]
    empty = f"{page.CPU_GLANCE[0]}\n{page.CPU_GLANCE[1]}\n{page.BEGIN}\n{page.END}\n"
    lines = page.fill(empty, reports).replace(page.SPACE, " ").splitlines()
    expected = "| - | - | 2.00 ms | 2.0 MiB | F.cross_entropy | 2.00 ms | 1,024 MiB |"
    assert f"| MLE, 850 x 9800 logits {expected}" in lines
    assert page.fill(empty, reports[:1]).splitlines()[2] == page.NOTHING, "a row is missing"


@pytest.mark.parametrize("text", ["", page.BEGIN, page.END + page.BEGIN, page.BEGIN + page.BEGIN + page.END])
def test_a_page_without_marks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`page` must be a page with the marks"):
        page.fill(text, [])


def test_the_page_of_the_documentation_holds_the_committed_results() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    committed = [TimingReport.load(path) for path in sorted((ROOT / "benchmarks" / "results").glob("*.json"))]
    assert page.fill(text, committed) == text, "run `make results`"


def test_a_plot_needs_a_known_format_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`plot` must be one of '\.png', '\.svg'; it is '\.pdf'"):
        plot.check(tmp_path / "x.pdf")
    with pytest.raises(ValueError, match="in a folder that is there"):
        plot.check(tmp_path / "none" / "x.png")
    plot.check(None)


def test_without_matplotlib_a_plot_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(ValueError, match=r"where matplotlib is not installed \(pip install 'seqsmooth\[bench\]'\)"):
        plot.check(tmp_path / "x.png")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_report_is_drawn(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"x{suffix}"
    plot.save(REPORT, path)
    head = path.read_bytes()[:400]
    assert head.startswith(b"\x89PNG") if suffix == ".png" else b"<svg" in path.read_bytes()


def test_the_machine_is_described_without_its_name() -> None:
    import platform

    import torch

    told = machine.describe(Clock(torch.device("cpu")), commit="abc")
    assert told["commit"] == "abc"
    assert told["device"].startswith("CPU")
    assert told["torch"] == torch.__version__
    assert told["kernels"] == "torch"
    assert told["copy_bytes_per_s"] > 1e8
    assert told["matmul_flop_per_s"] > 1e6
    assert not platform.node() or platform.node() not in str(told)


def test_the_commit_is_that_of_git_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"rev-parse": "0123456789ab", "status": " M file"}
    monkeypatch.setattr(machine, "_git", lambda folder, verb, *rest: answers[verb])
    assert machine.git_commit() == "0123456789ab+"
    answers["status"] = ""
    assert machine.git_commit() == "0123456789ab"

    def missing(folder: Path, *words: str) -> str:
        raise FileNotFoundError("git")

    monkeypatch.setattr(machine, "_git", missing)
    assert machine.git_commit() is None
