"""What holds for every reward."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from seqsmooth.rewards import Bleu, Cider, Clip, Constant, DocumentFrequencies, Edit, Hamming, Reward

SMOOTHINGS = ["none", "floor", "add-k", "exp", "coco", *(f"method{k}" for k in range(8))]
NAMES = ["hamming", "edit", "cider", "clip", "constant", *SMOOTHINGS]
DOCUMENTS = [[[0, 1, 2, 3, 4], [1, 2, 3]], [[0, 1, 1, 2]], [[4, 4, 0, 1]], [[0]]]
WORDS = 6


def make(name: str, documents: list[list[list[int]]] = DOCUMENTS, dtype: torch.dtype = torch.float64) -> nn.Module:
    if name in SMOOTHINGS:
        return Bleu(4, name, dtype=dtype)
    return {
        "hamming": lambda: Hamming(dtype=dtype),
        "edit": lambda: Edit(dtype=dtype),
        "cider": lambda: Cider(DocumentFrequencies.build(documents), dtype=dtype),
        "clip": lambda: Clip(Cider(DocumentFrequencies.build(documents), dtype=dtype), 0.5, 2.0),
        "constant": lambda: Constant(0.5, dtype=dtype),
    }[name]()


def padded(rows: list[list[list[int]]]) -> Tensor:
    longest = max(len(caption) for row in rows for caption in row)
    return torch.tensor([[caption + [-1] * (longest - len(caption)) for caption in row] for row in rows]).long()


captions = st.lists(st.integers(0, WORDS - 1), max_size=8)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Up to 3 rows of up to 3 candidates and 3 references, all of which may be empty."""
    rows, samples, references = (draw(st.integers(1, 3)) for _ in range(3))
    ours = [[draw(captions) for _ in range(samples)] for _ in range(rows)]
    theirs = [[draw(captions) for _ in range(references)] for _ in range(rows)]
    return padded(ours), padded(theirs)


def same(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(batches(), st.randoms(use_true_random=False))
def test_what_changes_nothing(batch: tuple[Tensor, Tensor], chance):
    ours, theirs = batch
    permuted = list(range(theirs.shape[1]))
    chance.shuffle(permuted)
    wider = torch.cat([ours, torch.full_like(ours[..., :1], -1), torch.full_like(ours[..., :1], -7)], -1)
    wider_theirs = torch.cat([theirs, torch.full_like(theirs[..., :1], -9)], -1)
    absent = torch.cat([torch.full_like(theirs[:, :1], -1), theirs], 1)
    labels = torch.tensor(chance.sample([*range(40), *range(2**20, 2**20 + 40), 2**33, 2**50], WORDS))
    renamed = [[[labels[token].item() for token in caption] for caption in document] for document in DOCUMENTS]
    for name in NAMES:
        reward = make(name)
        scores = reward(ours, theirs)
        assert scores.shape == ours.shape[:2]
        assert scores.isfinite().all()
        same(reward(ours, theirs[:, permuted]), scores)
        same(reward(wider, wider_theirs), scores)
        same(reward(ours, absent), scores)
        for column in range(ours.shape[1]):
            same(reward(ours[:, column : column + 1], theirs), scores[:, column : column + 1])
        ours_renamed = torch.where(ours >= 0, labels[ours.clamp(min=0)], -1)
        theirs_renamed = torch.where(theirs >= 0, labels[theirs.clamp(min=0)], -1)
        same(make(name, renamed)(ours_renamed, theirs_renamed), scores)


OURS = torch.tensor([[[0, 1, 2, 3, 9], [4, 1, -1, -1, -1]], [[0, 1, 1, 2, 3], [-1, -1, -1, -1, -1]]])
THEIRS = torch.tensor([[[0, 1, 2, 3], [5, -1, -1, -1], [-1] * 4], [[0, 1, 1, 2], [0, 1, -1, -1], [1, 2, 3, 0]]])


@pytest.mark.parametrize("name", NAMES)
def test_one_type_of_scores_and_an_input_left_alone(name: str):
    ours, theirs = OURS.clone(), THEIRS.clone()
    for dtype in (torch.float32, torch.float64):
        reward: Reward = make(name, dtype=dtype)
        assert reward(ours, theirs).dtype == dtype
    assert torch.equal(ours, OURS)
    assert torch.equal(theirs, THEIRS)


@pytest.mark.parametrize("name", NAMES)
def test_no_value_is_needed_to_know_what_to_do(name: str):
    # A tensor without values: looking at one, or making a shape of one, is an error.
    got = make(name).to("meta")(OURS.to("meta"), THEIRS.to("meta"))
    assert got.shape == (2, 2)
    assert got.device.type == "meta"


@pytest.mark.parametrize("name", ["hamming", "edit", "clip", "exp", "method7"])
def test_it_compiles_in_one_piece(name: str):
    torch.compiler.reset()
    reward = make(name)
    same(torch.compile(reward, fullgraph=True, backend="eager")(OURS, THEIRS), reward(OURS, THEIRS))


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_copied_and_sent(name: str):
    reward = make(name)
    for twin in (copy.deepcopy(reward), pickle.loads(pickle.dumps(reward))):  # noqa: S301
        same(twin(OURS, THEIRS), reward(OURS, THEIRS))
        assert twin.signature() == reward.signature()


@pytest.mark.parametrize("name", ["hamming", "edit", "cider", "clip", "constant", "exp"])
@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (OURS[0], THEIRS, "`candidates` must be of shape (B, L, T); it is (2, 5)."),
        (OURS, THEIRS[:, 0], "`references` must be of shape (B, R, S) = (2, *, *); it is (2, 4)."),
        (OURS, THEIRS[:1], "`references` must be of shape (B, R, S) = (2, *, *); it is (1, 3, 4)."),
        (OURS, THEIRS[:, :0], "`references` must be at least one a row; it is none."),
        (OURS.float(), THEIRS, "`candidates` must be a tensor of torch.int64; it is torch.float32."),
        (OURS, THEIRS.int(), "`references` must be a tensor of torch.int64; it is torch.int32."),
        (OURS, [[[1]]], "`references` must be a torch.Tensor; it is a list."),
        (OURS, THEIRS.to("meta"), "`references` must be on the device of `candidates`, cpu; it is on meta."),
        (
            OURS.flip(-1),
            THEIRS,
            "`candidates` must be right-padded; it is a tensor with a token after a negative id.",
        ),
    ],
)
def test_wrong_input_is_answered_in_a_sentence(name: str, ours: Tensor, theirs: Tensor, sentence: str):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make(name)(ours, theirs)
