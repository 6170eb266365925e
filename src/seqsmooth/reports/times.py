"""The time of runs, and how many of them shared a device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from seqsmooth.reports.record import Record


def trainings(records: Sequence[Record]) -> list[Record]:
    """One record of each training, however many splits were decoded with it."""
    single = {(one.facts["name"], one.seed, one.facts["started"]): one for one in records if not one.variant}
    return list(single.values())


def by_device(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The trainings of each device, by its name."""
    devices: dict[str, list[Record]] = defaultdict(list)
    for one in trainings(records):
        devices[str(one.facts["device"])].append(one)
    return dict(sorted(devices.items()))


def summary(runs: Sequence[Record]) -> str:
    """The number of trainings, their time, and that of the device."""
    total = sum(float(one.facts["seconds"]) for one in runs)
    return f"{len(runs)} runs, {_hours(total)} of run time in {_hours(busy(runs))}"


def busy(runs: Sequence[Record]) -> float:
    """The seconds in which at least one of the runs went on."""
    total, until = 0.0, 0.0
    for start, end in _spans(runs):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def at_once(runs: Sequence[Record]) -> int:
    """The greatest number of runs that went on at the same moment."""
    spans = _spans(runs)
    return max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)  # a most begins with a run


def _spans(runs: Sequence[Record]) -> list[tuple[float, float]]:
    starts = [datetime.fromisoformat(str(one.facts["started"])).timestamp() for one in runs]
    return sorted((start, start + float(one.facts["seconds"])) for start, one in zip(starts, runs, strict=True))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
