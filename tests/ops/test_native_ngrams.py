"""N-grams in C against those in plain torch, which is tested against dictionaries and coco-caption."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seqsmooth.ops import dispatch, native, ngrams
from seqsmooth.ops.native import ngrams as native_ngrams
from seqsmooth.rewards import Bleu, Cider, DocumentFrequencies

pytestmark = pytest.mark.skipif(native.library() is None, reason=f"no native library, because {native.absence()}")
WORDS = [0, 1, 2, 3, native_ngrams.LARGE - 1, native_ngrams.LARGE, 2**32 - 1, 2**32, 2**63 - 2, 2**63 - 1]
"""On both sides of each bound that the C knows."""


def padded(batch: list[list[list[int]]], steps: int) -> Tensor:  # (B, L, T)
    most = max(map(len, batch))
    rows = [
        [text[:steps] + [-1] * (steps - len(text)) for text in [*item, *[[]] * (most - len(item))]] for item in batch
    ]
    return torch.tensor(rows).view(len(batch), most, steps).long()


texts = st.lists(st.sampled_from(WORDS), max_size=9)
batches = st.lists(
    st.tuples(st.lists(texts, min_size=1, max_size=3), st.lists(texts, min_size=1, max_size=4)), min_size=1
)


def plain(call: object, *given: Tensor) -> Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(dispatch.VARIABLE, "torch")
        return call(*given)


@settings(max_examples=150)
@given(batches, st.integers(1, native_ngrams.MOST_ORDER), st.integers(0, 9), st.integers(0, 9))
def test_matches_are_those_of_plain_torch(batch: list, order: int, steps: int, theirs: int):
    candidates, references = padded([item[0] for item in batch], steps), padded([item[1] for item in batch], theirs)
    assert native_ngrams.fit(candidates, references, order)
    expected = plain(lambda *both: ngrams.matches(*both, order), candidates, references)
    assert torch.equal(ngrams.matches(candidates, references, order), expected)


@settings(max_examples=150)
@given(batches, st.lists(st.lists(texts, max_size=3), min_size=1, max_size=4), st.integers(1, 5), st.booleans())
def test_cider_is_that_of_plain_torch(batch: list, documents: list, order: int, single: bool):
    candidates, references = padded([item[0] for item in batch], 9), padded([item[1] for item in batch], 9)
    frequencies = DocumentFrequencies.build(documents, order)
    exact = plain(Cider(frequencies, order, dtype=torch.float64), candidates, references)
    reward = Cider(frequencies, order, dtype=torch.float32 if single else torch.float64)
    scores = reward(candidates, references)
    assert scores.dtype == reward.dtype
    torch.testing.assert_close(scores.double(), exact, rtol=2e-7 if single else 1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_layouts_change_nothing(threads: int):
    generator = torch.Generator().manual_seed(threads)
    references = torch.randint(30, (90, 20, 5), generator=generator).transpose(1, 2)  # not contiguous
    candidates = references[:, :3].clone()
    candidates[torch.rand(candidates.shape, generator=generator) < 0.3] = 40
    reward = Cider(DocumentFrequencies.build(references.tolist()))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        scores, matched = reward(candidates, references), ngrams.matches(candidates, references, 4)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(scores, plain(reward, candidates, references), rtol=1e-5, atol=1e-5)
    assert torch.equal(matched, plain(lambda *both: ngrams.matches(*both, 4), candidates, references))


def test_a_batch_without_candidates_or_items_has_no_scores():
    reward = Cider(DocumentFrequencies.build([[[4, 5]]]))
    assert reward(torch.zeros(2, 0, 3).long(), torch.zeros(2, 1, 3).long()).shape == (2, 0)
    assert reward(torch.zeros(0, 2, 3).long(), torch.zeros(0, 1, 3).long()).shape == (0, 2)
    assert Bleu()(torch.zeros(2, 0, 3).long(), torch.zeros(2, 1, 3).long()).shape == (2, 0)


def test_too_long_n_grams_are_for_plain_torch():
    ids = torch.zeros(1, 1, 12).long()
    assert not native_ngrams.fit(ids, ids, native_ngrams.MOST_ORDER + 1)
    score = Bleu(order=native_ngrams.MOST_ORDER + 1)(ids, ids)
    torch.testing.assert_close(score, torch.ones(1, 1))


def test_moved_document_frequencies_are_those_that_count():
    first, second = (
        Cider(DocumentFrequencies.build(documents)) for documents in ([[[4, 5]], [[6]]], [[[6]], [[6, 4]]])
    )
    ids = torch.tensor([[[4, 6]]])
    references = torch.tensor([[[4, 5, 6], [6, 6, 6]]])
    scores = first(ids, references)
    for name, buffer in second.named_buffers():
        setattr(first, name, buffer)
    torch.testing.assert_close(first(ids, references), second(ids, references))
    assert not torch.equal(scores, first(ids, references))


def test_what_was_changed_in_place_counts() -> None:
    reward = Cider(DocumentFrequencies.build([[[4, 5, 6]], [[6, 4]], [[4, 5]]]))
    ids, references = torch.tensor([[[4, 5, 6]]]), torch.tensor([[[4, 5, 6, 9], [6, 4, 4, 5]]])
    before = reward(ids, references)
    reward.get_buffer("counts_1")[:-1] = 1
    after = reward(ids, references)
    torch.testing.assert_close(after, plain(reward, ids, references))
    assert not torch.equal(before, after)


def test_frequencies_of_other_types_and_layouts() -> None:
    whole = DocumentFrequencies.build([[[4, 5, 6]], [[6, 4]], [[4, 5]]])
    ids, references = torch.tensor([[[4, 5, 6]]]), torch.tensor([[[4, 5, 6, 9], [6, 4, 4, 5]]])
    expected = Cider(whole)(ids, references)
    for changed in (
        replace(whole, counts=tuple(count.long() for count in whole.counts)),
        replace(whole, counts=tuple(count.to(torch.uint8) for count in whole.counts)),
        replace(whole, keys=tuple(torch.stack([key, key], 1)[:, 0] for key in whole.keys)),
    ):
        torch.testing.assert_close(Cider(changed)(ids, references), expected, rtol=0, atol=0)


def test_another_default_device() -> None:
    reward = Cider(DocumentFrequencies.build([[[4, 5, 6]], [[6, 4]], [[4, 5]]]))
    ids = torch.tensor([[[4, 5, 6]]])
    torch.set_default_device("meta")
    try:
        score = reward(ids, ids)
    finally:
        torch.set_default_device(None)
    torch.testing.assert_close(score, plain(reward, ids, ids))


def test_many_references() -> None:
    """Matches need no number for each n-gram and reference; CIDEr-D does, and leaves very many to plain torch."""
    generator = torch.Generator().manual_seed(0)
    candidates, references = (torch.randint(500, (1, count, 20), generator=generator) for count in (2, 3000))
    assert native_ngrams.fit(candidates, references, 4)
    assert not native_ngrams.fit(candidates, references, 4, apart=True)
    expected = plain(lambda *both: ngrams.matches(*both, 4), candidates, references)
    assert torch.equal(ngrams.matches(candidates, references, 4), expected)


def test_document_frequencies_that_do_not_agree_are_refused_before_c_reads_them():
    whole = DocumentFrequencies.build([[[4, 5]], [[6]]])
    for broken in (
        replace(whole, counts=tuple(-count - 5 for count in whole.counts)),
        replace(whole, keys=(whole.keys[0].flip(0), *whole.keys[1:])),
        replace(whole, keys=(whole.keys[0][:-1], *whole.keys[1:])),
    ):
        ids = torch.tensor([[[4, 6]]])
        rule = r"^`document_frequencies` must be as `build` and `load` make them; it is of parts that do not agree\.$"
        with pytest.raises(ValueError, match=rule):
            Cider(broken)(ids, ids)
