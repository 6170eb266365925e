"""A hook of mkdocs: pages of wide tables have the room of the list of pages, too; the tabs above still lead there."""

from __future__ import annotations

from typing import Protocol

WIDE = ("results.md",)


class File(Protocol):
    """Where a page is from."""

    src_uri: str


class Page(Protocol):
    """What a hook needs of a page."""

    file: File
    meta: dict[str, object]


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Called with the text of each page."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["navigation"]
    return markdown
