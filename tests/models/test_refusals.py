"""What models refuse to be made of, and to read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch

from seqsmooth.models import Luong, RNNsearch, ShowTell, TopDown

B, T, V, F, R = 3, 5, 11, 6, 4
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))
REGIONS = torch.zeros(B, R, F)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShowTell(V, F, 5, 7, tied=True), "`embedding_size` must be that of the hidden states, 7, where tied"),
        (lambda: ShowTell(V, F, 5, 5, vectors=torch.zeros(V, 4)), r"`vectors` must be of shape \(V, E\) = \(11, 5\)"),
        (lambda: TopDown(V, F, embedding_dropout=2.0), "`embedding_dropout` must be between 0 and 1"),
        (lambda: RNNsearch(V, V, cell="rnn"), "`cell` must be one of 'lstm', 'gru'"),  # type: ignore[arg-type]
        (lambda: ShowTell(V, F).encode(torch.zeros(2, F + 1)), r"`features` must be of shape \(B, F\) = \(\*, 6\)"),
        (lambda: TopDown(V, F).encode(torch.zeros(2, 3, F), torch.ones(2, 3)), "`mask` must be of type torch.bool"),
        (
            lambda: RNNsearch(V, V, input_feeding=True),
            "`deep_output` must be True where `input_feeding` is; it is False",
        ),
        (lambda: RNNsearch(V, V, layers=0), "`layers` must be 1 or more"),
        (lambda: RNNsearch(V, V, 5, source_vectors=torch.zeros(V, 4)), r"`source_vectors` must be of shape \(V, E\)"),
        (lambda: Luong(V, V, feeding="both"), "`feeding` must be one of 'state', 'input', 'none'"),  # type: ignore[arg-type]
        (lambda: Luong(V, V, 5, 5, tied=True), "`embedding_size` must be that of the hidden states, 10, where tied"),
        (lambda: ShowTell(V, F, embedding_size=0), "`embedding_size` must be 1 or more"),
        (lambda: RNNsearch(V, V).encode(torch.zeros(2, 3)), "`source` must be a tensor of whole numbers"),
        (lambda: ShowTell(V, F).encode(), r"`inputs` must be features \(B, F\) .*; it is 0 tensors"),
        (
            lambda: ShowTell(V, F)(torch.zeros(3, F), TOKENS),
            r"`inputs` must be .*in a tuple .*; it is 3 tensors",
        ),
        (lambda: TopDown(V, F).encode(), "`inputs` must be .* their mask .*; it is 0 tensors"),
        (lambda: TopDown(V, F).encode(*[REGIONS] * 3), "`inputs` must be .* their mask .*; it is 3 tensors"),
        (lambda: Luong(V, V).encode(), r"`inputs` must be ids \(B, S\), .*; it is 0 tensors"),
        (
            lambda: TopDown(V, F).encode(REGIONS.long()),
            "`features` must be a floating-point tensor; it is torch.int64",
        ),
    ],
)
def test_mistakes(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("make", [ShowTell, TopDown])
def test_features_are_of_the_type_of_the_model_or_lowered_by_autocast(
    make: type[ShowTell | TopDown], dtype: torch.dtype
) -> None:
    model, features = make(V, F), (REGIONS[:, 0] if make is ShowTell else REGIONS).to(dtype)
    refused = pytest.raises(
        ValueError,
        match=f"^`features` must be of the type of the model's weights, torch.float32; it is {dtype}",
    )
    with refused:
        model.encode(features)
    # Autocast leaves double as it is.
    with torch.autocast("cpu", torch.bfloat16), refused if dtype == torch.float64 else nullcontext():
        assert model.encode(features)[0].dtype == torch.bfloat16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second kind of device")
def test_features_are_where_the_model_is() -> None:
    with pytest.raises(ValueError, match="`features` must be on cuda:0, as the rest of the model; it is on cpu"):
        ShowTell(V, F).cuda().encode(REGIONS[:, 0])
