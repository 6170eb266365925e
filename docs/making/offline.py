"""A hook of mkdocs: the site fetches nothing from the network, also where it is opened from the disk.

The theme asks a server for the script that lets its search run there; ours comes with the site. A page that would fetch
any other script or style fails the build.
"""

from __future__ import annotations

import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"></script>')
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Called with each page as it will be written."""
    return _local(output, "../" * page.file.dest_uri.count("/"))


def on_post_template(output: str, **_: object) -> str:
    """Called with what is no page, as that for a page that is not there."""
    return _local(output, "")


def _local(output: str, up: str) -> str:
    output = SHIM.sub(f'<script src="{up}worker.js"></script>', output)
    if found := FETCHED.search(output):
        raise PluginError(f"A page must fetch nothing from the network, but has {found[0]} instead.")
    return output
