"""The numbers of the paper's tables, from paper.json beside this file, which names its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PaperRow:
    """A row of a table of the paper.

    Attributes:
        label: as the configs name it.
        printed: by metric, what the paper shows.
        stage_one: by metric, what the LaTeX source has in columns that the printed table hides: the CNN frozen.
    """

    label: str
    printed: Mapping[str, float]
    stage_one: Mapping[str, float]


@cache
def paper_tables() -> dict[str, tuple[PaperRow, ...]]:
    """The rows of each table, in the paper's order."""
    content = _content()
    return {
        table["name"]: tuple(PaperRow(row["row"], row["printed"], row.get("stage one", {})) for row in table["rows"])
        for table in content["tables"]
    }


def paper_source() -> str:
    """Where the numbers are from."""
    return str(_content()["source"])


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    return content
