from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from seqsmooth.training.bases import merge
from seqsmooth.training.config import Config, plain
from seqsmooth.training.reader import differences, parse_config, read_config, text_of
from seqsmooth.training.yaml_files import load_yaml

BASE: dict[str, Any] = {
    "data": {"folder": "data/x"},
    "model": {"kind": "show_tell", "units": 32},
    "objective": {
        "sequence": {
            "kind": "rewarded",
            "reward": {"kind": "cider"},
            "proposal": {"kind": "hamming", "tau": 0.3, "pool": "refs"},
            "tau": 0.5,
            "samples": 5,
        }
    },
    "schedule": {"kind": "step", "factor": 0.6},
}


def write(folder: Path, name: str, values: dict[str, Any]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def test_a_file_extends_others_and_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", BASE | {"trainer": {"max_epochs": 7, "bundle": 3}})
    write(tmp_path, "middle.yaml", {"extends": "base.yaml", "trainer": {"max_epochs": 8}, "seed": 2})
    path = write(tmp_path, "configs/rows/top.yaml", {"extends": "../../middle.yaml", "optimizer": {"lr": "5e-4"}})
    config = read_config(path, [("trainer.bundle", "4"), ("objective.sequence.reward.clip", "1.0")])
    assert (config.trainer.max_epochs, config.trainer.bundle, config.seed) == (8, 4, 2)
    assert config.optimizer.lr == 5e-4
    assert config.name == "rows/top"
    assert config.objective.sequence.kind == "rewarded"
    assert config.objective.sequence.reward.clip == 1.0
    assert config.objective.sequence.proposal.pool == "refs"
    assert config.model.units == 32
    assert config.model.embedding_size == 512  # the model's own default


def test_a_section_is_extended_by_its_dotted_key(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", BASE)
    write(tmp_path, "chosen/near.yaml", {"kind": "hamming", "tau": 0.1})
    write(tmp_path, "chosen/flips.yaml", {"extends": "near.yaml", "pool": "batch"})
    law, proposal = "objective.sequence", "objective.sequence.proposal"
    row = {"extends": ["base.yaml", {proposal: "chosen/flips.yaml"}], "objective": {"sequence": {"tau": 0.7}}}
    config = read_config(write(tmp_path, "row.yaml", row))
    assert config.objective.sequence.kind == "rewarded"
    assert config.objective.sequence.tau == 0.7
    assert config.objective.sequence.samples == 5  # of the base
    assert plain(config.objective.sequence.proposal)["tau"] == 0.1  # of the file that the section extends itself
    assert plain(config.objective.sequence.proposal)["pool"] == "batch"
    # The same file in another place; a section of another kind takes the place of the whole.
    config = read_config(write(tmp_path, "row.yaml", {"extends": ["base.yaml", {law: "chosen/flips.yaml"}]}))
    assert plain(config.objective.sequence)["kind"] == "hamming"
    assert plain(config.objective.sequence)["tau"] == 0.1
    for wrong in ([3], [{law: 3}], {law: "nothing.yaml"}, [["base.yaml"]]):
        with pytest.raises(ValueError, match=r"`extends` (must be|names)"):
            read_config(write(tmp_path, "wrong.yaml", {"extends": wrong}))


def test_another_kind_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    path = write(tmp_path, "base.yaml", BASE)
    config = read_config(path, [("objective.sequence", "{kind: hamming, tau: 0.2}"), ("schedule.kind", "constant")])
    assert plain(config.objective.sequence)["tau"] == 0.2
    assert plain(config.schedule) == {"kind": "constant", "warmup": 0}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("trainer.max_epoch", "1", "no key `trainer.max_epoch` in a config; the nearest is `trainer.max_epochs`."),
        ("model.unit", "1", "no key `model.unit` in a config; the nearest is `model.units`."),
        ("objectve", "{}", "no key `objectve` in a config; the nearest is `objective`."),
        ("trainer.max_epochs", "ten", "`trainer.max_epochs` must be a whole number; it is 'ten'."),
        ("trainer.max_epochs", "1.5", "`trainer.max_epochs` must be a whole number; it is 1.5."),
        ("trainer.max_epochs", "true", "`trainer.max_epochs` must be a whole number; it is True."),
        ("optimizer.lr", "fast", "`optimizer.lr` must be a number; it is 'fast'."),
        ("optimizer.betas", "[0.9]", "`optimizer.betas` must be a list of 2; it is one of 1."),
        ("optimizer.betas", "0.9", "`optimizer.betas` must be a list; it is 0.9."),
        (
            "optimizer.betas",
            "[2, 3]",
            "`optimizer.betas` must be two numbers of 0 or more, below 1; it is [2.0, 3.0].",
        ),
        (
            "optimizer.betas",
            "[0.9, 1]",
            "`optimizer.betas` must be two numbers of 0 or more, below 1; it is [0.9, 1.0].",
        ),
        ("optimizer.lr", "-1", "`optimizer.lr` must be a finite number, 0 or more; it is -1.0."),
        ("optimizer.eps", "-1", "`optimizer.eps` must be a finite number, 0 or more; it is -1.0."),
        ("optimizer.weight_decay", "-1", "`optimizer.weight_decay` must be a finite number, 0 or more; it is -1.0."),
        ("objective.lazy", "1", "`objective.lazy` must be true or false; it is 1."),
        ("trainer.precision", "fp8", "`trainer.precision` must be one of 'fp32', 'bf16'; it is 'fp8'."),
        ("trainer.loggers", "[excel]", "`trainer.loggers[0]` must be one of"),
        ("data", "here", "`data` must be a section of keys and values; it is 'here'."),
        ("data.folder", "3", "`data.folder` must be text; it is 3."),
        ("model.kind", "gpt", "`model.kind` must be one of `show_tell`"),
        ("model", "{units: 3, kind: null}", "`model.kind` must be one of"),
        ("schedule", "{kind: inverse_root}", "`schedule.warmup` must be given in a config; it is not."),
        ("schedule", "{kind: plateau, patience: 0}", "`schedule.patience` must be 1 or more; it is 0."),
        ("schedule", "{kind: step, factor: 0.5, every: 0}", "`schedule.every` must be 1 or more; it is 0."),
        ("schedule", "{kind: step, factor: -1}", "`schedule.factor` must be a finite number, 0 or more; it is -1.0."),
        ("schedule", "{kind: linear, final: -1}", "`schedule.final` must be a finite number, 0 or more; it is -1.0."),
        ("schedule", "{kind: constant, warmup: -1}", "`schedule.warmup` must be 0 or more; it is -1."),
        ("objective.sequence.proposal.pool", "images", "`objective.sequence.proposal.pool` must be one of"),
        ("seed", "[", "the value of --seed must be YAML; it is not at line 1"),
    ],
)
def test_mistakes(tmp_path: Path, key: str, value: str, message: str) -> None:
    path = write(tmp_path, "base.yaml", BASE)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        read_config(path, [(key, value)])
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", {"extends": "other.yaml"})
    write(tmp_path, "other.yaml", {"extends": "one.yaml"})
    write(tmp_path, "orphan.yaml", {"extends": "nobody.yaml"})
    (tmp_path / "broken.yaml").write_text("data: {folder: x\nmodel: y: z", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- 1\n", encoding="utf-8")
    (tmp_path / "latin.yaml").write_bytes("name: Schlüssel".encode("latin-1"))
    for name, message in (
        ("one", "`extends` must be a file that does not extend this one again"),
        ("orphan", "`extends` names nobody.yaml, which is neither in"),
        ("broken", r"must be YAML; it is not at line \d"),
        ("list", "must be a YAML file of keys and values; it is \\[1\\]"),
        ("latin", "must be text in UTF-8; it is not at byte 10"),
        ("nothing", "`config` names .*nothing.yaml, which is neither here nor"),
    ):
        with pytest.raises(ValueError, match=message):
            read_config(tmp_path / f"{name}.yaml")


def test_what_is_printed_is_read_again() -> None:
    config = parse_config(BASE)
    again = parse_config(yaml.safe_load(text_of(config)))
    assert isinstance(again, Config)
    assert again == config


leaves = st.one_of(st.integers(), st.text(max_size=3), st.none())
mappings = st.recursive(
    st.dictionaries(st.sampled_from("abc"), leaves, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.one_of(leaves, inner), max_size=3),
    max_leaves=8,
)


@given(mappings, mappings, mappings)
def test_merging(one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]) -> None:
    assert merge(one, {}) == one
    assert merge({}, one) == one
    assert merge(one, one) == one
    assert merge(merge(one, two), two) == merge(one, two)
    assert set(merge(one, two)) == set(one) | set(two)
    assert not differences(merge(one, three), merge(one, three))


def test_differences_are_named_by_their_dotted_keys() -> None:
    one, other = plain(parse_config(BASE)), plain(parse_config(BASE | {"seed": 3, "trainer": {"bundle": 2}}))
    assert differences(one, one) == []
    assert differences(one, other) == ["seed", "trainer.bundle"]
    assert differences({"a": {"b": 1}}, {"a": {"c": 1}}) == ["a.b", "a.c"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("seed: 1\nrow: a\nseed: 2\n", "seed"),
        ("data: {folder: x, folder: y}\n", "folder"),
        ("data:\n  folder: x\n  'folder': y\n", "folder"),
    ],
    ids=["top", "flow", "quoted"],
)
def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / "twice.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"the key '{key}' is there twice"):
        load_yaml(tmp_path / "twice.yaml")


def test_a_key_may_come_over_one_that_is_merged(tmp_path: Path) -> None:
    (tmp_path / "merged.yaml").write_text("a: &a {x: 1, y: 2}\nb: {c: &c {<<: *a, x: 3}}\nd: {<<: *c, y: 4}\n")
    assert load_yaml(tmp_path / "merged.yaml") == {
        "a": {"x": 1, "y": 2},
        "b": {"c": {"x": 3, "y": 2}},
        "d": {"x": 3, "y": 4},
    }


def test_what_a_reader_changes_the_next_one_does_not_see(tmp_path: Path) -> None:
    """A text is parsed once and handed out as often as it is asked for."""
    file = tmp_path / "held.yaml"
    file.write_text("model: {sizes: [1, 2]}\n", encoding="utf-8")
    load_yaml(file)["model"]["sizes"].append(3)
    assert load_yaml(file) == {"model": {"sizes": [1, 2]}}
