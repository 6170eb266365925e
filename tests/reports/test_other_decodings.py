"""Beams and ensembles: each beside MLE with as many models, decoded in the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Results
from seqsmooth.reports.results_tables import variants

SOURCE = np.random.default_rng(0)
EACH = SOURCE.normal(0, 20, ITEMS) + SOURCE.normal(0, 2, (2, ITEMS))  # easy items are easy for both: pairs matter
RESAMPLES, SEED = 1000, 0
FIVE: dict[str, Any] = {"members": (0, 1, 2, 3, 4), "decoding": {"beam": 3}}


def made(row: str, each: np.ndarray, name: str, **changes: Any) -> Record:
    return record(row, 0, each, variant=name, **changes)


def cells(*records: Record) -> dict[tuple[str, ...], str]:
    """The last column by loss, models and beam."""
    lines = variants(Results(tuple(records))).replace("\u00a0", " ").splitlines()
    assert lines[0].endswith("| CIDEr - MLE [95 %: items] |")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {(loss, of, beam): last for loss, _, _, of, beam, *_, last in rows}


def test_an_ensemble_differs_from_that_of_mle_by_a_paired_bootstrap() -> None:
    found = cells(made("MLE", 90 + EACH[0], "a", **FIVE), made("Seq", 91 + EACH[1], "b", **FIVE))
    assert found["MLE", "5 models", "3"] == ""
    apart = 1 + EACH[1] - EACH[0]
    rows = np.random.default_rng(SEED).integers(0, ITEMS, (RESAMPLES, ITEMS))
    low, high = np.percentile(apart[rows].mean(1), [2.5, 97.5])
    value, *ends = found["Seq", "5 models", "3"].replace("*", "").replace("[", "").replace("]", "").split()
    assert float(value) == pytest.approx(apart.mean(), abs=0.005)
    # The draws are others than those of the page: the ends of 1,000 of them agree to a fifth of the deviation.
    slack = apart.std() / ITEMS**0.5 / 5
    assert [float(end.strip(",")) for end in ends] == pytest.approx([low, high], abs=slack)


@pytest.mark.parametrize(
    "other",
    [
        {**FIVE, "decoding": {"beam": 5}},
        {**FIVE, "members": (0, 1, 2)},
        {**FIVE, "split": "val"},
        {**FIVE, "items": "others"},
        {**FIVE, "table": "another"},
    ],
    ids=["beam", "members", "split", "items", "table"],
)
def test_what_is_not_alike_is_not_compared(other: dict[str, Any]) -> None:
    found = cells(made("MLE", 90 + EACH[0], "a", **other), made("Seq", 91 + EACH[1], "b", **FIVE))
    assert found["Seq", "5 models", "3"] == ""
