from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch

from seqsmooth.models import Luong, Model, RNNsearch, ShowTell, TopDown, build
from seqsmooth.models.registry import MODELS, arguments

MADE = {
    "show_tell": lambda: ShowTell(11, 6, 5, 5, tied=True, vectors=torch.zeros(11, 5)),
    "top_down": lambda: TopDown(11, 6, 5, units=7, attention_size=4, output_dropout=0.25),
    "rnnsearch": lambda: RNNsearch(9, 11, 5, 4, 6, cell="gru", layers=2, deep_output=True, input_feeding=True),
    "luong": lambda: Luong(9, 11, 5, 4, feeding="input", source_vectors=torch.ones(9, 5)),
}


def shapes(model: Model) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in model.named_parameters()}


def test_every_kind_is_tried() -> None:
    assert MADE.keys() == MODELS.keys()


@pytest.mark.parametrize("kind", MADE)
def test_a_model_is_rebuilt_from_json(kind: str) -> None:
    model = MADE[kind]()
    again = build(**json.loads(json.dumps(model.config())))
    assert type(again) is type(model)
    assert shapes(again) == shapes(model)
    again.load_state_dict(model.state_dict())
    assert again.config() == model.config()
    places = [part.p for part in model.modules() if isinstance(part, torch.nn.Dropout)]
    assert [part.p for part in again.modules() if isinstance(part, torch.nn.Dropout)] == places


def test_config_holds_defaults_and_what_was_given() -> None:
    config = ShowTell(11, units=7).config()
    assert config["kind"] == "show_tell"
    assert (config["vocab_size"], config["units"], config["embedding_size"]) == (11, 7, 512)
    assert "vectors" not in config
    assert set(config) == {"kind", *arguments("show_tell")}


def test_copies_keep_their_config() -> None:
    model = MADE["luong"]()
    assert copy.deepcopy(model).config() == model.config()
    assert pickle.loads(pickle.dumps(model)).config() == model.config()  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        (
            "show_tel",
            {},
            r"`kind` must be one of show_tell, .* \(did you mean show_tell\?\); it is 'show_tel'",
        ),
        (
            "show_tell",
            {"unitz": 3},
            r"^`unitz` is no argument of show_tell \(did you mean units\?\)\.$",
        ),
        ("luong", {"source_size": 3}, "^`vocab_size` is missing; luong needs it"),
        ("show_tell", {"vocab_size": 3, "units": "7"}, "`units` must be a whole number; it is '7'"),
        ("top_down", {"vocab_size": 3, "tied": "no"}, "`tied` must be True or False; it is 'no'"),
        ("rnnsearch", {"source_size": 3, "vocab_size": "x"}, "`vocab_size` must be a whole number"),
    ],
)
def test_mistakes(kind: str, sizes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(kind, **sizes)
