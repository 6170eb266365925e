"""A hook of mkdocs: pages of wide tables take the room of the list of pages, too; the tabs above still lead there."""

from __future__ import annotations

from mkdocs.structure.pages import Page

WIDE = ("results.md", "results/glance.md")


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Called with the text of each page."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["navigation"]
    return markdown
