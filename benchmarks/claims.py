"""Promises of speed, memory and agreement, as data, and whether reports keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.head import LINEAR, ONEDNN_PRODUCTS, PRODUCTS
from benchmarks.loss import PEER, SPARSE
from benchmarks.paths import PATHS, named
from benchmarks.records import GPU_MODES, Mode, Spread, TimingReport, TimingRow, TimingTable
from benchmarks.report import is_on_cpu, number
from benchmarks.step import JOEY

GPU = "H200"
"""Promises of a GPU are for this one; reports of others say nothing about them."""
CPU = "CPU"
"""Promises of a CPU are ratios of its own time, for any."""
THREADS = (1, 2)
"""Numbers of threads for which each promise of a CPU is measured."""
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
    device: str = GPU
    """What the name of the device must have in it."""
    threads: tuple[int, ...] = ()
    """Numbers of threads that each have a table; none on a GPU."""

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


def check(reports: Sequence[TimingReport], device: str | None = None) -> list[ClaimResult]:
    """Judge every promise by these reports, or those of one kind of device."""
    return [judge(claim, reports) for claim in CLAIMS if device in (None, claim.device)]


def devices(reports: Sequence[TimingReport]) -> list[str]:
    """List the kinds of devices that reports are of, for promises: both where there is no report."""
    kinds = {CPU if is_on_cpu(report) else GPU for report in reports}
    return [device for device in (GPU, CPU) if device in kinds or not kinds]


def judge(claim: Claim, reports: Sequence[TimingReport]) -> ClaimResult:
    """Judge a promise by the worst of all rows, in all tables that it is about.

    One row beyond the limit breaks the promise; it is held only if every row was measured.
    """
    numbers: list[tuple[float, str]] = []
    tables = _tables(claim, reports)
    counted = {table.shape.get("threads") for _, table in tables}
    missing = [f"table with {count} threads" for count in claim.threads if count not in counted] if counted else []
    for report, table in tables:
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
        if report.benchmark == claim.benchmark and claim.device in str(report.machine["device"])
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


def _over_peer(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    """Measure the CPU time over that of the peer in the same round."""
    return None if "cpu" not in row.over_peer else row.over_peer["cpu"].median


def _over_products(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    """Measure the CPU time over that of the three matrix products by the library that ours take them from."""
    ratio, faster = _over_peer(row, table, report), table.row(ONEDNN_PRODUCTS)
    if ratio is None or faster is None or row.name.endswith(named("", "torch")):
        return ratio
    base = _over_peer(faster, table, report)
    return None if base is None else ratio / base


def _over_ours(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    """Measure the CPU time over that of our own base in the same round."""
    return None if "cpu" not in row.over_ours else row.over_ours["cpu"].median


def _system_percent(row: TimingRow, table: TimingTable, report: TimingReport) -> float | None:
    """Measure the time of the operating system over that of the user."""
    share = row.system_share
    return None if share is None or share >= 1 else 100 * share / (1 - share)


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


LAZY = (MLE, "Label smoothing", "MLE + entropy", *CLOSED_FORMS, *SAMPLED)
"""All lazy objectives that know nothing of rewards and of similar tokens."""
REWARDED = ("Seq CIDEr, L=5", "Seq BLEU, L=5")
TOK, SAMPLED_TOK, ON_THE_FLY = "Tok dense", "Tok sampled-16", "Tok dense, on the fly"
"""Tok as it is by default, which keeps rows; drawn; and as memory is saved, which computes rows at every step."""
TOKS = (TOK, "Tok top-64")
TOK_SEQS = tuple(f"Tok-Seq {which}" for which in ("exact, refs", "lazy, L=5", "CIDEr, L=5"))
LOSSES_ON_CPU = (("captions", "850 x 9800"), ("sentences", "800 x 22822"), ("llm", "512 x 128256"))
HEADS_ON_CPU = (("captions", "850 x 512 x 9800"), ("sentences", "800 x 256 x 22822"))
HEAD_SEQS = (MLE, "Label smoothing", *CLOSED_FORMS, *SAMPLED)
LAZY_STEPS, TOK_SEQ_STEPS = ("seq-hamming", "seq-hamming-5", "seq-cider-5"), ("tok-seq-cider-5",)
LOSS_LIMITS = {"torch": (1.0, 1.5), "native": (0.5, 1.0)}
"""Of losses over `F.cross_entropy`, and of those with a law of similarity."""


def _on_cpu(
    says: str,
    benchmark: str,
    name: str,
    rows: Sequence[str],
    measure: Measure,
    limit: float,
    unit: str = "x",
    *,
    at_least: bool = False,
) -> Claim:
    """Make a promise for fp32 on a CPU, one thread and two."""
    where: dict[str, int | str] = {"name": name}
    where |= {"precision": "fp32"} if benchmark == "step" else {"dtype": "float32"}
    return Claim(says, benchmark, where, tuple(rows), measure, limit, unit, at_least, device=CPU, threads=THREADS)


def _of_losses_on_cpu() -> list[Claim]:
    claims = []
    for name, size in LOSSES_ON_CPU:
        for path in PATHS:
            sharp, similar = LOSS_LIMITS[path]
            groups = (
                ("MLE to Seq", LAZY, sharp),
                ("Seq with a reward", REWARDED, sharp),
                ("Tok", (*TOKS, SAMPLED_TOK), similar),
                ("Tok-Seq", TOK_SEQS, similar),
            )
            for what, losses, limit in groups:
                rows = [named(loss, path) for loss in losses]
                says = f"CPU loss {size}, {path}: {what} over `{PEER}`"
                claims.append(_on_cpu(says, "loss", name, rows, _over_peer, limit))
        kinds = (
            ("memory beyond logits and gradient", (*LAZY, *REWARDED, *TOKS, *TOK_SEQS)),
            ("the same, Tok without stored rows", (SAMPLED_TOK, ON_THE_FLY)),
        )
        for what, losses in kinds:
            rows = [named(loss, path) for path in PATHS for loss in losses]
            claims.append(_on_cpu(f"CPU loss {size}: {what}", "loss", name, rows, _mebibytes, 32, "MiB"))
    return claims


def _of_heads_on_cpu() -> list[Claim]:
    groups = (
        ("MLE to Seq", HEAD_SEQS, 1.05),
        ("Seq with a reward", REWARDED, 1.05),
        ("Tok", TOKS, 1.15),
        ("Tok-Seq", TOK_SEQS, 1.25),
    )
    return [
        _on_cpu(
            f"CPU head {size}, {path}: {what} over {PRODUCTS}",
            "head",
            name,
            [named(loss, path) for loss in losses],
            _over_products,
            limit,
        )
        for name, size in HEADS_ON_CPU
        for path in PATHS
        for what, losses, limit in groups
    ]


def _of_steps_on_cpu() -> list[Claim]:
    claims = []
    for name, what in (("show_tell", "Show and Tell"), ("rnnsearch", "RNNsearch")):
        every = ("mle", "tok", *LAZY_STEPS, *TOK_SEQ_STEPS, "own-hamming-1", "own-cider-2")
        listed: list[tuple[str, tuple[str, ...], Measure, float, str]] = [
            ("Tok over MLE", ("tok",), _over_ours, 1.05, "x"),
            ("lazy Seq over MLE", LAZY_STEPS, _over_ours, 1.02, "x"),
            ("lazy Tok-Seq over MLE", TOK_SEQ_STEPS, _over_ours, 1.02, "x"),
            ("own prefixes, L = 1, over MLE", ("own-hamming-1",), _over_ours, 2.05, "x"),
            ("system time over user time", every, _system_percent, 5, "%"),
            ("our MLE over the model in plain torch", ("mle",), _over_peer, 1, "x"),
        ]
        for says, losses, measure, limit, unit in listed:
            rows = [named(loss, "native") for loss in losses]
            claims.append(_on_cpu(f"CPU step of {what}: {says}", "step", name, rows, measure, limit, unit))
    says = "CPU step of RNNsearch: JoeyNMT over our MLE"
    claims.append(_on_cpu(says, "step", "rnnsearch", (JOEY,), _over_ours, 2, at_least=True))
    return claims


CLAIMS: tuple[Claim, ...] = (
    *(*_of_losses(), *_of_heads(), *_of_steps(), *_of_rewards()),
    *(*_of_losses_on_cpu(), *_of_heads_on_cpu(), *_of_steps_on_cpu()),
)
