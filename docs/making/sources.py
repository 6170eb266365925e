"""A hook of mkdocs: files of the repository that are pages of the site, too, and the links to them.

Each example and the changelog is a page, made of the file itself. A link that is good in the repository, as
`../examples/plain_loop.py`, becomes one to that page; of a link to any other file outside of docs/ its text is left. A
page of the navigation that ends with a question mark is listed where it exists.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = "Examples"
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
OUTWARD = re.compile(r"\[(?P<text>[^\]\n]+)\]\((?P<up>(?:\.\./)+)(?P<path>[^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called when mkdocs.yml is read."""
    config.nav = [_present(entry, Path(config.docs_dir)) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called with the pages that lie in docs/."""
    listed = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title = (ast.get_docstring(ast.parse(text)) or path.stem).splitlines()[0]
        page = f"# {path.name}\n\n{title}\n\n```py\n{text}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=page))
        listed.append({path.name: f"examples/{path.stem}.md"})
    for section in config.nav or []:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict) and EXAMPLES in entry:
                entry[EXAMPLES] = listed
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changes))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Called with the text of each page."""
    depth = page.file.src_uri.count("/")

    def turned(link: re.Match[str]) -> str:
        if link["up"].count("/") <= depth:
            return link[0]
        example = re.fullmatch(r"examples/(\w+)\.py", link["path"])
        target = f"examples/{example[1]}.md" if example else PAGES.get(link["path"])
        return f"[{link['text']}]({'../' * depth}{target})" if target else link["text"]

    return OUTWARD.sub(turned, markdown)


def _present(entry: object, folder: Path) -> object:
    if isinstance(entry, list):
        wanted = [part for part in entry if not (isinstance(part, dict) and _absent(part, folder))]
        return [_present(part, folder) for part in wanted]
    if isinstance(entry, dict):
        return {title: _present(part, folder) for title, part in entry.items()}
    return entry.removesuffix("?") if isinstance(entry, str) else entry


def _absent(entry: dict[str, object], folder: Path) -> bool:
    page = next(iter(entry.values()))
    return isinstance(page, str) and page.endswith("?") and not (folder / page[:-1]).is_file()
