"""What makes the site of the pages: formulas, shapes, links out of docs/, drawings."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]


def part(name: str) -> ModuleType:
    """A file of docs/making, which is no package."""
    spec = importlib.util.spec_from_file_location(f"making_{name}", ROOT / f"docs/making/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml", reason="needs latex2mathml: pip install 'seqsmooth[dev]'")
    drawn = part("maths").on_page_content(r'<p>with <span class="arithmatex">\(a &lt; \frac{1}{\tau}\)</span>.</p>')
    assert re.search(r"^<p>with <span[^>]*><math .*<mfrac>.*<mn>1</mn>.*</mfrac>.*</math></span>\.</p>$", drawn)
    assert "&lt;" in drawn or "&#x0003C;" in drawn


def test_links_out_of_the_pages_are_turned() -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'seqsmooth[dev]'")
    sources = part("sources")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="recipes/distillation.md"))
    text = "[a](../../examples/plain_loop.py) [b](../losses.md#hamming) [c](../../CHANGELOG.md) [d](../../src/x.py)"
    turned = "[a](../examples/plain_loop.md) [b](../losses.md#hamming) [c](../changelog.md) d"
    assert sources.on_page_markdown(text, page=page) == turned


def test_a_page_that_fetches_fails_the_build() -> None:
    errors = pytest.importorskip("mkdocs.exceptions", reason="needs mkdocs: pip install 'seqsmooth[dev]'")
    offline = part("offline")
    fine = '<script src="../iframe-worker.js"></script><a href="https://arxiv.org">the paper</a>'
    assert offline.on_post_page(fine) == fine
    for other in ('<link rel="stylesheet" href="//fonts.example/a.css">', '<script src="http://a.example/b.js">'):
        with pytest.raises(errors.PluginError, match="must fetch nothing from the network, but has <"):
            offline.on_post_page(other)


def test_a_page_with_a_question_mark_is_listed_where_it_is(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'seqsmooth[dev]'")
    (tmp_path / "here.md").touch()
    nav = [{"Section": [{"Here": "here.md?"}, {"Not yet": "later.md?"}, {"Always": "always.md"}]}]
    config = part("sources").on_config(SimpleNamespace(nav=nav, docs_dir=str(tmp_path)))
    assert config.nav == [{"Section": [{"Here": "here.md"}, {"Always": "always.md"}]}]


LAW = """\
class Law:
    \'\'\'A law <q, z>.

    Args:
        rows: some rows.

    Examples:
        >>> Law(1) < Law(2)
    \'\'\'

    bias: Tensor  # (V,)
    scale: Tensor  # ()
    \'\'\'What multiplies.\'\'\'

    def __init__(
        self,
        rows: Tensor,  # (V, D)
    ) -> None: ...

    def forward(
        self,
        tokens: Tensor,  # (B, T) int64, padded
        plain: int = 0,
    ) -> Tensor:  # (B, T, V)
        \'\'\'What follows.\'\'\'
"""


def test_shapes_are_read_off_the_code(tmp_path: Path) -> None:
    griffe = pytest.importorskip("griffe", reason="needs griffe: pip install 'seqsmooth[dev]'")
    (tmp_path / "small.py").write_text(LAW, encoding="utf-8")
    shapes = griffe.load_extensions(part("shapes").Shapes())
    told = {
        name: thing.docstring.value.strip()
        for name, thing in griffe.load("small", search_paths=[tmp_path], extensions=shapes)["Law"].members.items()
        if thing.docstring
    }
    assert told == {
        "bias": "`(V,)`",
        "scale": "`()`; What multiplies.",
        "forward": "What follows.\n\nArgs:\n    tokens: `(B, T) int64`, padded\n\nReturns:\n    `(B, T, V)`",
    }
    law = griffe.load("small", search_paths=[tmp_path], extensions=shapes)["Law"].docstring.value
    assert law.startswith("A law &lt;q, z>.\n\nArgs:\n    rows: `(V, D)`; some rows.\n\nExamples:\n")
    assert ">>> Law(1) < Law(2)" in law


def test_no_api_page_shows_a_module_for_a_function() -> None:
    """A module and what it defines may have one name, and griffe then takes the module: the page must say more."""
    griffe = pytest.importorskip("griffe", reason="needs griffe: pip install 'seqsmooth[dev]'")
    package = griffe.load("seqsmooth", search_paths=[ROOT / "src"])
    for page in (ROOT / "docs/api").glob("*.md"):
        for path in re.findall(r"^::: seqsmooth\.(\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert not package[path].is_module, f"{path} of {page.name} must be no module."


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOTTED = re.compile(r"`(?P<name>(?:ss|seqsmooth)(?:\.[A-Za-z_]\w*)+)(?:\([^`]*)?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_the_package_that_a_page_mentions_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    names = {f"seqsmooth.{match['name'].partition('.')[2]}" for match in DOTTED.finditer(text)}
    assert sorted(name for name in names if not exists(name)) == []


def exists(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    path = name.split(".")
    for depth in range(len(path), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(path[:depth]))
        except ModuleNotFoundError:
            continue
        for part in path[depth:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


def test_a_name_that_is_gone_is_seen() -> None:
    assert exists("seqsmooth.rewards.Cider")
    assert exists("seqsmooth.Similarity.from_model")
    assert not exists("seqsmooth.rewards.Meteor")
    assert not exists("seqsmooth.nowhere.Thing")


def test_the_drawings_are_what_the_library_says() -> None:
    """Words are the same, and numbers to a unit of the last place that is written, or a pixel."""
    number = re.compile(r"\d+\.?\d*")
    for file, content in part("targets").drawn():
        kept = (ROOT / "docs/pictures" / file).read_text(encoding="utf-8")
        assert number.sub("#", content) == number.sub("#", kept), file
        for ours, theirs in zip(number.findall(content), number.findall(kept), strict=True):
            assert float(ours) == pytest.approx(float(theirs), abs=1.0 if float(theirs) > 1.5 else 0.011), file


def test_a_page_of_wide_tables_has_no_list_of_pages_beside_it() -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'seqsmooth[dev]'")
    wide = part("wide")
    for name, meta in (("results.md", {"hide": ["navigation"]}), ("results/stage_two.md", {})):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={})
        assert wide.on_page_markdown("text", page=page) == "text"
        assert page.meta == meta
    assert all((ROOT / "docs" / name).is_file() for name in wide.WIDE)
