from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqsmooth.cli.main import main
from seqsmooth.conformance import RULES, known, page


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def test_a_loss_with_a_fault_exits_with_1_and_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    assert main(["conformance", "torch.nn.functional:cross_entropy", "--json", str(file)]) == 1
    out = capsys.readouterr().out
    assert "  nothing to predict     FAILS    the loss is NaN or infinite" in out
    assert "  zero smoothing         holds" in out
    (written,) = json.loads(file.read_text(encoding="utf-8"))
    assert [result["rule"] for result in written["results"]] == [rule.name for rule in RULES]
    assert written["results"][6]["verdict"] == "fails"


def test_a_sound_loss_exits_with_0() -> None:
    assert main(["conformance", "seqsmooth:cross_entropy"]) == 0
    assert main(["conformance", "seqsmooth:linear_cross_entropy", "--call", "head"]) == 0


def test_options_reach_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    loss = "seqsmooth.conformance.adapters:tok_loss"
    words = ["conformance", loss, "--call", "sequence", "--smoothing", "alpha"]
    assert main(words) == 1  # for its smoothing is not torch's
    assert "label smoothing        FAILS" in capsys.readouterr().out
    assert main([*words, "--own-smoothing"]) == 0


def test_the_known_ones_fill_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(known, "LOSSES", tuple(loss for loss in known.LOSSES if loss[1] in ("torch", "seqsmooth")))
    file = tmp_path / "page.md"
    file.write_text(f"{page.BEGIN}\n{page.END}\n", encoding="utf-8")
    assert main(["conformance", "--known", "--page", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert "| nothing to predict | **fails** |\n" in text
    assert "| nothing to predict | holds | holds | holds | holds | holds |\n" in text
    assert "1 of 6: F.cross_entropy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Give either a LOSS (MODULE:NAME) or --known."),
        (["a:b", "--known"], "Give either a LOSS (MODULE:NAME) or --known."),
        (["nowhere:loss"], "The module `nowhere` cannot be imported: No module named 'nowhere'."),
        (["torch:nn"], "`torch:nn` is a module, but a loss is a function, an nn.Module or a class of either."),
        (
            ["seqsmooth:cross_entropy", "--device", "tpu"],
            "`device` must be one of 'cpu', 'cuda'; it is 'tpu'.",
        ),
        (["--known", "--page", "README.none"], "`page` must be a file that is there; it is README.none."),
        (["torch:add", "--json", "nowhere/a.json"], "`json` must be in a folder that is there; it is nowhere/a.json"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_status_2(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", *words]) == 2
    assert capsys.readouterr().err.startswith(f"seqsmooth: error: {sentence}")


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["conformance", "--help"])
    assert "seqsmooth conformance torch.nn.functional:cross_entropy" in capsys.readouterr().out
