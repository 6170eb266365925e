"""Every example runs, is short, and learns something."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {
    "accelerate_": ("hf", ("accelerate",)),
    "export_": ("toolkit", ("safetensors",)),
    "hf_": ("hf", ("transformers", "accelerate")),
    "lightning_": ("toolkit", ("pytorch_lightning",)),
    "trl_": ("trl", ("transformers", "accelerate", "trl", "datasets")),
}


def named(path: Path) -> str:
    return path.stem


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], tuple[float, float]]]:
    """Run an example as a module of its own, by whose name torch.compile can find it."""

    def start(path: Path) -> tuple[float, float]:
        spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        result: tuple[float, float] = module.main()
        return result

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    _forget_accelerators()
    yield start
    _forget_accelerators()


def _forget_accelerators() -> None:
    """What Accelerate keeps for the whole process: it refuses another precision than that of the first."""
    if "accelerate" in sys.modules:
        sys.modules["accelerate"].state.AcceleratorState._reset_state(reset_partial_state=True)


def test_they_are_there() -> None:
    wanted = {
        "accelerate_loop",
        "ddp",
        "distillation",
        "export_captioner",
        "hf_causal",
        "hf_seq2seq",
        "hf_seq2seq_before",
        "hf_vision",
        "lightning_module",
        "own_reward",
        "plain_loop",
        "tok_seq_in_twelve_lines",
        "trl_sft",
    }
    assert {path.stem for path in EXAMPLES} == wanted


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_an_example_has_less_than_80_lines(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 80
    assert f"python examples/{path.name}" in lines[2], "the third line says how to run it"


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_an_example_learns(path: Path, run: Callable[[Path], tuple[float, float]]) -> None:
    for prefix, (extra, packages) in NEEDS.items():
        for package in packages if path.stem.startswith(prefix) else ():
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"needs {package}: pip install 'seqsmooth[{extra}]'")
    before, after = run(path)
    assert after < 0.5 * before


@pytest.mark.slow
def test_two_processes_of_torchrun_take_the_steps_of_one(
    run: Callable[[Path], tuple[float, float]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples" / "ddp.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([*launcher, str(path)], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    run(path)
    printed = (ran.stdout, capsys.readouterr().out)
    two, one = ([float(number) for number in re.findall(r"token (\d+\.\d+)", text)] for text in printed)
    assert len(one) == 6
    assert two == pytest.approx(one, abs=1e-6)


def applied(diff: str, script: str) -> str:
    """A script with the changes of a diff, each at the one place that has the lines around it."""
    for change in re.split(r"^@@.*@@\n", diff, flags=re.MULTILINE)[1:]:
        lines = change.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
        assert script.count(old) == 1, f"the script has these lines {script.count(old)} times:\n{old}"
        script = script.replace(old, new)
    return script


def body(path: Path) -> str:
    """What follows the docstring of a script."""
    return path.read_text(encoding="utf-8").split('"""', 2)[2]


@pytest.mark.parametrize("page", ["docs/start.md", "docs/huggingface.md"])
def test_a_script_becomes_smoothed_by_three_lines(page: str) -> None:
    """The diff of the page leads from one script to the other, both of which run above."""
    diff = (ROOT / page).read_text(encoding="utf-8").split("```diff\n")[1].split("```")[0]
    before, after = (body(ROOT / "examples" / name) for name in ("hf_seq2seq_before.py", "hf_seq2seq.py"))
    assert applied(diff, before) == after
    changed = [line for line in diff.splitlines() if line[:1] in "+-" and line[1:].strip()]
    assert len(changed) == 3
    assert all(line.startswith("+") for line in changed)
    assert "seqsmooth" not in before


def test_twelve_lines_are_twelve() -> None:
    text = next(path for path in EXAMPLES if "twelve" in path.stem).read_text(encoding="utf-8")
    inside = text.split("# --- the twelve lines\n")[1].split("# --- and that is all")[0]
    assert len([line for line in inside.splitlines() if line.strip()]) == 12
