"""Models of a few tokens that have strong opinions."""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.models import Luong, Model, RNNsearch, ShowTell, TopDown

NAMES = ("show_tell", "top_down", "rnnsearch", "rnnsearch_gru", "rnnsearch_layers", "luong")


def small_model(name: str, vocab_size: int, seed: int = 0, *, spread: float = 1.5) -> Model:
    """In double precision, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Model = {
            "show_tell": lambda: ShowTell(vocab_size, 6, 5, 7),
            "top_down": lambda: TopDown(vocab_size, 6, 5, 6, 9),
            "rnnsearch": lambda: RNNsearch(9, vocab_size, 5, 4, 6, 9),
            "rnnsearch_gru": lambda: RNNsearch(9, vocab_size, 5, 4, 6, cell="gru", deep_output=True),
            "rnnsearch_layers": lambda: RNNsearch(
                9, vocab_size, 5, 4, 6, layers=2, deep_output=True, input_feeding=True
            ),
            "luong": lambda: Luong(9, vocab_size, 5, 3, feeding="input"),
        }[name]()
        for parameter in model.parameters():
            torch.nn.init.uniform_(parameter, -spread, spread)
    return model.double().eval()


def small_inputs(name: str, items: int, seed: int = 0) -> tuple[Tensor, ...]:
    """For such a model; regions and source sentences of different lengths."""
    source = torch.Generator().manual_seed(seed)
    if name == "show_tell":
        return (torch.randn(items, 6, generator=source, dtype=torch.float64),)
    lengths = torch.arange(items) * 3 % 5 + 1
    mask = torch.arange(5) < lengths.unsqueeze(1)
    if name == "top_down":
        return torch.randn(items, 5, 6, generator=source, dtype=torch.float64), mask
    return (torch.randint(1, 9, (items, 5), generator=source).masked_fill(~mask, 0),)
