"""Mistakes in special tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from mistakes.start import LOGITS, NAMES, TARGETS, Cases, V, assert_sentence, hamming, listed, similarity

SPECIALS: Cases = {
    "pad -1": (lambda: ss.Specials(pad=-1), r"`pad` must be 0 or more; it is -1"),
    "bos 1.5": (lambda: ss.Specials(bos=1.5), r"`bos` must be a whole number; it is 1\.5"),
    "eos a word": (lambda: ss.Specials(eos="</s>"), r"`eos` must be a whole number; it is '</s>'"),
    "unk True": (lambda: ss.Specials(unk=True), r"`unk` must be a whole number; it is True"),
    "pad a tensor": (lambda: ss.Specials(pad=torch.tensor(0)), r"`pad` must be a whole number; it is tensor\(0\)"),
    "frozen unknown": (lambda: ss.Specials(frozen=("end",)), rf"`frozen` must be one of {NAMES}; it is 'end'"),
    "undrawn an id": (lambda: ss.Specials(undrawn=(1,)), rf"`undrawn` must be one of {NAMES}; it is 1"),
    "unsmoothed unknown": (lambda: ss.Specials(unsmoothed=("x",)), rf"`unsmoothed` must be one of {NAMES}; it is 'x'"),
    "frozen None": (lambda: ss.Specials(frozen=None), r"`frozen` must be a tuple of names; it is None"),
    "frozen a number": (lambda: ss.Specials(frozen=2), r"`frozen` must be a tuple of names; it is 2"),
    "frozen one word": (lambda: ss.Specials(eos=1, frozen="eos"), r"`frozen` must be a tuple of names; it is 'eos'"),
    "beyond the vocabulary": (
        lambda: ss.Objective(specials=ss.Specials(eos=6), vocab_size=V),
        r"`eos` must be an id below 6; it is 6",
    ),
    "beyond the embeddings": (
        lambda: ss.Objective(token=similarity(), specials=ss.Specials(bos=9)),
        r"`bos` must be an id below 6; it is 9",
    ),
    "beyond the logits": (
        lambda: ss.Objective(specials=ss.Specials(pad=9))(LOGITS, TARGETS),
        r"`pad` must be an id below 6; it is 9",
    ),
    "beyond the substitutes": (
        lambda: ss.Objective(hamming(substitutes=similarity()), specials=ss.Specials(eos=9)),
        r"`eos` must be an id below 6; it is 9",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(Specials=SPECIALS))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
