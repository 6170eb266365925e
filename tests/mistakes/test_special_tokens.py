"""Mistakes in special tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from mistakes.start import LOGITS, NAMES, TARGETS, Cases, V, assert_sentence, hamming, listed, similarity

SPECIALS: Cases = {
    "pad -1": (lambda: ss.Specials(pad=-1), r"`pad` must be 0 or more, but is -1"),
    "bos 1.5": (lambda: ss.Specials(bos=1.5), r"`bos` must be a whole number, but is 1\.5"),
    "eos a word": (lambda: ss.Specials(eos="</s>"), r"`eos` must be a whole number, but is '</s>'"),
    "unk True": (lambda: ss.Specials(unk=True), r"`unk` must be a whole number, but is True"),
    "pad a tensor": (lambda: ss.Specials(pad=torch.tensor(0)), r"`pad` must be a whole number, but is tensor\(0\)"),
    "frozen unknown": (lambda: ss.Specials(frozen=("end",)), rf"`frozen` must be one of {NAMES}, but is 'end'"),
    "undrawn an id": (lambda: ss.Specials(undrawn=(1,)), rf"`undrawn` must be one of {NAMES}, but is 1"),
    "unsmoothed unknown": (lambda: ss.Specials(unsmoothed=("x",)), rf"`unsmoothed` must be one of {NAMES}, but is 'x'"),
    "frozen None": (lambda: ss.Specials(frozen=None), r"`frozen` must be a tuple of names, but is None"),
    "frozen a number": (lambda: ss.Specials(frozen=2), r"`frozen` must be a tuple of names, but is 2"),
    "frozen one word": (lambda: ss.Specials(eos=1, frozen="eos"), r"`frozen` must be a tuple of names, but is 'eos'"),
    "beyond the vocabulary": (
        lambda: ss.Objective(specials=ss.Specials(eos=6), vocab_size=V),
        r"`eos` must be an id below 6, but is 6",
    ),
    "beyond the embeddings": (
        lambda: ss.Objective(token=similarity(), specials=ss.Specials(bos=9)),
        r"`bos` must be an id below 6, but is 9",
    ),
    "beyond the logits": (
        lambda: ss.Objective(specials=ss.Specials(pad=9))(LOGITS, TARGETS),
        r"`pad` must be an id below 6, but is 9",
    ),
    "beyond the substitutes": (
        lambda: ss.Objective(hamming(substitutes=similarity()), specials=ss.Specials(eos=9)),
        r"`eos` must be an id below 6, but is 9",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(Specials=SPECIALS))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
