"""Mistakes in objectives and presets, when they are made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import seqsmooth as ss
from mistakes.start import (
    COUNTS,
    EMBEDDINGS,
    INF,
    NAN,
    POOLS,
    Cases,
    assert_sentence,
    changed,
    hamming,
    listed,
    similarity,
    zeros,
)

OBJECTIVE: Cases = {
    "sequence a word": (
        lambda: ss.Objective("hamming"),
        r"`sequence` must be a sequence law, as Hamming; it is a str",
    ),
    "sequence a class": (lambda: ss.Objective(ss.Hamming), r"`sequence` must be a sequence law, as Hamming; it is "),
    "sequence a token law": (
        lambda: ss.Objective(ss.Uniform()),
        r"`sequence` must be a sequence law, as Hamming; it is a Uniform",
    ),
    "sequence a reward": (
        lambda: ss.Objective(ss.rewards.Hamming()),
        r"`sequence` must be a sequence law, as Hamming; it is a Hamming",
    ),
    "token a sequence law": (
        lambda: ss.Objective(token=hamming()),
        r"`token` must be a token law, as Similarity; it is a Hamming",
    ),
    "token embeddings": (
        lambda: ss.Objective(token=EMBEDDINGS),
        r"`token` must be a token law, as Similarity; it is a Tensor",
    ),
    "lazy 1": (lambda: ss.Objective(lazy=1), r"`lazy` must be True or False; it is 1"),
    "lazy a word": (lambda: ss.Objective(lazy="no"), r"`lazy` must be True or False; it is 'no'"),
    "entropy -1": (lambda: ss.Objective(entropy=-1), r"`entropy` must be a finite number, 0 or more; it is -1"),
    "entropy NaN": (lambda: ss.Objective(entropy=NAN), r"`entropy` must be a number; it is nan"),
    "entropy infinite": (
        lambda: ss.Objective(entropy=INF),
        r"`entropy` must be a finite number, 0 or more; it is inf",
    ),
    "entropy None": (lambda: ss.Objective(entropy=None), r"`entropy` must be a number; it is None"),
    "specials a dictionary": (
        lambda: ss.Objective(specials={"pad": 0}),
        r"`specials` must be a Specials, as Specials\(pad=0\); it is a dict",
    ),
    "specials an id": (lambda: ss.Objective(specials=0), r"`specials` must be a Specials, as .*; it is an int"),
    "vocab_size 0": (lambda: ss.Objective(vocab_size=0), r"`vocab_size` must be 1 or more; it is 0"),
    "vocab_size 1.5": (lambda: ss.Objective(vocab_size=1.5), r"`vocab_size` must be a whole number; it is 1\.5"),
    "vocab_size of others": (
        lambda: ss.Objective(token=similarity(), vocab_size=7),
        r"`vocab_size` must be that of Similarity, 6; it is 7",
    ),
    "ignore_index 1.5": (
        lambda: ss.Objective(ignore_index=1.5),
        r"`ignore_index` must be a whole number; it is 1\.5",
    ),
    "ignore_index None": (
        lambda: ss.Objective(ignore_index=None),
        r"`ignore_index` must be a whole number; it is None",
    ),
    "ignore_index a word": (
        lambda: ss.Objective(ignore_index="pad"),
        r"`ignore_index` must be a whole number; it is 'pad'",
    ),
}
PRESETS: Cases = {
    "mle entropy -1": (lambda: ss.mle(entropy=-1), r"`entropy` must be a finite number, 0 or more; it is -1"),
    "label_smoothing 1.5": (lambda: ss.label_smoothing(1.5), r"`epsilon` must be between 0 and 1; it is 1\.5"),
    "tok tau 0": (lambda: ss.tok(EMBEDDINGS, 0, 0.5), r"`tau` must be greater than 0; it is 0"),
    "tok alpha 2": (lambda: ss.tok(EMBEDDINGS, 1.0, 2), r"`alpha` must be between 0 and 1; it is 2"),
    "tok beta without counts": (
        lambda: ss.tok(EMBEDDINGS, 1.0, 0.5, beta=0.1),
        r"`counts` must be given when `beta` is greater than 0; it is None",
    ),
    "tok a zero embedding": (
        lambda: ss.tok(changed(EMBEDDINGS, 0, 0.0), 1.0, 0.5),
        r"`embeddings` must be of a norm greater than 0 \(.*missing='zeros'\); it is all zeros for token 0",
    ),
    "seq without tau": (lambda: ss.seq(), r"`tau` must be given, or else `rate`, and not both; it is None"),
    "seq both tau and rate": (lambda: ss.seq(1.0, rate=0.5), r"`tau` must be given, or else `rate`, .*; it is 1\.0"),
    "seq alpha 1.5": (lambda: ss.seq(1.0, alpha=1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "seq pool unknown": (lambda: ss.seq(1.0, pool="x"), rf"`pool` must be one of {POOLS}; it is 'x'"),
    "seq lazy a word": (lambda: ss.seq(1.0, lazy="no"), r"`lazy` must be True or False; it is 'no'"),
    "seq samples 0": (lambda: ss.seq(1.0, samples=0), r"`samples` must be 1 or more; it is 0"),
    "seq samples 0 with a reward": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, samples=0),
        r"`samples` must be 1 or more; it is 0",
    ),
    "seq samples 1 with a reward": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, samples=1),
        r"`samples` must be 2 or more with weights='tilted' \(.*\); it is 1",
    ),
    "seq reward a number": (
        lambda: ss.seq(1.0, reward=3, reward_tau=1.0),
        r"`reward` must be callable, as Bleu\(\); it is an int",
    ),
    "seq reward_tau -1": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=-1),
        r"`reward_tau` must be greater than 0; it is -1",
    ),
    "seq weights unknown": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, weights="x"),
        r"`weights` must be one of 'tilted', 'literal', 'batch'; it is 'x'",
    ),
    "seq reward without reward_tau": (
        lambda: ss.seq(1.0, reward=zeros),
        r"`reward_tau` must be given with a `reward`; it is None",
    ),
    "seq reward_tau without a reward": (
        lambda: ss.seq(1.0, reward_tau=2.0),
        r"`reward_tau` must be left out without a `reward`; it is 2\.0",
    ),
    "seq weights without a reward": (
        lambda: ss.seq(1.0, weights="literal"),
        r"`weights` must be left out without a `reward`; it is 'literal'",
    ),
    "tok_seq token_tau -1": (
        lambda: ss.tok_seq(EMBEDDINGS, -1, 0.5, 1.0),
        r"`token_tau` must be greater than 0; it is -1",
    ),
    "tok_seq token_alpha 1.5": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 1.5, 1.0),
        r"`token_alpha` must be between 0 and 1; it is 1\.5",
    ),
    "tok_seq without tau": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5),
        r"`tau` must be given, or else `rate`, and not both; it is None",
    ),
    "tok_seq vocab_size": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5, 1.0, vocab_size=7),
        r"`vocab_size` must be that of Similarity, 6; it is 7",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(Objective=OBJECTIVE, presets=PRESETS))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ss.mle(entrpy=0.1), "entrpy"),
        (lambda: ss.label_smoothing(epsilo=0.1), "epsilo"),
        (lambda: ss.tok(EMBEDDINGS, 1.0, 0.5, count=COUNTS), "count"),
        (lambda: ss.seq(1.0, smaples=3), "smaples"),
        (lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, reward_taus=3), "reward_taus"),
        (lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5, 1.0, smaples=3), "smaples"),
        (lambda: ss.Objective(lasy=True), "lasy"),
    ],
    ids=["mle", "label_smoothing", "tok", "seq", "seq with a reward", "tok_seq", "Objective"],
)
def test_a_misspelt_option_is_refused(call: Callable[[], object], name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        call()
