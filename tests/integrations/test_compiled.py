"""The mixin in a compiled model, with sequences of many lengths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import seqsmooth as ss
from oracles import tiny_transformers as tiny
from seqsmooth.integrations import Smoothed

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'seqsmooth[hf]'")
pytest.importorskip("accelerate", reason="needs accelerate: pip install 'seqsmooth[hf]'")


class Fused(Smoothed, transformers.Trainer):
    pass


@pytest.fixture
def own_precision() -> Iterator[None]:
    """On a GPU accelerate lets matrix products round to TF32, for the whole process, where a model is compiled."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.slow
@pytest.mark.usefixtures("own_precision")
def test_a_compiled_model_takes_any_length(tmp_path: Path) -> None:
    """One graph for the first length, one for all others: after eight, dynamo would compile no more."""
    losses = []
    for compiled in (False, True):
        lengths = iter((8, 6, 7, 5, 4))

        def cut(features: list[dict[str, torch.Tensor]], lengths: Any = lengths) -> dict[str, torch.Tensor]:
            length = next(lengths)
            return {name: torch.stack([feature[name][-length:] for feature in features]) for name in features[0]}

        options = {"torch_compile": True, "torch_compile_backend": "aot_eager"} if compiled else {}
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        args = tiny.arguments(tmp_path, max_steps=5, **options)
        data, objective = tiny.items("llama", 40), ss.label_smoothing(0.1)
        common = {"model": tiny.build("llama"), "args": args, "train_dataset": data, "data_collator": cut}
        losses.append(tiny.losses(Fused(**common, objective=objective)))
    assert losses[1] == pytest.approx(losses[0])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
