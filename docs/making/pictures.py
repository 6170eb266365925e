"""A hook of mkdocs: our drawings become parts of the page that shows them, and so take its colours, light or dark."""

from __future__ import annotations

import re
from pathlib import Path

PICTURE = re.compile(r'<img alt="(?P<alt>[^"]*)" src="(?:\.\./)*pictures/(?P<name>\w+\.svg)" ?/?>')
FOLDER = Path(__file__).resolve().parents[1] / "pictures"


def on_page_content(content: str, **_: object) -> str:
    """Called with the HTML of each page."""
    return PICTURE.sub(_inlined, content)


def _inlined(found: re.Match[str]) -> str:
    drawing = (FOLDER / found["name"]).read_text(encoding="utf-8")
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{found["alt"]}" ', 1)
