"""What is shipped beside the code: the documentation runs, the files agree with each other."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import textwrap
import tomllib
from pathlib import Path

import pytest

import hatch_build
import seqsmooth

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")) if path.is_file()
)
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)


def python_blocks(page: str) -> list[tuple[str, str, int]]:
    """The blocks of a page that call themselves Python: what they call themselves, the code, its first line."""
    found = []
    for block in FENCE.finditer(page):
        if block["info"].strip().lower().startswith(("python", "py ", "pycon")) or block["info"].strip() == "py":
            first = page.count("\n", 0, block.start("code"))
            found.append((block["info"].strip(), textwrap.dedent(block["code"]), first))
    return found


def shipped_files() -> list[Path]:
    """The files that are in the repository, or are about to be."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    # A hook exports the repository it was called from, and git would look there.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    for package in ("transformers", "trl"):
        used = any(re.search(rf"^(from|import) {package}\b", code, re.MULTILINE) for _, code, _ in blocks)
        if used and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install 'seqsmooth[hf,trl]'")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__page__"}
    for info, code, first in blocks:
        assert info == "python", f"a block must be marked `python` and nothing else; it is marked `{info}`."
        # As many empty lines as come before it, so that a traceback names the line of the page.
        exec(compile("\n" * first + code, str(page), "exec"), namespace)


def test_blocks_are_found() -> None:
    page = "# T\n\n```python\na = 1\n```\n\n!!! note\n    ```python skip\n    b = 2\n    ```\n```bash\nls\n```\n"
    assert python_blocks(page) == [("python", "a = 1\n", 3), ("python skip", "b = 2\n", 8)]


def test_continuous_integration_is_make_test() -> None:
    script = ROOT / ".ci" / "run"
    lines = [line.strip() for line in script.read_text(encoding="utf-8").splitlines()]
    assert lines[0].startswith("#!")
    assert "set -eu" in lines
    assert lines[-1] == "make test"
    assert script.stat().st_mode & 0o111, ".ci/run must be executable"


def test_make_test_checks_everything() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for tool in (
        "ruff check",
        "ruff format --check",
        "mypy",
        "lint-imports",
        "mkdocs build --strict",
        "pytest",
        "--cov-fail-under=95",
    ):
        assert f"{tool}" in makefile, tool
    installs = [line for line in makefile.splitlines() if "pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs), "torch must be asked for through the constraint"


def test_what_tests_would_skip_for_is_installed_for_them_in_one_version() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in ("hf", "trl", "bench", "metrics", "hdf5"):
        assert set(extras[extra]) <= set(extras["dev"]), extra
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for package in ("torch", "transformers", "accelerate", "trl", "liger-kernel"):
        assert re.search(rf"^{package}==\d", pinned, re.MULTILINE), package


def test_no_file_holds_the_path_of_a_machine() -> None:
    folders = "|".join(("work", "root", "tmp", "home"))
    machine = re.compile(rf"(?<![\w.~/*-])/(?:{folders})/".encode())
    for path in shipped_files():
        found = machine.search(path.read_bytes())
        assert found is None, f"{path.relative_to(ROOT)} must hold no path of a machine, but holds {found!r} instead."


def test_the_citation_agrees_with_the_package() -> None:
    top: dict[str, str] = {}
    for line in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"( *- | *)([\w-]+: ?|)(\S.*|)", line), f"not a line of YAML: {line!r}"
        assert "\t" not in line
        if pair := re.fullmatch(r"([a-z-]+): *(.*)", line):
            assert pair[1] not in top, f"{pair[1]} is there twice"
            top[pair[1]] = pair[2].strip('"')
    assert top["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "preferred-citation"} <= set(top)
    assert top["version"] == seqsmooth.__version__
    assert top["license"] == "MIT"


def test_the_changelog_knows_this_version() -> None:
    assert re.search(
        rf"^## \[Unreleased\]|^## \[{re.escape(seqsmooth.__version__)}\]",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )


def test_links_of_the_description_work_without_the_repository() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    home = "https://example.org/us/seqsmooth"
    relative = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
    paths = relative.findall(readme)
    assert paths
    absolute = hatch_build.describe(readme, home)
    assert relative.findall(hatch_build.describe(readme, None)) == relative.findall(absolute) == []
    for path in paths:
        assert (ROOT / path.split("#")[0]).exists(), path
        assert f"({home}/blob/main/{path})" in absolute or f"({home}/raw/main/{path})" in absolute


@pytest.mark.parametrize(
    ("text", "without", "at"),
    [
        ("[a b](docs/a.md#c).", "a b (`docs/a.md#c`).", "[a b](https://h/blob/main/docs/a.md#c)."),
        ("![p](docs/p.svg)", "", "![p](https://h/raw/main/docs/p.svg)"),
        ("[x](https://x.org) [y](#y)", "[x](https://x.org) [y](#y)", "[x](https://x.org) [y](#y)"),
    ],
)
def test_a_link_of_the_description(text: str, without: str, at: str) -> None:
    assert hatch_build.describe(text, None).startswith(f"{without}\nNames such as")
    assert hatch_build.describe(text, "https://h/") == at


def test_the_metadata_knows_the_paper_and_what_the_source_holds() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["urls"]["Paper"] in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert all((ROOT / path).exists() for path in settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])


def test_the_tour_shows_every_room_in_the_order_of_the_import_rule() -> None:
    page = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `(\w+)/` \| .* \| (.*) \|$", page, re.MULTILINE)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    places = {}
    for place, layer in enumerate(reversed(settings["tool"]["importlinter"]["contracts"][0]["layers"])):
        places |= {room.removeprefix("seqsmooth."): place for room in layer.split(" | ")}
    assert {room for room, _ in rooms} == set(places)
    assert sorted(rooms, key=lambda room: places[room[0]]) == rooms
    for room, files in rooms:
        names = re.findall(r"`([\w.]+)`", files)
        assert names
        assert all((ROOT / "src/seqsmooth" / room / name).is_file() for name in names), room
