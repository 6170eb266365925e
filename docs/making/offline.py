"""A hook of mkdocs: a page that would fetch anything from the network fails the build."""

from __future__ import annotations

import re

from mkdocs.exceptions import PluginError

FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def on_post_page(output: str, **_: object) -> str:
    """Called with each page as it will be written."""
    if found := FETCHED.search(output):
        raise PluginError(f"A page must fetch nothing from the network, but has {found[0]} instead.")
    return output


on_post_template = on_post_page  # of what is no page, as that for a page that is not there
