"""What surrounds the code for those who host it and change it: workflow, hooks, templates, `make quick`."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import quick
from seqsmooth.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[1]
TARGETS = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
PROSE = (ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", ROOT / ".github/PULL_REQUEST_TEMPLATE.md", *FORMS)


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_calls_the_two_commands() -> None:
    workflow = read(".github/workflows/ci.yml")
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": None}  # YAML 1.1 takes `on` for True
    steps = {name: [step.get("run") or step["uses"] for step in job["steps"]] for name, job in workflow["jobs"].items()}
    commands = {name: [step for step in listed if "@" not in step] for name, listed in steps.items()}
    assert commands == {"test": ["make test"], "demo": ["make demo"]}
    assert {"test", "demo"} <= TARGETS
    for listed in steps.values():
        assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step) for step in listed if "@" in step)


def test_what_the_workflow_reads_and_keeps_is_there() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for job in jobs.values():
        setup = next(step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python"))
        assert f">={setup['python-version']}" == project["requires-python"]
        assert all((ROOT / name).is_file() for name in setup["cache-dependency-path"].split())
    kept = next(step["with"]["path"] for step in jobs["demo"]["steps"] if "upload" in step.get("uses", ""))
    assert f"/{kept.split('/')[0]}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_hooks_run_tools_that_make_lint_installs() -> None:
    hooks = {hook["id"]: hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    assert set(hooks) == {"ruff-check", "ruff-format", "lint-imports", "quick"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    packages = {re.match(r"[\w-]+", line).group() for line in extras["dev"]}  # type: ignore[union-attr]
    makers = {"ruff": "ruff", "lint-imports": "import-linter"}
    for hook in hooks.values():
        program, word, *_ = [*hook["entry"].split(), ""]
        if program == "make":
            assert word in TARGETS
        else:
            assert program.startswith(".venv/bin/")
            assert makers[program.removeprefix(".venv/bin/")] in packages


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_is_one(form: Path) -> None:
    """As GitHub wants it: a name, a description, and fields with unique ids and labels."""
    values = read(str(form.relative_to(ROOT)))
    assert {"name", "description", "body"} <= set(values)
    assert len({field["id"] for field in values["body"]}) == len(values["body"]) > 0
    for field in values["body"]:
        assert field["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert field["attributes"]["label"]
        assert isinstance(field["validations"]["required"], bool)


def test_there_are_forms() -> None:
    assert {form.stem for form in FORMS} >= {"bug", "feature", "question"}
    assert isinstance(read(".github/ISSUE_TEMPLATE/config.yml")["blank_issues_enabled"], bool)


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_commands_in_prose_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"`make ([a-z]+)", text)) <= TARGETS
    assert set(re.findall(r"`seqsmooth ([a-z]+)", text)) <= set(VERBS)
    for name in re.findall(r"`((?:docs|tests|src)/[\w./]*)`|`([A-Z]+\.md)`", text):
        assert (ROOT / "".join(name)).exists(), name


def test_quick_finds_the_tests_of_a_file() -> None:
    chosen = quick.choose_tests(["src/seqsmooth/rewards/bleu.py"])
    assert chosen[0] == "tests/rewards/test_bleu.py"
    near, core = chosen.index("tests/kernels/test_bleu_kernel.py"), chosen.index("tests/test_import.py")
    assert chosen.index("tests/rewards/test_cider.py") < near < core
    assert "tests/text/test_glove.py" not in chosen


@pytest.mark.parametrize(
    ("change", "test"),
    [
        ("tests/oracles/brute_force.py", "tests/smoothing/test_enumeration.py"),
        ("src/seqsmooth/smoothing/hamming.py", "tests/kernels/test_targets.py"),  # which says ss.Hamming
        ("docs/faq.md", "tests/test_project.py"),
        ("README.md", "tests/test_quotes.py"),
        ("results/README.md", "tests/reports"),
        (".github/workflows/ci.yml", "tests/test_repository.py"),
        ("tests/text/test_glove.py", "tests/text/test_glove.py"),
    ],
)
def test_quick_finds_what_reads_a_file(change: str, test: str) -> None:
    assert test in quick.choose_tests([change])
    assert set(quick.CORE) <= set(quick.choose_tests([change]))


def test_quick_names_tests_that_are_there() -> None:
    assert all((ROOT / test).exists() for tests in (quick.CORE, *quick.READERS.values()) for test in tests)


def test_quick_survives_a_file_that_is_gone() -> None:
    assert quick.choose_tests(["tests/test_gone.py", "src/seqsmooth/gone/gone.py"]) == sorted(quick.CORE)


def test_nothing_that_is_read_runs_code() -> None:
    """What SECURITY.md says of files: no loader that could run code is asked to.

    `files/workers.py` unpickles, but no file: what processes of its own write to it.
    """
    safe = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}  # their defaults, too
    seen = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name, words = ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}
            assert "trust_remote_code" not in words, path
            assert name not in ("yaml.unsafe_load", "yaml.full_load"), path
            assert name not in ("pickle.load", "pickle.loads") or path.parts[-2:] == ("files", "workers.py"), path
            if name in safe:
                seen.add(name)
                keyword, value = safe[name]
                assert words.get(keyword, repr(value)) == repr(value), f"{path}: {ast.unparse(node)}"
    assert seen == set(safe)
