"""Break one line of the core at a time and see whether a test notices: `python tests/mutants.py --count 100`.

Survivors are printed with their line. A mutant that changes nothing a caller could see (a limit of memory, a dtype that
is converted again) is told apart by reading, not by this script.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("ops", "smoothing", "rewards", "decoding")
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OPERATIONS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Mutator(ast.NodeTransformer):
    """Changes the place numbered `chosen`; with none chosen, only counts the places."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen = chosen
        self.places: list[str] = []

    def _here(self, node: ast.expr, what: str) -> bool:
        self.places.append(f"{node.lineno}: {what}: {ast.unparse(node)[:90]}")
        return len(self.places) - 1 == self.chosen

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if type(node.ops[0]) in COMPARISONS and self._here(node, "comparison"):
            node.ops[0] = COMPARISONS[type(node.ops[0])]()
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if type(node.op) in OPERATIONS and self._here(node, "operation"):
            node.op = OPERATIONS[type(node.op)]()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, (ast.Invert, ast.Not, ast.USub)) and self._here(node, "sign dropped"):
            return self.generic_visit(node.operand)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            if self._here(node, "flag"):
                return ast.copy_location(ast.Constant(not node.value), node)
        elif isinstance(node.value, (int, float)) and self._here(node, "number"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = ast.unparse(node.func)
        if called == "torch.where" and len(node.args) == 3 and self._here(node, "branches swapped"):
            node.args[1], node.args[2] = node.args[2], node.args[1]
        alone = isinstance(getattr(node, "parent", None), ast.Expr)
        if called.startswith("checks.") and alone and self._here(node, "check dropped"):
            return ast.copy_location(ast.Constant(None), node)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node  # annotations do nothing

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.args = self.visit(node.args)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node


def parse(source: str) -> ast.Module:
    tree = ast.parse(source)
    for parent in ast.walk(tree):
        for child in ast.iter_child_nodes(parent):
            child.parent = parent  # type: ignore[attr-defined]
    return tree


def places(path: Path) -> list[str]:
    mutator = Mutator()
    mutator.visit(parse(path.read_text(encoding="utf-8")))
    return mutator.places


def survives(path: Path, number: int, tests: list[str], seconds: float) -> bool:
    """Whether all tests pass with this place of this file changed (none is, for -1)."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src/seqsmooth", Path(folder) / "seqsmooth")
        target = Path(folder) / path.relative_to(ROOT / "src")
        tree = Mutator(number).visit(parse(path.read_text(encoding="utf-8")))
        target.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=180, help="a run that takes longer counts as noticed")
    parser.add_argument("--rooms", nargs="+", default=["ops", "smoothing"], choices=ROOMS)
    parser.add_argument("--only", default="", help="files whose path contains this")
    options = parser.parse_args()
    mutants = [
        (path, number, place)
        for room in options.rooms
        for path in sorted((ROOT / "src/seqsmooth" / room).glob("*.py"))
        if options.only in str(path)
        for number, place in enumerate(places(path))
    ]
    chosen = random.Random(options.seed).sample(mutants, min(options.count, len(mutants)))
    objectives = ("objective", "objective_edges", "objective_names", "enumeration", "identities", "samplers")
    core = [
        "tests/ops",
        "tests/mistakes",
        *(f"tests/smoothing/test_{name}.py" for name in objectives),
    ]
    tests = [
        *(core if options.rooms != ["decoding"] else []),
        *(["tests/rewards", "--ignore=tests/rewards/test_coco.py"] if "rewards" in options.rooms else []),
        *(["tests/decoding"] if "decoding" in options.rooms else []),
    ]
    if not chosen:
        print(f"no file of {', '.join(options.rooms)} has {options.only!r} in its path")
        return 2
    if not survives(chosen[0][0], -1, tests, 10 * options.seconds):
        print("the tests must pass before anything is broken")
        return 2
    survivors = 0
    for done, (path, number, place) in enumerate(chosen, 1):
        alive = survives(path, number, tests, options.seconds)
        survivors += alive
        verdict = "SURVIVED" if alive else "noticed "
        print(f"{done}/{len(chosen)} {verdict} {path.relative_to(ROOT)}:{place}", flush=True)
    print(f"{len(chosen)} of {len(mutants)} mutants tried, {survivors} survived")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
