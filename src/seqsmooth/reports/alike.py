"""Compare configs: the runs of a row differ in their seed alone, and the rows of a table in keys that are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seqsmooth.reports.record import Record
from seqsmooth.training.reader import differences, listed_keys, with_defaults
from seqsmooth.training.runs import FREE

UNLIKE = (*FREE, "name", "seed", "trainer.device", "trainer.bundle")
"""Keys in which the runs of a row may differ: none changes what is learned but the seed."""
EXPECTED = (*FREE, "name", "row", "table", "seed")
"""Keys in which the rows of a table always differ, beside the section `objective`."""
NOT_SET = "not set"
FACTS = ("device", "parameters", "epochs", "steps")


def check_row(label: str, records: Sequence[Record]) -> None:
    """Check that runs can be averaged: a mean over more than seeds would be nobody's score."""
    first, *others = records
    known = {first.seed: first.place}
    config = with_defaults(first.facts["config"])
    for other in others:
        keys = [key for key in differences(config, with_defaults(other.facts["config"])) if key not in UNLIKE]
        parts = [listed_keys(keys)] if keys else []
        parts += ["their corpus"] if first.data != other.data else []
        parts += ["how they were decoded"] if first.decoding != other.decoding else []
        if parts:
            raise ValueError(
                f"The runs of a row must differ in their seed alone (another `row` in a config makes another row), but "
                f"those of {label!r}, {first.place} and {other.place}, differ in {' and '.join(parts)}."
            )
        if other.seed in known:
            raise ValueError(
                f"The runs of a row must be of different seeds, but those of {label!r}, {known[other.seed]} and "
                f"{other.place}, are both of seed {other.seed}."
            )
        known[other.seed] = other.place


def list_differences(records: Iterable[tuple[str, Record]]) -> dict[str, dict[str, list[str]]]:
    """Each key outside the objective in which runs differ: its values, and for each value the labels that have it.

    Compared are the config, the corpus, the way to decode, device, parameters, epochs, steps and versions. Keys of the
    objective, names, places and seeds are left out: rows are told apart by those.
    """
    flats = [(label, _flat(_comparable_values(record))) for label, record in records]
    found = {}
    for key in dict.fromkeys(key for _, flat in flats for key in flat):
        values: dict[str, dict[str, None]] = {}
        for label, flat in flats:
            values.setdefault(str(flat.get(key, NOT_SET)), {})[label] = None
        if len(values) > 1:
            found[key] = {value: list(labels) for value, labels in values.items()}
    # A section of another kind has other keys, which say nothing more.
    other = {key.removesuffix("kind") for key in found if key.endswith(".kind")}
    return {key: values for key, values in found.items() if NOT_SET not in values or not key.startswith(tuple(other))}


def _comparable_values(record: Record) -> dict[str, Any]:
    config = {key: value for key, value in with_defaults(record.facts["config"]).items() if key != "objective"}
    facts = {name: record.facts[name] for name in FACTS} | {"versions": dict(record.facts["versions"] or {})}
    return {**config, "corpus": record.data[:12], "decoded with": dict(record.decoding), **facts}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key, without those that always differ."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{dotted}.")
        elif dotted not in EXPECTED:
            flat[dotted] = value
    return flat


def describe_differences(unlike: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, str]:
    """Tell for each key which rows have which value; the value of most rows comes last."""
    described = {}
    for key, values in unlike.items():
        *others, (usual, rows) = sorted(values.items(), key=lambda pair: len(pair[1]))
        elsewhere = {label for _, labels in others for label in labels}
        parts = [f"{value} for {_quote_labels(labels)}" for value, labels in others]
        parts.append(f"{usual} for {_quote_labels(rows) if len(rows) < 4 or elsewhere & {*rows} else 'all others'}")
        described[key] = "; ".join(parts)
    return described


def _quote_labels(labels: Sequence[str]) -> str:
    quoted = [f"\u201c{label}\u201d" for label in labels]  # labels have commas of their own
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
