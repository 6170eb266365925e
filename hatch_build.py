"""Writes the description of the wheel: README.md with links that work where the repository is not.

A package index shows the description alone, so a relative link there leads nowhere. It becomes an absolute link below
`Repository` of `[project.urls]` where that is set; until the project has an address, it becomes the name of the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<path>[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Makes `readme` of the project's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        home = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": describe(text, home)}


def describe(readme: str, home: str | None) -> str:
    """The README for readers without the repository.

    Args:
        readme: the text of README.md.
        home: the address below which the files of the repository are shown, if the project has one.
    """

    def replace(link: re.Match[str]) -> str:
        image, text, path = link["image"], link["text"], link["path"]
        if home is not None:
            return f"{image}[{text}]({home.rstrip('/')}/{'raw' if image else 'blob'}/main/{path})"
        return "" if image else f"{text} (`{path}`)"

    where = "" if home is not None else "\nNames such as `docs/start.md` are files of the project's repository.\n"
    return LINK.sub(replace, readme) + where
