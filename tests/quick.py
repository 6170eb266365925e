"""Run the tests that matter for a change, nearest first, for a minute: `make quick`.

A changed file brings in the tests of its mirrored folder and those that import it, directly or through one other file;
a changed test, oracle, page, config or record brings in what reads it. A core of fast tests always runs. Changed is
what differs from where the branch left main, committed or not. `make test` runs everything.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
CORE = (
    "tests/test_import.py",
    "tests/test_quotes.py",
    "tests/test_symbols.py",
    "tests/cli/test_cli.py",
    "tests/ops/test_cross_entropy.py",
    "tests/smoothing/test_enumeration.py",
    "tests/smoothing/test_identities.py",
)
PAGES = tuple(f"tests/test_{name}.py" for name in ("project", "commands", "quotes", "site", "symbols"))
# What reads files that no test imports.
READERS = {
    "README.md": PAGES,
    "docs": PAGES,
    "configs": (
        "tests/training/test_configs.py",
        "tests/training/test_config_hashes.py",
        "tests/training/test_paper_index.py",
        "tests/test_commands.py",
    ),
    "results": ("tests/reports",),
    "benchmarks": ("tests/benchmarks",),
    "examples": ("tests/test_examples.py",),
    "": ("tests/test_project.py", "tests/test_repository.py"),
}
FARTHEST = 2
"""Imports from a test to a changed file, at most."""


def main() -> int:
    """Run pytest on the chosen files, for as long as --seconds says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--against", default="main", help="the branch to compare with (default main)")
    parser.add_argument("--seconds", type=int, default=45, help="start no test after so many (default 45)")
    parser.add_argument("--jobs", default="2", help="processes (default 2)")
    parser.add_argument("--list", action="store_true", help="print the files and run nothing")
    options = parser.parse_args()
    changes = changed_files(options.against)
    chosen = choose_tests(changes)
    if options.list:
        print(*chosen, sep="\n")
        return 0
    print(f"{len(changes)} changed files, {len(chosen)} files of tests", flush=True)
    command = ["-m", "pytest", "-q", "--no-header", "-r", "fE", "-m", "not slow", "-n", options.jobs, "--dist", "load"]
    return subprocess.run(
        [sys.executable, *command, f"--seconds={options.seconds}", *chosen], cwd=ROOT, check=False
    ).returncode


def changed_files(against: str) -> list[str]:
    """Files that differ from where this branch left another, and files that git does not know yet."""
    base = _git("merge-base", "HEAD", against) or ["HEAD"]
    listed = [*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")]
    return list(dict.fromkeys(listed))


def choose_tests(changes: Iterable[str]) -> list[str]:
    """The files and folders of tests for some changed files, nearest first; the core comes before what is far."""
    distances: dict[str, float] = dict.fromkeys(CORE, 1.5)
    for change in changes:
        for test, distance in _reached(change):
            distances[test] = min(distance, distances.get(test, distance))
    return sorted((test for test in distances if (ROOT / test).exists()), key=lambda test: (distances[test], test))


def _reached(change: str) -> Iterator[tuple[str, float]]:
    """The tests that a changed file may break, each with its distance."""
    path = ROOT / change
    if path.suffix == ".py" and (change.startswith("src/") or change.startswith("tests/")):
        if path.name.startswith("test_") and path.exists():
            yield change, 0
        if change.startswith("src/seqsmooth/"):
            for test in _mirror(path).glob("test_*.py"):
                yield str(test.relative_to(ROOT)), 0 if path.stem in test.stem else 0.5
        for test in TESTS.rglob("test_*.py"):
            distance = _imports(test).get(path)
            if distance is not None:
                yield str(test.relative_to(ROOT)), distance
        return
    first = change if change in READERS else change.split("/")[0] if "/" in change else ""
    yield from ((test, 1) for test in READERS.get(first, READERS[""]) if (ROOT / test).exists())


def _mirror(path: Path) -> Path:
    """The folder of tests that mirrors the folder of a source file."""
    below = path.relative_to(ROOT / "src/seqsmooth").parent
    return TESTS / "kernels" if "kernels" in below.parts else TESTS / (below.parts[0] if below.parts else "nowhere")


@cache
def _imports(test: Path) -> dict[Path, int]:
    """The files that a test imports, directly or through others, by the number of imports on the way."""
    reached: dict[Path, int] = {}
    edge = {test}
    for distance in range(1, FARTHEST + 1):
        edge = {file for path in edge for file in _imported(path)} - reached.keys()
        reached |= dict.fromkeys(edge, distance)
    return reached


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The files of ours that a file imports; a name that a package hands on leads to the file that defines it."""
    tree = _tree(path)
    modules = {name.asname or name.name: name.name for name in _plain_imports(tree)}
    files = {_definition(module, ()) for module in modules.values()}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            files |= {_definition(node.module, (name.name,)) for name in node.names}
        elif isinstance(node, ast.Attribute):
            first, *rest = _chain(node)
            if first in modules:  # as in `ss.rewards.Cider`
                files.add(_definition(modules[first], tuple(rest)))
    return frozenset(file for file in files if file and file.name != "__init__.py")


def _chain(node: ast.expr) -> list[str]:
    """The names of `a.b.c`; an empty one first where it begins with something else."""
    if isinstance(node, ast.Attribute):
        return [*_chain(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


@cache
def _definition(module: str, names: tuple[str, ...]) -> Path | None:
    """The file that defines a name of a module, through the packages that hand it on."""
    file = _file(module)
    if file is None or not names:
        return file
    below = _file(f"{module}.{names[0]}")
    if below is not None:
        return _definition(f"{module}.{names[0]}", names[1:])
    if file.name == "__init__.py":
        for node in ast.walk(_tree(file)):
            if isinstance(node, ast.ImportFrom) and node.module and names[0] in {name.name for name in node.names}:
                return _definition(node.module, names[:1])
    return file


def _plain_imports(tree: ast.AST) -> Iterator[ast.alias]:
    return (name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names)


@cache
def _tree(path: Path) -> ast.AST:
    """A file as Python reads it; nothing where it is gone or broken."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return ast.Module(body=[], type_ignores=[])


@cache
def _file(module: str) -> Path | None:
    """The file of a module of the package, of the tests or of the benchmarks."""
    for root in (ROOT / "src", TESTS, ROOT):
        base = root.joinpath(*module.split("."))
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                return file
    return None


def _git(*words: str) -> list[str]:
    """The lines that git prints; none where it cannot answer."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    sys.exit(main())
