"""Promises of speed, memory and agreement, as data, and whether reports keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.head import LINEAR
from benchmarks.loss import PEER, SPARSE
from benchmarks.records import GPU_MODES, Mode, Spread, TimingReport, TimingRow, TimingTable
from benchmarks.report import number

DEVICE = "H200"
"""The promises are for this GPU; reports of others say nothing about them."""
Verdict = Literal["held", "not held", "not measured"]
Measure = Callable[[TimingRow, TimingTable, TimingReport], float | None]
"""A number of one row; None where it was not measured. Times are medians."""
GRAPH: tuple[Mode, ...] = ("graph",)


@dataclass(frozen=True)
class Claim:
    """One promise: a limit for the worst of some rows."""

    says: str
    benchmark: str
    where: Mapping[str, int | str]
    """The entries of `shape` that select the tables it is about."""
    rows: tuple[str, ...]
    measure: Measure
    limit: float
    unit: str
    at_least: bool = False
    """Whether the limit is the least that is allowed, not the most."""

    def holds(self, value: float) -> bool:
        """Return whether a number is within the limit."""
        return value >= self.limit if self.at_least else value <= self.limit

    def format(self, value: float) -> str:
        """Write a number in the unit of the limit."""
        return f"{value:.0e}" if 0 < abs(value) < 1e-4 else f"{number(value)} {self.unit}".rstrip()

    @property
    def bound(self) -> str:
        """The limit in words."""
        return f"{'>=' if self.at_least else '<='} {f'{self.limit:g} {self.unit}'.rstrip()}"


@dataclass(frozen=True)
class ClaimResult:
    """The verdict on a promise: the worst number and its row, or the first row that is missing."""

    claim: Claim
    verdict: Verdict
    value: float | None = None
    row: str = ""

    @property
    def measured(self) -> str:
        """The number in words, with the row where there are several."""
        if self.value is None:
            return f"- (no {self.row})" if self.row else "-"
        return self.claim.format(self.value) + (f" ({self.row})" if len(self.claim.rows) > 1 else "")

    def cells(self) -> tuple[str, str, str, str]:
        """The line of a table."""
        return self.claim.says, self.claim.bound, self.measured, self.verdict


HEADINGS = ("promise", "limit", "measured", "verdict")


def check(reports: Sequence[TimingReport]) -> list[ClaimResult]:
    """Judge every promise by these reports."""
    return [judge(claim, reports) for claim in CLAIMS]


def judge(claim: Claim, reports: Sequence[TimingReport]) -> ClaimResult:
    """Judge a promise by the worst of all rows, in all tables that it is about.

    One row beyond the limit breaks the promise; it is held only if every row was measured.
    """
    numbers: list[tuple[float, str]] = []
    missing: list[str] = []
    for report, table in _tables(claim, reports):
        for name in claim.rows:
            row = table.row(name)
            value = None if row is None else claim.measure(row, table, report)
            if value is None:
                missing.append(name)
            else:
                numbers.append((value, name))
    if not numbers:
        return ClaimResult(claim, "not measured", row=missing[0] if missing else "")
    value, name = (min if claim.at_least else max)(numbers)
    if not claim.holds(value):
        return ClaimResult(claim, "not held", value, name)
    return ClaimResult(claim, "not measured", row=missing[0]) if missing else ClaimResult(claim, "held", value, name)


def text(results: Sequence[ClaimResult]) -> str:
    """Write a table, and how many of each verdict there are."""
    lines = [HEADINGS, *(result.cells() for result in results)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*table, summary(results)])


def summary(results: Sequence[ClaimResult]) -> str:
    """Count each verdict, in words."""
    verdicts: tuple[Verdict, ...] = ("held", "not held", "not measured")
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in verdicts}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."


def _tables(claim: Claim, reports: Sequence[TimingReport]) -> list[tuple[TimingReport, TimingTable]]:
    return [
        (report, table)
        for report in reports
        if report.benchmark == claim.benchmark and DEVICE in str(report.machine["device"])
        for table in report.tables
        if all(table.shape.get(name) == value for name, value in claim.where.items())
    ]


def _time(scale: float = 1.0, modes: tuple[Mode, ...] = GRAPH) -> Measure:
    """Measure the time, the longest of these modes."""

    def measure(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
        medians = [_median(row, mode) for mode in modes]
        return None if None in medians else scale * max(median for median in medians if median is not None)

    return measure


def _over(base: str, modes: tuple[Mode, ...] = GRAPH) -> Measure:
    """Measure the time over that of another row of the same table, the greatest of these modes."""

    def measure(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
        ratios = []
        for mode in modes:
            mine, other = _median(row, mode), _median(table.row(base), mode)
            if mine is None or not other:
                return None
            ratios.append(mine / other)
        return max(ratios)

    return measure


def _faster_than(base: str, modes: tuple[Mode, ...] = GRAPH) -> Measure:
    def measure(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
        ratio = _over(base, modes)(row, table, report)
        return None if not ratio else 1 / ratio

    return measure


def _median(row: TimingRow | None, mode: Mode) -> float | None:
    spread: Spread | None = None if row is None else getattr(row, mode)
    return None if spread is None else spread.median


def _copy_percent(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    if row.graph is None or table.copied_bytes is None:
        return None
    rate: float = report.machine["copy_bytes_per_s"]
    return 100 * table.copied_bytes / (row.graph.median / 1000) / rate


def _mebibytes(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    return None if row.extra_bytes is None else row.extra_bytes / 2**20


def _gigabytes(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    return None if row.extra_bytes is None else row.extra_bytes / 1e9


def _error(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    return row.errors.get("score")


MLE = "MLE"
SPARSE_LOSSES = (MLE, "Label smoothing", "Tok top-64", "Seq lazy, L=5")
"""Our losses whose target is small beside the logits."""
SMOOTHED_HEADS = ("Label smoothing", "Tok top-64", "Seq lazy, L=5", "Tok dense, on the fly")
CLOSED_FORMS = tuple(f"Seq exact, {pool}" for pool in ("vocab", "batch", "refs"))
SAMPLED = tuple(f"Seq lazy, L={count}" for count in (1, 5, 10, 20))


def _shape(name: str) -> dict[str, int | str]:
    return {"name": name, "dtype": "bfloat16"}


def _of_losses() -> list[Claim]:
    large = "8192 x 128256"
    return [
        *(
            Claim(
                f"Loss {size}: share of copy bandwidth",
                "loss",
                _shape(name),
                SPARSE_LOSSES,
                _copy_percent,
                70,
                "%",
                at_least=True,
            )
            for name, size in (("c", "4000 x 30000"), ("d", large))
        ),
        Claim(
            f"Loss {large}: faster than `{PEER}` with labels",
            "loss",
            _shape("d"),
            SPARSE_LOSSES,
            _faster_than(PEER, GPU_MODES),
            2,
            "x",
            at_least=True,
        ),
        Claim(
            f"Loss {large}: faster than the gather form",
            "loss",
            _shape("d"),
            SPARSE_LOSSES,
            _faster_than(SPARSE, GPU_MODES),
            4,
            "x",
            at_least=True,
        ),
        Claim(
            f"Loss {large}: memory beyond logits and gradient",
            "loss",
            _shape("d"),
            SPARSE_LOSSES,
            _mebibytes,
            64,
            "MiB",
        ),
    ]


def _of_heads() -> list[Claim]:
    size, shape = "8192 x 4096 x 128256", _shape("d")
    everyone = (MLE, *SMOOTHED_HEADS)
    claims = [
        Claim(f"Head {size}: MLE", "head", shape, (MLE,), _time(modes=GPU_MODES), 37.5, "ms"),
        Claim(f"Head {size}: smoothed over our MLE", "head", shape, SMOOTHED_HEADS, _over(MLE, GPU_MODES), 1.1, "x"),
        Claim(f"Head {size}: each over torch's MLE", "head", shape, everyone, _over(LINEAR + PEER, GPU_MODES), 1, "x"),
        Claim(f"Head {size}: memory beyond inputs and gradients", "head", shape, everyone, _gigabytes, 1.2, "GB"),
    ]
    for name, what in (("a", "850 x 512 x 9800"), ("b", "800 x 256 x 22822"), ("c", "4000 x 2000 x 30000")):
        ratios = (
            ("Tok dense", ("Tok dense, stored",), 1.15),
            ("lazy Seq, closed form", CLOSED_FORMS, 1.05),
            ("lazy Seq, L <= 20", SAMPLED, 1.05),
            ("Tok-Seq, L = 5", ("Tok-Seq lazy, L=5",), 1.25),
        )
        for loss, rows, limit in ratios:
            claims.append(Claim(f"Head {what}: {loss} over MLE", "head", _shape(name), rows, _over(MLE), limit, "x"))
    return claims


def _of_steps() -> list[Claim]:
    models = (("show_tell", "Show and Tell", 0.8), ("top_down", "Top-Down", 3.0), ("rnnsearch", "RNNsearch", 3.6))
    claims = []
    for name, what, limit in models:
        shape: dict[str, int | str] = {"name": name, "precision": "bf16"}
        claims.append(Claim(f"Step of {what}: MLE", "step", shape, ("mle",), _time(), limit, "ms"))
        smoothed = ("tok-seq-cider-5",)
        claims.append(
            Claim(f"Step of {what}: Tok-Seq CIDEr, L = 5, over MLE", "step", shape, smoothed, _over("mle"), 1.15, "x")
        )
    return claims


def _of_rewards() -> list[Claim]:
    claims = []
    for batch, count, limit in ((50, 250, 50.0), (5000, 25_000, 1000.0)):
        shape: dict[str, int | str] = {"B": batch, "L": 5}
        both = ("CIDEr-D", "pycocoevalcap CIDEr")
        claims.append(Claim(f"CIDEr-D, {count} candidates", "rewards", shape, both[:1], _time(1000), limit, "us"))
        # Ours in fp32 against ours in float64, and that against theirs.
        claims.append(Claim(f"CIDEr-D, {count} candidates: error", "rewards", shape, both, _error, 1e-6, ""))
    return claims


CLAIMS: tuple[Claim, ...] = (*_of_losses(), *_of_heads(), *_of_steps(), *_of_rewards())
