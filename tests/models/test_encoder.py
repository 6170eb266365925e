from __future__ import annotations

import pytest
import torch

from seqsmooth.models import BidirectionalEncoder
from seqsmooth.models.encoder import reversal


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_encoder_is_that_of_torch_on_packed_sequences(kind: str, layers: int) -> None:
    torch.manual_seed(0)
    encoder = BidirectionalEncoder(3, 4, kind, layers=layers, cells=kind == "lstm").double()
    make = torch.nn.LSTM if kind == "lstm" else torch.nn.GRU
    theirs = make(3, 4, bidirectional=True, num_layers=layers).double()
    for number in range(layers):
        for suffix, ours in (("", encoder.onward), ("_reverse", encoder.homeward)):
            for parameter, value in ours[number].named_parameters():
                getattr(theirs, parameter.replace("_l0", f"_l{number}") + suffix).data.copy_(value)
    lengths = torch.tensor([5, 2, 4])
    mask = torch.arange(5).unsqueeze(1) < lengths
    sequences = torch.randn(5, 3, 3, dtype=torch.float64)
    read = encoder(sequences, mask)
    packed = torch.nn.utils.rnn.pack_padded_sequence(sequences, lengths, enforce_sorted=False)
    output, final = theirs(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(output)
    torch.testing.assert_close(read.states * mask.unsqueeze(-1), expected)
    hidden = final[0] if kind == "lstm" else final
    torch.testing.assert_close(read.forward, hidden[-2])
    torch.testing.assert_close(read.backward, hidden[-1])
    if kind == "lstm":
        torch.testing.assert_close(read.cells, torch.cat([final[1][-1], final[1][-2]], -1))


def test_gradient_of_the_last_cells_is_that_of_torch() -> None:
    torch.manual_seed(0)
    encoder = BidirectionalEncoder(2, 3, cells=True).double()
    theirs = torch.nn.LSTM(2, 3).double()
    theirs.load_state_dict(encoder.onward[0].state_dict())
    sequences, mask = torch.randn(4, 1, 2, dtype=torch.float64), torch.tensor([[True], [True], [True], [False]])
    encoder(sequences, mask).cells[:, 3:].square().sum().backward()
    _, (_, cell) = theirs(sequences[:3])
    cell.square().sum().backward()
    for ours, parameter in zip(encoder.onward[0].parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, parameter.grad)


def test_reversal() -> None:
    mask = torch.tensor([[True, True, False], [True, True, False], [True, False, False]])
    assert reversal(mask).tolist() == [[2, 1, 0], [1, 0, 1], [0, 2, 2]]


def test_a_gru_has_no_cells() -> None:
    with pytest.raises(ValueError, match="`kind` must be 'lstm' where cells are wanted; it is 'gru'"):
        BidirectionalEncoder(3, 4, "gru", cells=True)
