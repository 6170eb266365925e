"""Every config that is shipped is read, built and stepped, on a corpus that is made in a moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

from oracles.small_corpora import captions, glove, pairs
from seqsmooth.data import Corpus
from seqsmooth.models import Captioner
from seqsmooth.training.build import Builder, make_optimizer
from seqsmooth.training.config import Config, plain
from seqsmooth.training.reader import differences, parse_config, read_config, text_of
from seqsmooth.training.step import TrainingStep
from seqsmooth.training.sweep import plan_sweep

ROOT = Path(__file__).resolve().parents[2] / "configs"
SECTIONS = sorted((ROOT / "chosen").rglob("*.yaml"))
FILES = sorted({path for path in ROOT.rglob("*.yaml") if not path.name.endswith(".sweep.yaml")} - set(SECTIONS))
SWEEPS = sorted(ROOT.rglob("*.sweep.yaml"))
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_config_steps(path: Path, corpora: Corpora) -> None:
    config = read_config(path)
    assert parse_config(yaml.safe_load(text_of(config))) == config
    corpus = corpora(config.model.kind)
    config = read_config(path, [*smaller(config), ("data.batch_size", "20")])
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


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_sweep_lists_configs_that_are_there(path: Path, tmp_path: Path) -> None:
    planned = plan_sweep(path, tmp_path)
    assert len({each.folder for each in planned}) == len(planned) > 0
    assert {each.config for each in planned} <= set(FILES)


def test_every_row_of_the_tables_is_there() -> None:
    rows = {read_config(path).row for path in FILES if path.parent.name == "show_tell" and path.parent.name != "base"}
    for loss in ("Seq", "Seq, lazy", "Tok-Seq"):
        for reward in ("Hamming", "CIDEr"):
            for pool in ("V", "V_batch", "V_refs"):
                assert f"{loss}, {reward}, {pool}" in rows
    assert {"MLE", "MLE + gamma H", "Tok, GloVe", "Tok, GloVe r^freq"} <= rows
    assert {f"Seq, BLEU-4{single}, {pool}" for single in ("", " single") for pool in ("V", "V_batch", "V_refs")} <= rows
    again = {read_config(path).row for path in FILES if path.parent.name == "top_down"}
    assert rows - {"Seq, constant, V_refs"} <= again


def test_every_row_is_there_with_our_recipe_and_with_the_authors_values() -> None:
    folder = ROOT / "coco" / "stage_one"
    ours = {path.stem: read_config(path) for path in folder.glob("*.yaml") if path in FILES}
    theirs = {path.stem: read_config(path) for path in (folder / "authors").glob("*.yaml") if path in FILES}
    paper = {path.stem: read_config(path) for path in (ROOT / "coco" / "show_tell").glob("*.yaml") if path in FILES}
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
    planned = {each.config.stem for each in plan_sweep(folder / "table.sweep.yaml", Path("runs"))}
    assert planned == set(ours)
    for name in ("main", "rest"):
        planned -= {each.config.stem for each in plan_sweep(folder / "authors" / f"{name}.sweep.yaml", Path("runs"))}
    assert planned == own | {"mle"}


def test_fifteen_epochs_differ_from_nine_in_nothing_else() -> None:
    folder = ROOT / "coco" / "stage_one"
    every = [path for path in (folder / "fifteen").glob("*.yaml") if path in FILES]
    rows = [path for path in every if path.stem != "mle_fp32"]
    for path in rows:
        long, short = read_config(path), read_config(folder / path.name)
        assert set(differences(plain(short), plain(long))) == {"name", "table", "trainer.max_epochs"}, path.stem
        assert (short.trainer.max_epochs, long.trainer.max_epochs) == (9, 15)
        assert long.trainer.max_epochs % long.validation.every == 0, "the last weights are looked at"
    planned = plan_sweep(folder / "fifteen" / "main.sweep.yaml", Path("runs"))
    assert {each.config for each in planned} == set(rows)
    for path in (path for path in (folder / "wide").glob("*.yaml") if path in FILES):
        long, wide = read_config(folder / "fifteen" / path.name), read_config(path)
        assert set(differences(plain(long), plain(wide))) == {"name", "table", "model.units"}, path.stem
        assert (long.model.units, wide.model.units) == (512, 1024)
    fp32 = read_config(folder / "fifteen" / "mle_fp32.yaml")
    mle = read_config(folder / "fifteen" / "mle.yaml")
    assert set(differences(plain(mle), plain(fp32))) == {"name", "row", "trainer.precision"}


def test_the_study_of_mle_changes_a_setting_or_two() -> None:
    folder = ROOT / "coco" / "restval" / "fifteen"
    mle = read_config(folder / "mle.yaml")
    planned = plan_sweep(folder / "settings.sweep.yaml", Path("runs"))
    assert {each.config for each in planned} == {path for path in folder.glob("*.yaml") if path in FILES}
    for each in planned:
        changed = set(differences(plain(mle), plain(each.made))) - {"name", "row", "seed"}
        assert bool(changed) is (each.config.stem != "mle"), each.config
        settings = {"schedule" if key.startswith("schedule") else key for key in changed}
        assert len(settings) <= 2, each.config
        assert all(key.startswith(("model.", "schedule", "optimizer.lr", "trainer.precision")) for key in settings)
        assert each.made.objective == mle.objective


def test_a_value_that_was_chosen_is_in_one_place() -> None:
    named = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    assert all(str(path.relative_to(ROOT)) in named for path in SECTIONS)
    for name in ("stage_one", "restval", "restval_top_down"):
        rows = {
            path.stem: read_config(path).objective for path in (ROOT / "coco" / name).glob("*.yaml") if path in FILES
        }
        hamming, cider = rows["seq_hamming_refs"].sequence, rows["seq_cider_refs"].sequence
        assert (hamming.tau, hamming.pool) == (cider.proposal.tau, cider.proposal.pool)
        assert rows["tok_seq_hamming_refs"].sequence == hamming
        assert rows["control_constant_refs"].sequence.samples == cider.samples
    for name in ("iwslt14_21k", "tatoeba_de_en", "tatoeba_en_fr"):
        for path in (ROOT / name).glob("*.yaml"):
            if path in FILES:
                assert read_config(path).objective == read_config(ROOT / "multi30k" / path.name).objective


def test_stage_two_is_resnet_with_two_of_its_four_stages(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="no transformers here, so no ResNet to build")
    sizes = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6, 8, 10], depths=[1, 1, 2, 1])
    transformers.ResNetModel(sizes).save_pretrained(tmp_path / "resnet")
    corpus = captions(tmp_path / "corpus", side=64)
    for kind, shape in (("show_tell", (10,)), ("top_down", (196, 10))):
        small = [("model.encoder.name", str(tmp_path / "resnet")), ("model.encoder.side", "64")]
        config = read_config(f"configs/coco/stage_two/{kind}/mle.yaml", small)
        model = Builder(corpus).model(config)
        assert isinstance(model, Captioner)
        assert model.encoder.feature_shape == shape
        learns = {name.split(".")[2] for name, value in model.encoder.network.named_parameters() if value.requires_grad}
        assert learns == {"2", "3"}


def test_stage_two_goes_on_from_the_row_of_stage_one() -> None:
    rows = {config.name: config for config in map(read_config, FILES)}
    two = {name: config for name, config in rows.items() if config.trainer.start_from is not None}
    assert len(two) == 49
    for config in two.values():
        begun = config.trainer.start_from
        assert begun is not None
        one = rows[begun.removeprefix("runs/").removesuffix("/{seed}")]
        assert one.objective == config.objective
        assert one.model == config.model.decoder


def test_the_control_of_stage_two_differs_in_what_learns_alone() -> None:
    for row in ("mle", "seq_lazy_hamming_refs"):
        tuned, frozen = (read_config(ROOT / "flickr8k" / "few" / f"{row}_{how}.yaml") for how in ("tuned", "frozen"))
        named = {"name", "row", "model.tuned", "optimizer.encoder_lr"}
        assert set(differences(plain(tuned), plain(frozen))) == named
        assert (tuned.model.tuned, frozen.model.tuned) == (11, 0)
