"""Every config that is shipped is read, built and stepped, on a corpus that is made in a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

from oracles import resolved_configs
from oracles.small_corpora import captions, glove, pairs
from seqsmooth.data import Corpus
from seqsmooth.models import Captioner
from seqsmooth.training.bases import packaged_bases
from seqsmooth.training.build import Builder, make_optimizer
from seqsmooth.training.config import Config, plain
from seqsmooth.training.reader import differences, parse_config, read_config, text_of
from seqsmooth.training.step import TrainingStep
from seqsmooth.training.sweep import Planned, plan_sweep

BASES = {base.name: base for base in packaged_bases()}
RUNS = [(name, loss) for name, base in BASES.items() for loss in base.losses or [None]]
PLANNED = [f"{name}/{sweep}" for name, base in BASES.items() for sweep in base.sweeps]
FORMER = json.loads(resolved_configs.LIST.read_text(encoding="utf-8"))["configs"]
"""Configs that had a file before a base listed its losses."""
STEPPED = [(name, loss) for name, loss in RUNS if (name if loss is None else f"{name}/{loss}") in FORMER]
SIZES = ("embedding_size", "units", "encoder_units", "attention_size")
Corpora = Callable[[str], Corpus]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    """A corpus for each kind of model."""
    root = tmp_path_factory.mktemp("corpora")

    @cache
    def corpus(kind: str) -> Corpus:
        if kind == "pairs":
            return pairs(root / "pairs")
        regions, side = 3 if kind == "top_down" else None, 32 if kind == "captioner" else None
        made = captions(root / kind, regions=regions, side=side)
        (made.folder / "glove.txt").rename(made.folder / "glove512.txt")  # of 8 numbers, as the sizes below
        glove(made, 6)
        return made

    return lambda kind: corpus("pairs" if kind in ("rnnsearch", "luong") else kind)


def smaller(config: Config) -> list[tuple[str, str]]:
    """What makes a model small. A captioner sees 32 pixels with a random EfficientNet, whatever its encoder is."""
    section, key = config.model, "model"
    found = []
    if section.kind == "captioner":
        pytest.importorskip("efficientnet_lite_pytorch")
        kept = {"output": section.encoder.output, "normalised": section.encoder.normalised}
        seen = {"kind": "efficientnet_lite", "side": 32, "pretrained": False, **kept}
        found = [("model.encoder", yaml.safe_dump(seen)), ("model.tuned", "2")]
        section, key = section.decoder, "model.decoder"
    return found + [(f"{key}.{name}", "8") for name in SIZES if getattr(section, name, None) is not None]


def read(base: str) -> dict[str, Config]:
    """The configs of a base by loss."""
    return {loss: read_config(base, loss=loss) for loss in BASES[base].losses}


def planned(sweep: str) -> list[Planned]:
    return plan_sweep(sweep, Path("runs"))


@pytest.mark.parametrize(("base", "loss"), RUNS)
def test_every_config_is_read(base: str, loss: str | None) -> None:
    config = read_config(base, loss=loss)
    assert parse_config(yaml.safe_load(text_of(config))) == config
    assert config.row
    assert config.table


@pytest.mark.parametrize(("base", "loss"), STEPPED)
def test_every_config_steps(base: str, loss: str | None, corpora: Corpora) -> None:
    config = read_config(base, loss=loss)
    corpus = corpora(config.model.kind)
    config = read_config(base, [*smaller(config), ("data.batch_size", "20")], loss=loss)
    torch.manual_seed(0)
    builder = Builder(corpus)
    model, objective = builder.model(config), builder.objective(config)
    writes = model.decoder if isinstance(model, Captioner) else model
    assert 0 < sum(value.numel() for value in writes.parameters()) < (50_000 if writes is not model else 20_000)
    optimizer = make_optimizer(model, config.optimizer)
    step = TrainingStep(model, objective, optimizer, clip=config.optimizer.clip)
    batches = corpus.batches("train", 20, captions_per_image=config.data.captions_per_image)
    before = [value.detach().clone() for value in model.parameters()]
    for _, batch in zip(range(2), batches, strict=False):
        report = step(batch)
        assert torch.isfinite(report.loss.total)
        assert 0 < float(report.loss.nll) < 10
    assert not all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_every_former_config_is_stepped() -> None:
    assert len(STEPPED) == len(FORMER) == 269


@pytest.mark.parametrize("sweep", PLANNED)
def test_every_sweep_lists_configs_that_are_there(sweep: str) -> None:
    runs = planned(sweep)
    assert len({each.folder for each in runs}) == len(runs) > 0
    base = sweep.rpartition("/")[0]
    assert {each.loss for each in runs} <= set(BASES[base].losses)


def test_every_row_of_the_tables_is_there() -> None:
    rows = {config.row for config in read("coco/show_tell").values()}
    for loss in ("Seq", "Seq, lazy", "Tok-Seq"):
        for reward in ("Hamming", "CIDEr"):
            for pool in ("V", "V_batch", "V_refs"):
                assert f"{loss}, {reward}, {pool}" in rows
    assert {"MLE", "MLE + gamma H", "Tok, GloVe", "Tok, GloVe r^freq"} <= rows
    assert {f"Seq, BLEU-4{single}, {pool}" for single in ("", " single") for pool in ("V", "V_batch", "V_refs")} <= rows
    for base in ("coco/top_down", "coco/stage_two/show_tell", "coco/stage_two/top_down"):
        assert rows <= {config.row for config in read(base).values()}


def test_every_row_is_there_with_our_recipe_and_with_the_authors_values() -> None:
    ours, theirs, paper = (read(base) for base in ("coco/stage_one", "coco/stage_one/authors", "coco/show_tell"))
    own = {"label_smoothing", "control_lazy_sampled_refs", "control_literal_refs", "seq_edit_refs"}
    assert set(paper) - {"mle"} == set(theirs) == set(ours) - own - {"mle"}
    assert ours["mle"].objective == paper["mle"].objective, "one MLE for both"
    recipe = ours["mle"]
    for name, config in (*ours.items(), *theirs.items()):
        same = ("data", "model", "optimizer", "schedule", "trainer", "validation", "decoding")
        assert all(getattr(config, key) == getattr(recipe, key) for key in same), name
    for name, config in theirs.items():
        assert config.objective == paper[name].objective
        assert config.row == paper[name].row == ours[name].row
    losses = {each.loss for each in planned("coco/stage_one/table")}
    assert losses == set(ours)
    for name in ("main", "rest"):
        losses -= {each.loss for each in planned(f"coco/stage_one/authors/{name}")}
    assert losses == own | {"mle"}


def test_fifteen_epochs_differ_from_nine_in_nothing_else() -> None:
    short, long, wide = (read(f"coco/stage_one{part}") for part in ("", "/fifteen", "/wide"))
    assert set(long) == {*short, "mle_fp32"}
    for loss, config in short.items():
        changed = differences(plain(config), plain(long[loss]))
        assert set(changed) == {"name", "table", "trainer.max_epochs"}, loss
        assert (config.trainer.max_epochs, long[loss].trainer.max_epochs) == (9, 15)
        assert long[loss].trainer.max_epochs % long[loss].validation.every == 0, "the last weights are looked at"
        assert set(differences(plain(long[loss]), plain(wide[loss]))) == {"name", "table", "model.units"}, loss
        assert (long[loss].model.units, wide[loss].model.units) == (512, 1024)
    main = {"mle", "label_smoothing", "tok_seq_hamming_refs", "seq_cider_refs"}
    assert {each.loss for each in planned("coco/stage_one/fifteen/main")} == main
    assert set(differences(plain(long["mle"]), plain(long["mle_fp32"]))) == {"name", "row", "trainer.precision"}


def test_the_study_of_mle_changes_a_setting_or_two() -> None:
    mle = read_config("coco/restval/fifteen", loss="mle")
    runs = planned("coco/restval/fifteen/settings")
    assert {each.loss for each in runs} == {"mle"} | set(BASES["coco/restval/fifteen"].losses) - set(
        BASES["coco/restval"].losses
    )
    for each in runs:
        changed = set(differences(plain(mle), plain(each.config))) - {"name", "row", "seed"}
        assert bool(changed) is (each.loss != "mle"), each.loss
        settings = {"schedule" if key.startswith("schedule") else key for key in changed}
        assert len(settings) <= 2, each.loss
        assert all(key.startswith(("model.", "schedule", "optimizer.lr", "trainer.precision")) for key in settings)
        assert each.config.objective == mle.objective


def test_a_value_that_was_chosen_is_in_one_place() -> None:
    rows = read("coco/stage_one")
    for base in ("coco/restval", "coco/restval_top_down"):
        assert {loss: config.objective for loss, config in read(base).items()} == {
            loss: config.objective for loss, config in rows.items()
        }
    hamming, cider = rows["seq_hamming_refs"].objective.sequence, rows["seq_cider_refs"].objective.sequence
    assert (hamming.tau, hamming.pool) == (cider.proposal.tau, cider.proposal.pool)
    assert rows["tok_seq_hamming_refs"].objective.sequence == hamming
    assert rows["control_constant_refs"].objective.sequence.samples == cider.samples
    for base in ("iwslt14_21k", "tatoeba_de_en", "tatoeba_en_fr"):
        for loss, config in read("multi30k").items():
            assert read_config(base, loss=loss).objective == config.objective


def test_stage_two_is_resnet_with_two_of_its_four_stages(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="no transformers here, so no ResNet to build")
    sizes = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6, 8, 10], depths=[1, 1, 2, 1])
    transformers.ResNetModel(sizes).save_pretrained(tmp_path / "resnet")
    corpus = captions(tmp_path / "corpus", side=64)
    for kind, shape in (("show_tell", (10,)), ("top_down", (196, 10))):
        small = [("model.encoder.name", str(tmp_path / "resnet")), ("model.encoder.side", "64")]
        config = read_config(f"coco/stage_two/{kind}", small, loss="mle")
        model = Builder(corpus).model(config)
        assert isinstance(model, Captioner)
        assert model.encoder.feature_shape == shape
        learns = {name.split(".")[2] for name, value in model.encoder.network.named_parameters() if value.requires_grad}
        assert learns == {"2", "3"}


def test_stage_two_goes_on_from_the_row_of_stage_one() -> None:
    rows = {config.name: config for config in (read_config(base, loss=loss) for base, loss in RUNS)}
    two = {name: config for name, config in rows.items() if config.trainer.start_from is not None}
    assert len([name for name in two if name in FORMER]) == 49
    assert len(two) == 2 * 29 + 5
    for config in two.values():
        begun = config.trainer.start_from
        assert begun is not None
        one = rows[begun.removeprefix("runs/").removesuffix("/{seed}")]
        assert one.objective == config.objective
        assert one.model == config.model.decoder


def test_the_control_of_stage_two_differs_in_what_learns_alone() -> None:
    few = read("flickr8k/few")
    for row in ("mle", "seq_lazy_hamming_refs"):
        tuned, frozen = few[f"{row}_tuned"], few[f"{row}_frozen"]
        named = {"name", "row", "model.tuned", "optimizer.encoder_lr"}
        assert set(differences(plain(tuned), plain(frozen))) == named
        assert (tuned.model.tuned, frozen.model.tuned) == (11, 0)
