"""Promises: each one is kept by a report at its limit, broken by one just beyond, and never kept by silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from benchmarks import claims, head, loss, rewards, step
from benchmarks.claims import CLAIMS, Claim, judge
from benchmarks.clock import Clock
from benchmarks.harness import Contest
from benchmarks.objectives import LossSuite
from benchmarks.records import Mode, Spread, TimingReport, TimingRow, TimingTable
from benchmarks.shapes import SHAPES

CPU = torch.device("cpu")
BYTES = 4 * 10**9
MACHINE = {"device": "NVIDIA H200", "copy_bytes_per_s": 4e12}
MACHINES = {claims.GPU: MACHINE, claims.CPU: {"device": "CPU: any, 2 cores"}}
BASES = {"MLE": 1.0, "mle": 1.0, loss.PEER: 8.0, loss.SPARSE: 16.0, head.LINEAR + loss.PEER: 2.0}


def timed(milliseconds: float) -> Spread:
    return Spread(0.9 * milliseconds, milliseconds, 1.1 * milliseconds, 50)


def report_of(claim: Claim, change: Callable[[TimingRow], TimingRow] = lambda row: row) -> TimingReport:
    """A report with the table of a promise, in which all rows of it are alike, changed or not."""
    times = {**BASES, **{name: BASES.get(name, 1.0) for name in claim.rows}}
    rows = [TimingRow(name, True, eager=timed(time), graph=timed(time)) for name, time in times.items()]
    rows = [change(row) if row.name in claim.rows else row for row in rows]
    threads: list[dict[str, int | str]] = [{"threads": count} for count in claim.threads] or [{}]
    tables = [TimingTable("x", {**claim.where, **more}, tuple(rows), copied_bytes=BYTES) for more in threads]
    return TimingReport(claim.benchmark, MACHINES[claim.device], tuple(tables))


def with_value(claim: Claim, value: float) -> Callable[[TimingRow], TimingRow]:
    """What gives a row this number, worked out by hand for each unit."""
    if claim.unit in ("MiB", "GB"):
        return lambda row: replace(row, extra_bytes=round(value * (2**20 if claim.unit == "MiB" else 1e9)))
    if claim.device == claims.CPU and claim.unit == "%":  # of v + 100, v are the system's
        return lambda row: replace(row, system_share=value / (value + 100))
    if claim.device == claims.CPU:
        ratios: dict[Mode, Spread] = {"cpu": timed(value), "wall": timed(99.0)}
        return lambda row: replace(row, over_ours=ratios, over_peer=ratios)
    if claim.unit == "":
        return lambda row: replace(row, errors={"score": value})
    if claim.unit == "%":  # 4 GB at 4 TB/s take 1 ms
        milliseconds = 100 / value
    elif "faster than" in claim.says:
        milliseconds = (16.0 if "gather" in claim.says else 8.0) / value
    elif claim.unit == "x":
        milliseconds = (2.0 if "torch's" in claim.says else 1.0) * value
    else:
        milliseconds = value / (1000 if claim.unit == "us" else 1)
    return lambda row: replace(row, eager=timed(milliseconds), graph=timed(milliseconds))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.says)
def test_a_promise_is_kept_up_to_its_limit(claim: Claim) -> None:
    for factor in (0.98, 1.02):
        value = claim.limit * factor
        result = judge(claim, [report_of(claim, with_value(claim, value))])
        assert result.value == pytest.approx(value, rel=1e-6)
        assert result.verdict == ("held" if (factor > 1) == claim.at_least else "not held")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.says)
def test_silence_keeps_no_promise(claim: Claim) -> None:
    good = report_of(claim, with_value(claim, claim.limit))
    assert judge(claim, [good]).verdict == "held"
    table = good.tables[0]
    fewer = replace(table, rows=tuple(row for row in table.rows if row.name != claim.rows[0]))
    others = good.tables[1:]
    failed = report_of(claim, lambda row: TimingRow(row.name, True, failures={"call": "no memory"}))
    silent = {
        "nothing": [],
        "a row less": [replace(good, tables=(fewer, *others))],
        "rows that failed": [failed],
        "another device": [replace(good, machine={**MACHINE, "device": "NVIDIA A100"})],
        "another benchmark": [replace(good, benchmark="sampler")],
        "another shape": [replace(good, tables=(replace(table, shape={"name": "z", "B": 1}),))],
    }
    if others:
        silent["one number of threads"] = [replace(good, tables=(table,))]
    for why, reports in silent.items():
        assert judge(claim, reports).verdict == "not measured", why


def some(unit: str, count: int) -> Claim:
    return next(claim for claim in CLAIMS if claim.unit == unit and len(claim.rows) >= count)


def test_the_worst_row_of_the_worst_report_counts() -> None:
    claim = some("MiB", 3)
    good = report_of(claim, with_value(claim, 1.0))
    bad = report_of(claim, lambda row: replace(row, extra_bytes=2**40 if row.name == claim.rows[1] else 1))
    result = judge(claim, [good, bad, good])
    assert (result.verdict, result.row) == ("not held", claim.rows[1])
    assert result.measured == f"1048576 MiB ({claim.rows[1]})"


def test_a_row_beyond_the_limit_is_not_excused_by_one_that_is_missing() -> None:
    claim = some("MiB", 3)

    def change(row: TimingRow) -> TimingRow:
        return replace(row, extra_bytes=None if row.name == claim.rows[0] else 2**40)

    assert judge(claim, [report_of(claim, change)]).verdict == "not held"


def test_what_is_missing_is_named() -> None:
    claim = some("MiB", 3)
    result = judge(claim, [report_of(claim, lambda row: replace(row, extra_bytes=1 if row.name == "MLE" else None))])
    assert (result.verdict, result.measured) == ("not measured", f"- (no {claim.rows[1]})")


def test_at_the_large_shape_both_modes_count_and_elsewhere_the_gpu_alone() -> None:
    def slow_to_submit(row: TimingRow) -> TimingRow:
        return replace(row, eager=timed(1000.0), graph=timed(0.01))

    for claim in CLAIMS:
        if claim.unit in ("ms", "us", "x") and claim.device == claims.GPU:
            verdict = judge(claim, [report_of(claim, slow_to_submit)]).verdict
            assert verdict == ("not held" if claim.where.get("name") == "d" else "held"), claim.says


def test_on_the_cpu_pairs_of_its_own_time_count_and_every_number_of_threads() -> None:
    claim = next(claim for claim in CLAIMS if claim.device == claims.CPU and claim.unit == "x")
    good = report_of(claim, with_value(claim, claim.limit))
    slow = report_of(claim, with_value(claim, 2 * claim.limit))
    assert judge(claim, [good]).verdict == "held"
    assert judge(claim, [replace(good, tables=(good.tables[0], slow.tables[1]))]).verdict == "not held"
    result = judge(claim, [replace(good, tables=good.tables[:1])])
    assert (result.verdict, result.row) == ("not measured", "table with 2 threads")


def test_heads_are_compared_with_products_of_the_library_that_they_take() -> None:
    """Native takes 0.8 of MKL's products, and oneDNN's alone 0.5: 1.6 times what it cannot do without."""
    for path, expected in (("torch", 0.8), ("native", 1.6)):
        claim = next(claim for claim in CLAIMS if claim.says.startswith("CPU head") and f", {path}:" in claim.says)
        report = report_of(claim, with_value(claim, 0.8))
        faster = TimingRow(head.ONEDNN_PRODUCTS, False, over_peer={"cpu": timed(0.5)})
        tables = tuple(replace(table, rows=(*table.rows, faster)) for table in report.tables)
        assert judge(claim, [replace(report, tables=tables)]).value == pytest.approx(expected)


def test_only_promises_of_the_devices_of_the_reports_are_asked_for() -> None:
    of_cpu, of_gpu = (next(claim for claim in CLAIMS if claim.device == device) for device in (claims.CPU, claims.GPU))
    assert claims.devices([report_of(of_cpu)]) == [claims.CPU]
    assert claims.devices([report_of(of_cpu), report_of(of_gpu)]) == claims.devices([]) == [claims.GPU, claims.CPU]
    judged = claims.check([report_of(of_cpu)], claims.CPU)
    assert {result.claim.device for result in judged} == {claims.CPU}
    assert len(judged) + len(claims.check([], claims.GPU)) == len(CLAIMS)


def test_rows_are_named_as_the_benchmarks_name_them() -> None:
    names = {"step": set(step.OBJECTIVES)}
    for shape in (SHAPES["tiny"], SHAPES["d"]):
        vocabulary = LossSuite(shape, torch.zeros(1, 1))
        for name, module in (("loss", loss), ("head", head)):
            listed = {contestant.name for contestant in (*module.ours(vocabulary), *module.theirs(vocabulary))}
            names[f"{name} {shape.name == 'd'}"] = listed
            assert {"loss": loss.PEER, "head": head.LINEAR + loss.PEER}[name] in listed
    given = rewards.captions(2, 1, torch.Generator().manual_seed(0))
    names["rewards"] = {contestant.name for contestant in rewards.theirs(given)} | {"CIDEr-D"}
    assert loss.SPARSE in names["loss True"]
    for shape in (SHAPES["captions"], SHAPES["sentences"], SHAPES["llm"]):
        suite, contest = LossSuite(shape, torch.zeros(1, 1)), Contest(Clock(CPU), 1.0, paths=("torch", "native"))
        listed = loss.entrants(loss.ours(suite), loss.theirs(suite), contest, loss.GIVEN_ON_CPU)
        names[f"loss {shape.name}"] = names[f"head {shape.name}"] = {contestant.name for contestant in listed}
    for model in step.ON_CPU:
        steps = {f"{name} (native)" for name in (*step.OBJECTIVES, *step.OWN)}
        names[f"step {model}"] = steps | ({step.JOEY} if model == "rnnsearch" else set())
    for claim in CLAIMS:
        if claim.device == claims.CPU:
            assert set(claim.rows) <= names[f"{claim.benchmark} {claim.where['name']}"], claim.says
            continue
        large = f" {claim.where['name'] == 'd'}" if claim.benchmark in ("loss", "head") else ""
        assert set(claim.rows) <= names[claim.benchmark + large], claim.says


def test_tables_describe_themselves_as_promises_ask() -> None:
    for claim in CLAIMS:
        if claim.benchmark in ("loss", "head"):
            described = SHAPES[str(claim.where["name"])].facts()
            size = [described[letter] for letter in ("N", *("D" * (claim.benchmark == "head")), "V")]
            said = claim.says.removeprefix("CPU ").split(":")[0].split(",")[0]
            assert said.split(" ", 1)[1] == " x ".join(map(str, size))
        elif claim.benchmark == "rewards":
            assert int(claim.where["B"]) * int(claim.where["L"]) in rewards.SIZES
            assert f"{int(claim.where['B']) * int(claim.where['L'])} candidates" in claim.says
        else:
            assert claim.where["name"] in step.MODELS


def test_the_table_counts_verdicts() -> None:
    results = [judge(claim, [report_of(CLAIMS[0], with_value(CLAIMS[0], 75.0))]) for claim in CLAIMS[:2]]
    lines = claims.text(results).splitlines()
    assert lines[0].split() == ["promise", "limit", "measured", "verdict"]
    assert "Loss 4000 x 30000: share of copy bandwidth" in lines[1]
    assert ">= 70 %" in lines[1]
    assert "75.00 % (" in lines[1]
    assert lines[1].endswith("  held")
    assert lines[2].endswith("  not measured")
    assert lines[3] == "1 held, 0 not held, 1 not measured."
