"""Stage two, from a config: the last blocks of the CNN learn with the decoder of stage one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles.small_corpora import captions
from oracles.small_runs import weights
from oracles.small_stages import CAPTIONER, DECODER, ENCODER, SIDE, drawn_encoder, run_of, seen_by
from seqsmooth.cli.main import main
from seqsmooth.data import Corpus
from seqsmooth.models import Captioner
from seqsmooth.training.build import Builder, make_optimizer
from seqsmooth.training.learner import Learner
from seqsmooth.training.reader import parse_config, read_config
from seqsmooth.training.runs import Run, load_model
from seqsmooth.training.trainer import train

pytest.importorskip("efficientnet_lite_pytorch")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return captions(tmp_path_factory.mktemp("pictures") / "corpus", side=SIDE, train=16)


@pytest.fixture(scope="module")
def finished(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of stage two that was let be."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(parse_config(run_of(corpus, optimizer={"lr": 0.1, "encoder_lr": 1e-3})), folder)
    return folder


def test_what_learns_and_what_stays(corpus: Corpus, finished: Path) -> None:
    config = Run.open(finished).config
    torch.manual_seed(config.seed)
    begun = Builder(corpus).model(config).state_dict()
    ended = weights(finished)
    assert ended.keys() == begun.keys()
    moved = {name for name, value in ended.items() if not torch.equal(value, begun[name])}
    tuned = ("encoder.network._blocks.14.", "encoder.network._blocks.15.", "encoder.network._conv_head")
    assert {name for name in moved if name.startswith("encoder.")} == {
        name for name in begun if name.startswith(tuned) and "_bn" not in name
    }
    assert {name for name in begun if name.startswith("decoder.")} <= moved
    statistics = [name for name in begun if "running_" in name]
    assert len(statistics) > 80
    assert not moved & set(statistics)


def test_the_loss_falls_and_validation_sees_pictures(finished: Path) -> None:
    log = Run.open(finished).log
    losses = [row["nll"] for row in log if row["split"] == "train"]
    assert losses[-1] < losses[0] - 0.2
    assert all(0 <= row["cider"] < 1000 for row in log if row["split"] == "val")


def test_each_part_has_its_rate(corpus: Corpus) -> None:
    given = run_of(corpus, optimizer={"lr": 0.02, "encoder_lr": 3e-4})
    model = Builder(corpus).model(parse_config(given))
    assert isinstance(model, Captioner)
    decoder, encoder = make_optimizer(model, parse_config(given).optimizer).param_groups
    assert (decoder["initial_lr"], encoder["initial_lr"]) == (0.02, 3e-4)
    assert float(encoder["lr"]) == pytest.approx(3e-4)
    assert sum(map(torch.numel, decoder["params"])) == sum(map(torch.numel, model.decoder.parameters()))
    given["optimizer"].pop("encoder_lr")
    same = make_optimizer(model, parse_config(given).optimizer).param_groups
    assert [group["initial_lr"] for group in same] == [0.02, 0.02]
    frozen = Builder(corpus).model(parse_config(given | {"model": {**CAPTIONER, "tuned": 0}}))
    assert len(make_optimizer(frozen, parse_config(given).optimizer).param_groups) == 1


def test_the_rates_move_together(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    learn = Learner._learn

    def look(self: Learner, batches: Any) -> None:
        learn(self, batches)
        one, other = (float(group["lr"]) for group in self._optimizer().param_groups)
        seen.append((one, other))

    monkeypatch.setattr(Learner, "_learn", look)
    given = run_of(corpus, optimizer={"lr": 0.02, "encoder_lr": 1e-3}, trainer={"max_steps": 5, "max_epochs": 2})
    train(parse_config(given), tmp_path / "run")
    assert len({one for one, _ in seen}) == 5  # a warm-up
    assert all(one == pytest.approx(20 * other) for one, other in seen)


def test_resume_is_exact(corpus: Corpus, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(Exception):
        pass

    calls, whole = [0], Learner._learn

    def learn(self: Learner, batches: Any) -> None:
        calls[0] += 1
        if calls[0] == 8:
            raise Died
        whole(self, batches)

    config = Run.open(finished).config
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_learn", learn)
        with pytest.raises(Died):
            train(config, tmp_path / "died")
    held = torch.load(tmp_path / "died" / "checkpoints" / "last.ckpt", weights_only=True)["seqsmooth"]
    assert 0 < held["steps"] < 7
    train(config, tmp_path / "died")
    for which in ("last", "best"):
        ours, theirs = weights(tmp_path / "died", which), weights(finished, which)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_decode_writes_for_pictures(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", str(finished), "--split", "test", "--beam", "2", "--metrics", "cider,bleu-4"]) == 0
    assert "CIDEr" in capsys.readouterr().out
    lines = (finished / "decoded" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum('"id"' in line for line in lines) >= 10
    model, _ = load_model(finished)
    assert isinstance(model, Captioner)
    assert not any(module.training for module in model.modules())


def test_it_begins_with_the_decoder_of_stage_one(corpus: Corpus, tmp_path: Path) -> None:
    """Features of the encoder, stage one on them, stage two on the pictures: at first it writes as stage one did."""
    encoder = drawn_encoder(0)
    one = seen_by(encoder, corpus, tmp_path)
    first = train(
        parse_config(run_of(one, model=DECODER, trainer={"max_epochs": 1})),
        tmp_path / "one" / "0",
    )
    begin = {"start_from": str(tmp_path / "one" / "{seed}"), "max_epochs": 1, "max_steps": 1}
    given = run_of(corpus, optimizer={"lr": 0.0, "encoder_lr": 0.0}, trainer=begin)
    second = train(parse_config(given), tmp_path / "two")
    # The same seed draws the same encoder here: it comes before the decoder.
    torch.testing.assert_close(
        weights(second.folder)["encoder.network._conv_stem.weight"], encoder.network._conv_stem.weight
    )
    theirs, ours = weights(first.folder, "best"), weights(second.folder)
    assert all(torch.equal(value, ours[f"decoder.{name}"]) for name, value in theirs.items())
    before, after = ([row for row in run.log if row["split"] == "val"][-1] for run in (first, second))
    assert after["nll"] == pytest.approx(before["nll"], rel=1e-4)
    assert after["cider"] == pytest.approx(before["cider"], rel=1e-4)
    other = {**CAPTIONER, "encoder": {**ENCODER, "normalised": True}}
    with pytest.raises(ValueError, match=r"`trainer.start_from` must be a run on features of the encoder of this one"):
        train(parse_config(given | {"model": other}), tmp_path / "three")
    assert not (tmp_path / "three").exists()
    train(parse_config(given | {"trainer": {**given["trainer"], "start_from": str(second.folder)}}), tmp_path / "four")
    assert all(torch.equal(value, ours[name]) for name, value in weights(tmp_path / "four").items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {**CAPTIONER, "encoder": {"kind": "cached"}}}, "`model.encoder.kind` must be one of"),
        (
            {"model": {**CAPTIONER, "encoder": {**ENCODER, "sise": 2}}},
            "no key `model.encoder.sise` .* `model.encoder.size`",
        ),
        ({"model": {**CAPTIONER, "decoder": {"kind": "luong"}}}, "`model.decoder.kind` must be one of"),
        ({"model": {"kind": "captioner", "encoder": ENCODER}}, "`model.decoder` must be given"),
        (
            {"model": {**CAPTIONER, "encoder": {**ENCODER, "side": 64}}},
            "`data.folder` must be of pictures of 64 pixels",
        ),
        ({"model": {**CAPTIONER, "tuned": 17}}, "`tuned` must be at most 16"),
        (
            {"model": {**CAPTIONER, "encoder": {**ENCODER, "output": "regions"}}},
            r"`model.kind` must be show_tell for pooled .* show_tell for features of shape \(1, 1280\)",
        ),
        ({"model": DECODER}, "captioner for pictures; it is show_tell"),
    ],
)
def test_mistakes(corpus: Corpus, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(parse_config(run_of(corpus, **change)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_captioner_wants_pictures_and_a_rate_for_an_encoder_wants_a_captioner(tmp_path: Path) -> None:
    plain = captions(tmp_path / "plain", train=16)
    with pytest.raises(ValueError, match=r"`model.kind` must be .* no pictures \(`prepare captions --images`\)"):
        train(parse_config(run_of(plain)), tmp_path / "run")
    with pytest.raises(ValueError, match=r"`optimizer.encoder_lr` must be left out for a model without an encoder"):
        train(parse_config(run_of(plain, model=DECODER, optimizer={"encoder_lr": 1e-3})), tmp_path / "run")


class FourStages(nn.Module):
    """As ResNet in transformers: a stem, four stages that halve what they see."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3 if number == 0 else 4, 4, 2, 2) for number in range(4)])

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        for stage in self.stages:
            pixel_values = stage(pixel_values)
        return SimpleNamespace(last_hidden_state=pixel_values)


@pytest.mark.parametrize(("kind", "shape"), [("show_tell", (4,)), ("top_down", (196, 4))])
def test_the_papers_stage_two(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, kind: str, shape: tuple[int, ...]
) -> None:
    """With a stand-in for transformers, which need not be installed."""
    asked = []

    def from_pretrained(name: str) -> nn.Module:
        asked.append(name)
        return FourStages()

    def cached_file(name: str, file: str) -> str:
        raise OSError("no such entry")

    fake = SimpleNamespace(
        AutoModel=SimpleNamespace(from_pretrained=from_pretrained), utils=SimpleNamespace(cached_file=cached_file)
    )
    monkeypatch.setitem(sys.modules, "transformers", fake)
    config = read_config(f"coco/stage_two/{kind}", [("model.encoder.side", str(SIDE))], loss="mle")
    model = Builder(corpus).model(config)
    assert isinstance(model, Captioner)
    assert asked == ["microsoft/resnet-152"]
    assert model.encoder.feature_shape == shape
    learns = [number for number, stage in enumerate(model.encoder.blocks()) if next(stage.parameters()).requires_grad]
    assert learns == [2, 3]
    assert [group["initial_lr"] for group in make_optimizer(model, config.optimizer).param_groups] == [6e-5, 6e-5]
    features = model.encoder(corpus.inputs("val", [0])[0])
    assert (abs(float(features.detach().norm()) - 1) < 1e-5) == (kind == "show_tell")  # of length 1
