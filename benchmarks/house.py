"""How large the source of two checkouts is and how much of it one call of a loss passes, side by side.

    python -m benchmarks.house a3199dc .          # a table; each side is a checkout or a revision of this repository
    python -m benchmarks.house --trace .          # the files and the records of the call, by name

What is counted is said in `ROWS` and, for the call, in `benchmarks/traced_call.py`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PARTICIPLE = re.compile(
    r"""[a-z]+ed
    | begun | bound | broken | built | chosen | drawn | driven | fed | felt | found | frozen | given | gone | grown
    | held | hidden | kept | known | laid | led | left | lent | lost | made | meant | met | paid | said | seen | sent
    | shown | sold | spent | spoken | stuck | taken | taught | thought | thrown | told | torn | understood | undone
    | woken | worn | written""",
    re.VERBOSE,
)
"""Left out are "read", and irregular participles that look like the verb itself, such as "cut", "put" and "spread"."""
NOT_A_PARTICIPLE = re.compile("bed|bleed|embed|exceed|feed|hundred|indeed|need|proceed|red|seed|shed|speed|succeed")
FIRST_WORD = re.compile("is|are|was|were|has|have|must|check|count|find|list|from|to|as|with|without")
"""Words that make a predicate, an order or a phrase of a participle that comes last: `is_installed`, `from_hidden`."""


@contextmanager
def checkout(place: str) -> Iterator[Path]:
    """Give the folder of a checkout, or that of a temporary copy of a revision of this repository."""
    if (Path(place) / "src" / "seqsmooth").is_dir():
        yield Path(place).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", place], cwd=ROOT, capture_output=True, check=False)
        if archive.returncode:
            raise SystemExit(f"{place!r} is neither a checkout nor a revision of this repository.")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def import_from(folder: Path) -> dict[str, str]:
    """Return the environment of a process that imports seqsmooth from a checkout, and all else as this one does."""
    paths = [str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def source_files(folder: Path) -> list[Path]:
    """List the files of the package, caches aside."""
    return sorted(path for path in (folder / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def count_lines(folder: Path) -> int:
    """Count the lines of the source."""
    return sum(path.read_bytes().count(b"\n") for path in source_files(folder))


@cache
def trace_call(folder: Path) -> dict[str, Any]:
    """Run one call of a loss in a process of its own; return its files with their functions, and its records."""
    script = Path(__file__).with_name("traced_call.py")
    environment = import_from(folder) | {"SEQSMOOTH_KERNELS": "torch"}
    run = subprocess.run(
        [sys.executable, "-P", str(script)], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(f"The call could not be traced in {folder}:\n{run.stderr[-3000:]}")
    trace: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return trace


def syntax_trees(folder: Path) -> Iterator[ast.Module]:
    """Parse each Python file of the source."""
    for path in source_files(folder):
        if path.suffix == ".py":
            yield ast.parse(path.read_bytes())


def definitions(folder: Path, *kinds: type) -> Iterator[Any]:
    """Find the classes or functions of the source, nested ones too."""
    for tree in syntax_trees(folder):
        yield from (node for node in ast.walk(tree) if isinstance(node, kinds))


def repeated_classes(folder: Path) -> dict[str, int]:
    """Return the names of classes that are defined more than once, and how often."""
    counts = Counter(node.name for node in definitions(folder, ast.ClassDef))
    return {name: count for name, count in sorted(counts.items()) if count > 1}


def is_participle(name: str) -> bool:
    """Return whether a function is named by a bare participle: its last or only word is one."""
    *_, last = words = [word for word in name.lower().split("_") if word] or [""]
    if FIRST_WORD.fullmatch(words[0]) or NOT_A_PARTICIPLE.fullmatch(last):
        return False
    return PARTICIPLE.fullmatch(last) is not None


def participles(folder: Path) -> dict[str, int]:
    """Return the names of functions that are bare participles, and how often; a property is read like an attribute."""
    functions = definitions(folder, ast.FunctionDef, ast.AsyncFunctionDef)
    counts = Counter(node.name for node in functions if is_participle(node.name) and not _is_property(node))
    return dict(sorted(counts.items()))


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
    return not decorators.isdisjoint(("property", "cached_property", "setter"))


def count_configs(folder: Path) -> int:
    """Count the YAML files below `configs`."""
    return sum(1 for _ in (folder / "configs").rglob("*.yaml"))


def count_duplicates(folder: Path) -> int | str:
    """Count the pairs that the command `duplicates` finds in the source, where there is such a command."""
    if shutil.which("duplicates") is None:
        return "not here"
    words = ["duplicates", "--repo", str(folder / "src"), "--most", "200", "--seconds", "120"]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    match = re.match(r"(\d+) pairs?", said)
    return int(match[1]) if match else 0 if said.startswith("no duplicates") else "not counted"


@dataclass(frozen=True)
class Count:
    """A row of the table: what is counted, how, and the most that it may be."""

    title: str
    measure: Callable[[Path], int | str]
    limit: int | None = None


ROWS = (
    Count("lines of `src` (all files)", count_lines, 27_000),
    Count("files of `src`", lambda folder: len(source_files(folder))),
    Count("files that `ss.tok_seq(...)(logits, targets)` passes", lambda folder: len(trace_call(folder)["files"]), 12),
    Count("record types that it makes", lambda folder: len(trace_call(folder)["records"]), 8),
    Count("config files", count_configs),
    Count("class names defined more than once", lambda folder: len(repeated_classes(folder)), 0),
    Count("functions named by a bare participle", lambda folder: sum(participles(folder).values()), 0),
    Count("rows of `duplicates` over `src`", count_duplicates),
)


def table(before: Path, after: Path) -> str:
    """Compare two checkouts, in Markdown."""
    lines = ["| what | before | after | at most |", "|---|---:|---:|---:|"]
    for row in ROWS:
        numbers = [row.measure(before), row.measure(after), "" if row.limit is None else row.limit]
        cells = [f"{number:,}" if isinstance(number, int) else number for number in numbers]
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def names(folder: Path, *, call_only: bool = False) -> str:
    """List what is behind the numbers of one checkout."""
    trace = trace_call(folder)
    sections: dict[str, dict[str, object]] = {
        "files of the call": {file: ", ".join(functions) for file, functions in sorted(trace["files"].items())},
        "record types of the call": dict(sorted(trace["records"].items())),
    }
    if not call_only:
        sections["class names defined more than once"] = {**repeated_classes(folder)}
        sections["functions named by a bare participle"] = {**participles(folder)}
    blocks = []
    for title, lines in sections.items():
        blocks.append(f"{title}: {len(lines)}\n" + "".join(f"  {name}: {value}\n" for name, value in lines.items()))
    return "\n".join(blocks)


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, or the names behind the numbers."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.house", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="+", metavar="CHECKOUT", help="the folder of a checkout, or a git revision")
    parser.add_argument("--trace", action="store_true", help="list the files and the records of the call in each")
    parser.add_argument("--names", action="store_true", help="list these, repeated classes and participles in each")
    given = parser.parse_args(words)
    if not (given.trace or given.names) and len(given.places) != 2:
        parser.error("Two checkouts make a table; --trace and --names take any number.")
    with ExitStack() as stack:
        folders = [stack.enter_context(checkout(place)) for place in given.places]
        if given.trace or given.names:
            for place, folder in zip(given.places, folders, strict=True):
                print(f"== {place}\n{names(folder, call_only=not given.names)}")
        else:
            print(table(*folders))


if __name__ == "__main__":
    main()
