"""A hook of mkdocs: formulas become MathML, which browsers draw themselves, without a script and without a network.

In a page, `$...$` and `$$...$$` are formulas, as on GitHub.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\((.*?)\\\)|\\\[(.*?)\\\])</\1>', re.DOTALL)


def on_page_content(drawn: str, **_: object) -> str:
    """Called with the HTML of each page."""
    return FORMULA.sub(_drawn, drawn)


def _drawn(found: re.Match[str]) -> str:
    element, inline, display = found.groups()
    drawn = convert(html.unescape(inline or display), display="inline" if inline else "block")
    # Formulas may be wider than a telephone: they scroll by themselves.
    return f'<{element} class="formula">{drawn}</{element}>'
