"""Every example runs, is short, and learns something."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
NEEDS = {"hf_": ("transformers", "accelerate"), "trl_": ("transformers", "accelerate", "trl", "datasets")}


def named(path: Path) -> str:
    return path.stem


def test_they_are_there() -> None:
    wanted = {
        "distillation",
        "hf_causal",
        "hf_seq2seq",
        "hf_vision",
        "plain_loop",
        "tok_seq_in_twelve_lines",
        "trl_sft",
    }
    assert wanted <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_an_example_has_less_than_80_lines(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 80
    assert f"python examples/{path.name}" in lines[2], "the third line says how to run it"


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_an_example_learns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix, packages in NEEDS.items():
        for package in packages if path.stem.startswith(prefix) else ():
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"needs {package}: pip install 'seqsmooth[{prefix[:-1]}]'")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before, after = runpy.run_path(str(path))["main"]()
    assert after < 0.5 * before


def added(page: str) -> set[str]:
    """The lines that the first diff of a page adds."""
    block = page.split("```diff\n")[1].split("```")[0]
    return {line[1:].strip() for line in block.splitlines() if line.startswith("+")}


def test_a_script_becomes_smoothed_by_three_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The diff of the documentation, taken out of the example, leaves a script of transformers alone."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'seqsmooth[hf]'")
    lines = added((EXAMPLES[0].parents[1] / "docs" / "huggingface.md").read_text(encoding="utf-8"))
    example = (EXAMPLES[0].parent / "hf_seq2seq.py").read_text(encoding="utf-8").splitlines()
    left = [line for line in example if line.strip() not in lines]
    assert len(lines) == len(example) - len(left) == 3
    assert "ss." not in "\n".join(left)
    stock = tmp_path / "stock.py"
    stock.write_text("\n".join(left), encoding="utf-8")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before, after = runpy.run_path(str(stock))["main"]()
    assert after < before


def test_twelve_lines_are_twelve() -> None:
    text = next(path for path in EXAMPLES if "twelve" in path.stem).read_text(encoding="utf-8")
    inside = text.split("# --- the twelve lines\n")[1].split("# --- and that is all")[0]
    assert len([line for line in inside.splitlines() if line.strip()]) == 12
