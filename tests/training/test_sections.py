"""Sections of a config are read off constructors."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import seqsmooth as ss
from oracles.small_corpora import captions, glove, pairs
from seqsmooth.data import Side, write_captions
from seqsmooth.rewards.registry import REWARDS
from seqsmooth.smoothing.registry import SEQUENCE_LAWS, TOKEN_LAWS
from seqsmooth.training import neighbours, sections
from seqsmooth.training.build import Builder
from seqsmooth.training.reader import parse_config

LAWS = [*SEQUENCE_LAWS.items(), *TOKEN_LAWS.items(), *REWARDS.items()]
ALL = [
    *sections.sequence_sections().values(),
    *sections.token_sections().values(),
    *sections.reward_sections().values(),
]
ELSEWHERE = {"embeddings", "missing", "counts", "kinds", "document_frequencies", "dtype"}
"""Arguments that the corpus knows, or that are tensors or dtypes."""


@pytest.mark.parametrize(("law", "section"), [(law, section) for (_, law), section in zip(LAWS, ALL, strict=True)])
def test_a_section_has_the_arguments_of_the_constructor(law: type, section: Any) -> None:
    arguments = {name: one for name, one in inspect.signature(law).parameters.items() if name not in ELSEWHERE}
    keys = {item.name: item for item in fields(section)}
    assert set(keys) - {"kind", "clip", "vectors", "eos"} == set(arguments)
    for name, argument in arguments.items():
        if name not in ("substitutes", "stored"):
            assert keys[name].default == argument.default or argument.default is inspect.Parameter.empty


class Near(nn.Module):
    """A reward of somebody else."""

    def __init__(self, weight: float = 2.0, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, candidates: Tensor, references: Tensor) -> Tensor:
        return self.weight * (candidates >= 0).sum(-1).float()


class Narrow(ss.Similarity):
    """A token law of somebody else."""

    def __init__(self, embeddings: Tensor, counts: Tensor, alpha: float = 0.5) -> None:
        super().__init__(embeddings, tau=0.1, alpha=alpha, missing="zeros")
        self.seen = counts


def config(objective: dict[str, Any]) -> Any:
    return parse_config({"data": {"folder": "x"}, "model": {"kind": "show_tell"}, "objective": objective})


def test_what_is_registered_is_a_kind_in_yaml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(REWARDS, "near", Near)
    monkeypatch.setitem(TOKEN_LAWS, "narrow", Narrow)
    corpus = captions(tmp_path / "corpus")
    glove(corpus, 6)
    proposal = {"kind": "hamming", "tau": 0.3}
    sequence = {"kind": "rewarded", "proposal": proposal, "tau": 1.0, "samples": 2}
    given = {"sequence": sequence | {"reward": {"kind": "near", "weight": 3.0, "clip": 1.0}}}
    given["token"] = {"kind": "narrow", "vectors": "glove.txt"}
    objective = Builder(corpus).objective(config(given))
    assert objective.sequence.reward.reward.weight == 3.0
    assert isinstance(objective.token, Narrow)
    assert objective.token.seen.shape == (len(corpus.vocabulary),)
    with pytest.raises(ValueError, match=r"no key `objective\.token\.counts` in a config"):
        config(given | {"token": {"kind": "narrow", "vectors": "glove.txt", "counts": 3}})


def test_the_nearest_tokens_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQSMOOTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(neighbours, "LEAST_VOCABULARY", 1)
    corpus = captions(tmp_path / "corpus")
    glove(corpus, 6)
    token = {"kind": "similarity", "vectors": "glove.txt", "tau": 0.3, "mode": "top-k", "k": 3}
    first = Builder(corpus).objective(config({"token": token}))
    (file,) = (tmp_path / "cache").iterdir()
    assert torch.equal(load_file(file)["ids"], first.token_tables.neighbours.int())
    monkeypatch.setattr(neighbours, "find_nearest", None)
    second = Builder(corpus).objective(config({"token": token}))
    assert second.signature() == first.signature()
    assert torch.equal(second.token_tables.table, first.token_tables.table)


def test_captions_without_features_are_not_taken_for_translations(tmp_path: Path) -> None:
    splits = {name: [(number, ["a dog", "a cat"])] for number, name in enumerate(("train", "val", "test"))}
    corpus = write_captions(tmp_path / "corpus", splits, None, side=Side(min_count=1))
    with pytest.raises(ValueError, match=r"^The captions have no features, which show_tell reads: `seqsmooth p"):
        Builder(corpus).model(config({}))
    with pytest.raises(ValueError, match=r"`model\.kind` must be one for translation on this corpus; it is show_tell"):
        Builder(pairs(tmp_path / "pairs")).model(config({}))


def test_arguments_that_no_file_can_say_are_no_keys() -> None:
    keys = {item.name for item in fields(sections.token_sections()["similarity"])}
    assert keys == {"vectors", "eos", "tau", "beta", "alpha", "mode", "k", "tail", "stored", "kind"}
    assert {item.name for item in fields(sections.reward_sections()["edit"])} == {"kind"}
