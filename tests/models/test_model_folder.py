"""A model sent to others: what is loaded is what was saved, and nothing of a trainer is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from seqsmooth.models import Captioner, Luong, Model, RNNsearch, ShowTell, TopDown, load, save
from seqsmooth.models.vision import CachedFeatures
from seqsmooth.text import Vocabulary

pytest.importorskip("safetensors", reason="needs safetensors: pip install 'seqsmooth[toolkit]'")
VOCABULARY = Vocabulary.build({f"w{place}": 20 - place for place in range(8)}, sentences=6)
V = len(VOCABULARY)
MODELS = {
    "show_tell": lambda: ShowTell(V, 6, 8, 8, tied=True),
    "top_down": lambda: TopDown(V, 6, embedding_size=8, units=8, attention_size=5),
    "captioner": lambda: Captioner(CachedFeatures((6,)), ShowTell(V, 6, 8, 9)),
    "rnnsearch": lambda: RNNsearch(vocab_size=V, source_size=11, embedding_size=8, units=6),
    "luong": lambda: Luong(vocab_size=V, source_size=11, embedding_size=8, encoder_units=6),
}


def made(name: str) -> Model[Any, Any]:
    torch.manual_seed(len(name))
    return MODELS[name]().eval()


def inputs(name: str) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(0)
    if name in ("rnnsearch", "luong"):
        return torch.randint(4, 11, (2, 5), generator=draw), torch.ones(2, 5, dtype=torch.bool)
    return (torch.randn((2, 3, 6) if name == "top_down" else (2, 6), generator=draw),)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_comes_back(name: str, tmp_path: Path) -> None:
    model = made(name)
    save(model, tmp_path / "out", VOCABULARY)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    again = load(tmp_path / "out")
    assert torch.equal(torch.get_rng_state(), state), "loading must not draw from the global generator"
    assert not again.training
    assert again.config() == model.config()
    tokens = torch.tensor([[1, 4, 5], [1, 6, 7]])
    assert torch.equal(again(inputs(name), tokens), model(inputs(name), tokens))
    assert Vocabulary.load(tmp_path / "out" / "vocabulary.json") == VOCABULARY
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json",
        "model.safetensors",
        "vocabulary.json",
    ]


def test_nothing_of_the_trainer_is_imported(tmp_path: Path) -> None:
    save(made("show_tell"), tmp_path / "out")
    code = (
        "import sys; from seqsmooth.models import load; load(sys.argv[1]);"
        "print([name for name in sys.modules if name.split('.')[0] in ('pytorch_lightning', 'yaml')"
        " or name.startswith('seqsmooth.training')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_pretrained_weights_are_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("captioner")
    monkeypatch.setitem(model.encoder._arguments, "pretrained", True)
    save(model, tmp_path / "out")
    held = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert held["model"]["encoder"]["pretrained"] is False
    assert held["model"]["decoder"] == model.decoder.config()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = made("show_tell")
    short = Vocabulary.build({"a": 9}, sentences=9)
    with pytest.raises(ValueError, match=rf"`vocabulary` must be of the model's {V} words; it is of 5"):
        save(model, tmp_path / "out", short)
    with pytest.raises(ValueError, match=r"`model` must be a seqsmooth\.models\.Model; it is a Linear"):
        save(torch.nn.Linear(2, 2), tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=r"`folder` must be a folder that `seqsmooth\.models\.save` wrote; it is"):
        load(tmp_path)
    save(model, tmp_path / "out", VOCABULARY)
    with pytest.raises(ValueError, match="`out` must be a folder that is not there yet"):
        save(model, tmp_path / "out")
    config = tmp_path / "out" / "config.json"
    held = json.loads(config.read_text(encoding="utf-8"))
    for broken in ("[]", json.dumps({**held, "kind": "another"}), "{"):
        config.write_text(broken, encoding="utf-8")
        with pytest.raises(ValueError, match=r"`folder` must be a folder .*; .*config\.json is damaged or"):
            load(tmp_path / "out")
    config.write_text(json.dumps({**held, "vocabulary": "another"}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"^The weights in .* are of another vocabulary: .* there, another here\.$"):
        load(tmp_path / "out")
