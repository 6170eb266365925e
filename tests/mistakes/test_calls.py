"""Mistakes in objectives and their calls."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from mistakes.start import (
    COUNTS,
    EMBEDDINGS,
    HIDDEN,
    INF,
    LOGITS,
    LOGPROBS,
    NAN,
    POOLS,
    REDUCTIONS,
    REFERENCES,
    TARGETS,
    WEIGHT,
    B,
    Cases,
    D,
    T,
    V,
    assert_sentence,
    call,
    changed,
    entropy,
    hamming,
    head,
    linear,
    listed,
    on_own_prefixes,
    pointing,
    propose,
    scored,
    similarity,
    soft,
    teacher,
    through,
    zeros,
)

OBJECTIVE: Cases = {
    "sequence a word": (
        lambda: ss.Objective("hamming"),
        r"`sequence` must be a sequence law, as Hamming, but is a str",
    ),
    "sequence a class": (lambda: ss.Objective(ss.Hamming), r"`sequence` must be a sequence law, as Hamming, but is "),
    "sequence a token law": (
        lambda: ss.Objective(ss.Uniform()),
        r"`sequence` must be a sequence law, as Hamming, but is a Uniform",
    ),
    "sequence a reward": (
        lambda: ss.Objective(ss.rewards.Hamming()),
        r"`sequence` must be a sequence law, as Hamming, but is a Hamming",
    ),
    "token a sequence law": (
        lambda: ss.Objective(token=hamming()),
        r"`token` must be a token law, as Similarity, but is a Hamming",
    ),
    "token embeddings": (
        lambda: ss.Objective(token=EMBEDDINGS),
        r"`token` must be a token law, as Similarity, but is a Tensor",
    ),
    "lazy 1": (lambda: ss.Objective(lazy=1), r"`lazy` must be True or False, but is 1"),
    "lazy a word": (lambda: ss.Objective(lazy="no"), r"`lazy` must be True or False, but is 'no'"),
    "entropy -1": (lambda: ss.Objective(entropy=-1), r"`entropy` must be a finite number, 0 or more, but is -1"),
    "entropy NaN": (lambda: ss.Objective(entropy=NAN), r"`entropy` must be a number, but is nan"),
    "entropy infinite": (
        lambda: ss.Objective(entropy=INF),
        r"`entropy` must be a finite number, 0 or more, but is inf",
    ),
    "entropy None": (lambda: ss.Objective(entropy=None), r"`entropy` must be a number, but is None"),
    "specials a dictionary": (
        lambda: ss.Objective(specials={"pad": 0}),
        r"`specials` must be a Specials, as Specials\(pad=0\), but is a dict",
    ),
    "specials an id": (lambda: ss.Objective(specials=0), r"`specials` must be a Specials, as .*, but is an int"),
    "vocab_size 0": (lambda: ss.Objective(vocab_size=0), r"`vocab_size` must be 1 or more, but is 0"),
    "vocab_size 1.5": (lambda: ss.Objective(vocab_size=1.5), r"`vocab_size` must be a whole number, but is 1\.5"),
    "vocab_size of others": (
        lambda: ss.Objective(token=similarity(), vocab_size=7),
        r"`vocab_size` must be that of Similarity, 6, but is 7",
    ),
    "ignore_index 1.5": (
        lambda: ss.Objective(ignore_index=1.5),
        r"`ignore_index` must be a whole number, but is 1\.5",
    ),
    "ignore_index None": (
        lambda: ss.Objective(ignore_index=None),
        r"`ignore_index` must be a whole number, but is None",
    ),
    "ignore_index a word": (
        lambda: ss.Objective(ignore_index="pad"),
        r"`ignore_index` must be a whole number, but is 'pad'",
    ),
}

PROPOSE: Cases = {
    "targets a list": (lambda: propose([[1, 2]]), r"`targets` must be a torch\.Tensor, but is a list"),
    "targets None": (lambda: propose(None), r"`targets` must be a torch\.Tensor, but is None"),
    "targets of floats": (
        lambda: propose(TARGETS.float()),
        r"`targets` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "targets a mask": (
        lambda: propose(TARGETS > 2),
        r"`targets` must be a tensor of whole numbers, but is torch\.bool",
    ),
    "targets of one dimension": (lambda: propose(TARGETS[0]), r"`targets` must be of shape \(B, T\), but is \(3,\)"),
    "targets of three dimensions": (
        lambda: propose(REFERENCES),
        r"`targets` must be of shape \(B, T\), but is \(2, 1, 3\)",
    ),
    "targets beyond": (
        lambda: propose(TARGETS + 1),
        r"`targets` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "targets negative": (
        lambda: propose(TARGETS - 1),
        r"`targets` must be ids in \[0, 6\), but is -1 at its lowest",
    ),
    "targets elsewhere": (
        lambda: ss.Objective(token=similarity()).propose(TARGETS.to("meta")),
        r"`targets` must be on cpu, as the rest of the objective \(`objective\.to\(.*\)` moves it\), but is on meta",
    ),
    "references a list": (
        lambda: propose(references=[[1]]),
        r"`references` must be a torch\.Tensor, but is a list",
    ),
    "references of two dimensions": (
        lambda: propose(references=TARGETS),
        r"`references` must be of shape \(B, R, S\) = \(2, \*, \*\), but is \(2, 3\)",
    ),
    "references of another batch": (
        lambda: propose(references=torch.zeros(5, 1, 3, dtype=torch.long)),
        r"`references` must be of shape \(B, R, S\) = \(2, \*, \*\), but is \(5, 1, 3\)",
    ),
    "references of floats": (
        lambda: propose(references=REFERENCES.float()),
        r"`references` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "references beyond": (
        lambda: propose(references=REFERENCES + 1),
        r"`references` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "references elsewhere": (
        lambda: propose(references=REFERENCES.to("meta")),
        r"`references` must be on cpu, as the rest, but is on meta",
    ),
    "generator a seed": (
        lambda: propose(generator=0),
        r"`generator` must be a torch\.Generator \(`torch\.Generator\(\)\..* makes one\) or a Philox, but is an int",
    ),
    "stream a number": (lambda: propose(stream=0), r"`stream` must be a torch\.cuda\.Stream, but is an int"),
    "generator of another device": (
        lambda: propose(TARGETS.to("meta"), generator=torch.Generator()),
        r"`generator` must be on the device of the targets, meta, but is cpu",
    ),
}

CALL: Cases = {
    "logits a list": (lambda: call([[0.0]]), r"`logits` must be a torch\.Tensor, but is a list"),
    "logits of integers": (
        lambda: call(LOGITS.long()),
        r"`logits` must be a floating-point tensor, but is torch\.int64",
    ),
    "arguments swapped": (
        lambda: call(TARGETS, LOGITS),
        r"`logits` must be a floating-point tensor, but is torch\.int64",
    ),
    "logits of two dimensions": (
        lambda: call(LOGITS[0], TARGETS[0]),
        r"`logits` must be of shape \(B, K', T, V\) or \(B, T, V\), but is \(3, 6\)",
    ),
    "logits of five dimensions": (
        lambda: call(LOGITS[None, None]),
        r"`logits` must be of shape \(B, K', T, V\) or \(B, T, V\), but is \(1, 1, 2, 3, 6\)",
    ),
    "logits over fewer tokens": (lambda: call(LOGITS[..., :5]), r"`logits` must be over 6 tokens, but is over 5"),
    "logits over other tokens than the candidates": (
        lambda: through(ss.Objective(hamming(), vocab_size=6), torch.zeros(B, T, 9)),
        r"`logits` must be over 6 tokens, but is over 9",
    ),
    "logits over fewer tokens than the candidates": (
        lambda: through(ss.Objective(), torch.zeros(B, T, 3)),
        r"`target\.ids` must be ids in \[0, 3\), but is 5 at its highest",
    ),
    "logits of another batch": (
        lambda: call(LOGITS[:1]),
        r"`logits` must be of shape \(2, 1, 3, V\), as the target, but is \(1, 1, 3, 6\)",
    ),
    "logits of another length": (
        lambda: call(LOGITS[:, :2]),
        r"`logits` must be of shape \(2, 1, 3, V\), as the target, but is \(2, 1, 2, 6\)",
    ),
    "logits of the ground truth only": (
        lambda: through(on_own_prefixes(), LOGITS),
        r"`logits` must be of shape \(2, 3, 3, V\), as the target, but is \(2, 1, 3, 6\)",
    ),
    "logits of other candidates": (
        lambda: through(on_own_prefixes(), torch.zeros(B, 2, T, V)),
        r"`logits` must be of shape \(2, 3, 3, V\), as the target, but is \(2, 2, 3, 6\)",
    ),
    "logits elsewhere": (lambda: call(LOGITS.to("meta")), r"`logits` must be on cpu, as the rest, but is on meta"),
    "candidates of another objective": (
        lambda: ss.mle()(LOGITS, ss.mle().propose(TARGETS)),
        r"`candidates` must be from this objective's `propose`, but is from another's",
    ),
    "ignored positions before real ones when not lazy": (
        lambda: on_own_prefixes().propose(TARGETS.flip(1).contiguous().index_fill(1, torch.tensor([0]), -100)),
        r"`targets` must be free of ignored positions before real ones when lazy is False, but is not",
    ),
    "inputs of targets with a BOS": (
        lambda: ss.mle(specials=ss.Specials(bos=1)).propose(torch.tensor([[1, 5, 2], [1, 6, 2]])).inputs,
        r"`targets` must be without BOS in front, which `inputs` puts there \(`targets\[:, 1:\]` .*\), but is 1 first",
    ),
    "inputs without a BOS": (
        lambda: ss.mle().propose(TARGETS).inputs,
        r"`specials\.bos` must be given for `inputs` \(.*\), but is None",
    ),
    "plain targets when not lazy": (
        lambda: on_own_prefixes()(LOGITS, TARGETS),
        r"`candidates` must be from `propose` when lazy is False, so that samples are decoded, but is plain targets",
    ),
    "candidates None": (
        lambda: call(LOGITS, None),
        r"`candidates` must be from `propose`, or targets, but is None",
    ),
    "candidates a list": (
        lambda: call(LOGITS, TARGETS.tolist()),
        r"`candidates` must be from `propose`, or targets, but is a list",
    ),
    "candidates a soft target": (
        lambda: call(LOGITS, ss.SoftTarget.from_labels(TARGETS)),
        r"`candidates` must be from `propose`, or targets, but is a SoftTarget",
    ),
    "targets of floats": (
        lambda: call(LOGITS, TARGETS.float()),
        r"`targets` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "targets beyond": (
        lambda: call(LOGITS, TARGETS + 1),
        r"`targets` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "targets beyond an objective of no vocabulary": (
        lambda: ss.Objective()(LOGITS, TARGETS + 1),
        r"`targets` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "reduction unknown": (
        lambda: call(reduction="average"),
        rf"`reduction` must be one of {REDUCTIONS}, but is 'average'",
    ),
    "reduction None": (lambda: call(reduction=None), rf"`reduction` must be one of {REDUCTIONS}, but is None"),
    "num_items 0": (lambda: call(num_items=0), r"`num_items` must be greater than 0, but is 0"),
    "num_items -1": (lambda: call(num_items=-1.0), r"`num_items` must be greater than 0, but is -1"),
    "num_items NaN": (lambda: call(num_items=NAN), r"`num_items` must be a number, but is nan"),
    "num_items a word": (lambda: call(num_items="3"), r"`num_items` must be a number, but is '3'"),
    "num_items with a sum": (
        lambda: call(reduction="sum", num_items=3),
        r"`num_items` must be left out with reduction='sum', but is 3",
    ),
    "num_items with none": (
        lambda: call(reduction="none", num_items=torch.tensor(3)),
        r"`num_items` must be left out with reduction='none', but is 3",
    ),
    "num_items a tensor of zero": (
        lambda: call(num_items=torch.tensor(0)),
        r"`num_items` must be greater than 0, but is 0",
    ),
    "num_items a negative tensor": (
        lambda: call(num_items=torch.tensor(-2.0)),
        r"`num_items` must be greater than 0, but is -2",
    ),
    "num_items a row": (
        lambda: call(num_items=torch.ones(B)),
        r"`num_items` must be a single number, but is of shape \(2,\)",
    ),
    "generator a seed": (
        lambda: ss.Objective(hamming(samples=2))(LOGITS, TARGETS, generator=0),
        r"`generator` must be a torch\.Generator \(`torch\.Generator\(\)\..* makes one\) or a Philox, but is an int",
    ),
}

HEAD: Cases = {
    "hidden a list": (lambda: head([0.0]), r"`hidden` must be a torch\.Tensor, but is a list"),
    "hidden of integers": (
        lambda: head(HIDDEN.long()),
        r"`hidden` must be a floating-point tensor, but is torch\.int64",
    ),
    "hidden of two dimensions": (
        lambda: head(HIDDEN[0]),
        r"`hidden` must be of shape \(B, K', T, D\) or \(B, T, D\), but is \(3, 4\)",
    ),
    "hidden of another batch": (
        lambda: head(HIDDEN[:1]),
        r"`hidden` must be of shape \(2, 1, 3, D\), as the target, but is \(1, 1, 3, 4\)",
    ),
    "hidden of the ground truth only": (
        lambda: (lambda own: own.head(HIDDEN, WEIGHT, own.propose(TARGETS)))(on_own_prefixes()),
        r"`hidden` must be of shape \(2, 3, 3, D\), as the target, but is \(2, 1, 3, 4\)",
    ),
    "weight turned": (
        lambda: head(weight=WEIGHT.T),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\), but is \(4, 6\)",
    ),
    "weight a module": (
        lambda: head(weight=torch.nn.Linear(D, V)),
        r"`weight` must be a torch\.Tensor, but is a Linear",
    ),
    "weight of integers": (
        lambda: head(weight=WEIGHT.long()),
        r"`weight` must be a floating-point tensor, but is torch\.int64",
    ),
    "weight over fewer tokens": (lambda: head(weight=WEIGHT[:5]), r"`weight` must be over 6 tokens, but is over 5"),
    "weight of another type": (
        lambda: head(weight=WEIGHT.double()),
        r"`weight` must be of the type of `hidden`, torch\.float32, but is torch\.float64",
    ),
    "bias of another size": (
        lambda: head(bias=torch.zeros(D)),
        r"`bias` must be of shape \(V,\) = \(6,?\), but is \(4,\)",
    ),
    "bias a number": (lambda: head(bias=0.0), r"`bias` must be a torch\.Tensor, but is a float"),
    "bias of integers": (
        lambda: head(bias=torch.zeros(V, dtype=torch.long)),
        r"`bias` must be a floating-point tensor, but is torch\.int64",
    ),
    "bias of another type": (
        lambda: head(bias=torch.zeros(V, dtype=torch.float64)),
        r"`bias` must be of the type of `hidden`, torch\.float32, but is torch\.float64",
    ),
    "chunk 0": (lambda: head(chunk=0), r"`chunk` must be 1 or more, but is 0"),
    "chunk 1.5": (lambda: head(chunk=1.5), r"`chunk` must be a whole number, but is 1\.5"),
    "candidates of another objective": (
        lambda: ss.mle()(LOGITS, ss.mle().propose(TARGETS)),
        r"`candidates` must be from this objective's `propose`, but is from another's",
    ),
    "ignored positions before real ones when not lazy": (
        lambda: on_own_prefixes().propose(TARGETS.flip(1).contiguous().index_fill(1, torch.tensor([0]), -100)),
        r"`targets` must be free of ignored positions before real ones when lazy is False, but is not",
    ),
    "inputs without a BOS": (
        lambda: ss.mle().propose(TARGETS).inputs,
        r"`specials\.bos` must be given for `inputs` \(.*\), but is None",
    ),
    "plain targets when not lazy": (
        lambda: on_own_prefixes().head(HIDDEN, WEIGHT, TARGETS),
        r"`candidates` must be from `propose` when lazy is False, so that samples are decoded, but is plain targets",
    ),
    "reduction unknown": (lambda: head(reduction="x"), rf"`reduction` must be one of {REDUCTIONS}, but is 'x'"),
    "num_items 0": (lambda: head(num_items=0), r"`num_items` must be greater than 0, but is 0"),
    "num_items with a sum": (
        lambda: head(reduction="sum", num_items=3),
        r"`num_items` must be left out with reduction='sum', but is 3",
    ),
}

PRESETS: Cases = {
    "mle entropy -1": (lambda: ss.mle(entropy=-1), r"`entropy` must be a finite number, 0 or more, but is -1"),
    "label_smoothing 1.5": (lambda: ss.label_smoothing(1.5), r"`epsilon` must be between 0 and 1, but is 1\.5"),
    "tok tau 0": (lambda: ss.tok(EMBEDDINGS, 0, 0.5), r"`tau` must be greater than 0, but is 0"),
    "tok alpha 2": (lambda: ss.tok(EMBEDDINGS, 1.0, 2), r"`alpha` must be between 0 and 1, but is 2"),
    "tok beta without counts": (
        lambda: ss.tok(EMBEDDINGS, 1.0, 0.5, beta=0.1),
        r"`counts` must be given when `beta` is greater than 0, but is None",
    ),
    "tok a zero embedding": (
        lambda: ss.tok(changed(EMBEDDINGS, 0, 0.0), 1.0, 0.5),
        r"`embeddings` must be of a norm greater than 0 \(.*missing='zeros'\), but is all zeros for token 0",
    ),
    "seq without tau": (lambda: ss.seq(), r"`tau` must be given, or else `rate`, and not both, but is None"),
    "seq both tau and rate": (lambda: ss.seq(1.0, rate=0.5), r"`tau` must be given, or else `rate`, .*, but is 1\.0"),
    "seq alpha 1.5": (lambda: ss.seq(1.0, alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "seq pool unknown": (lambda: ss.seq(1.0, pool="x"), rf"`pool` must be one of {POOLS}, but is 'x'"),
    "seq lazy a word": (lambda: ss.seq(1.0, lazy="no"), r"`lazy` must be True or False, but is 'no'"),
    "seq samples 0": (lambda: ss.seq(1.0, samples=0), r"`samples` must be 1 or more, but is 0"),
    "seq samples 0 with a reward": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, samples=0),
        r"`samples` must be 1 or more, but is 0",
    ),
    "seq samples 1 with a reward": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, samples=1),
        r"`samples` must be 2 or more with weights='tilted' \(.*\), but is 1",
    ),
    "seq reward a number": (
        lambda: ss.seq(1.0, reward=3, reward_tau=1.0),
        r"`reward` must be callable, as Bleu\(\), but is an int",
    ),
    "seq reward_tau -1": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=-1),
        r"`reward_tau` must be greater than 0, but is -1",
    ),
    "seq weights unknown": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, weights="x"),
        r"`weights` must be one of 'tilted', 'literal', 'batch', but is 'x'",
    ),
    "seq reward without reward_tau": (
        lambda: ss.seq(1.0, reward=zeros),
        r"`reward_tau` must be given with a `reward`, but is None",
    ),
    "seq reward_tau without a reward": (
        lambda: ss.seq(1.0, reward_tau=2.0),
        r"`reward_tau` must be left out without a `reward`, but is 2\.0",
    ),
    "seq weights without a reward": (
        lambda: ss.seq(1.0, weights="literal"),
        r"`weights` must be left out without a `reward`, but is 'literal'",
    ),
    "tok_seq token_tau -1": (
        lambda: ss.tok_seq(EMBEDDINGS, -1, 0.5, 1.0),
        r"`token_tau` must be greater than 0, but is -1",
    ),
    "tok_seq token_alpha 1.5": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 1.5, 1.0),
        r"`token_alpha` must be between 0 and 1, but is 1\.5",
    ),
    "tok_seq without tau": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5),
        r"`tau` must be given, or else `rate`, and not both, but is None",
    ),
    "tok_seq vocab_size": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5, 1.0, vocab_size=7),
        r"`vocab_size` must be that of Similarity, 6, but is 7",
    ),
}


@pytest.mark.parametrize(
    ("mistake", "sentence"), listed(Objective=OBJECTIVE, propose=PROPOSE, call=CALL, head=HEAD, presets=PRESETS)
)
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second kind of device")
def test_a_generator_of_the_wrong_device() -> None:
    with pytest.raises(ValueError, match=r"^`generator` must be on the device of the targets, cpu, but is cuda"):
        propose(generator=torch.Generator("cuda"))


def test_what_these_mistakes_start_from_is_right() -> None:
    assert bool(call().total.isfinite())
    assert bool(head(bias=torch.zeros(V)).total.isfinite())
    assert bool(entropy().isfinite())
    assert bool(entropy(target=pointing()).isfinite())
    assert bool(linear(bias=torch.zeros(V), chunk=1).isfinite())
    assert propose(references=REFERENCES, generator=torch.Generator()).sequences.shape == (B, 1, T)
    assert scored(zeros).sequences.shape == (B, 1, T)
    assert bool(ss.Objective(token=teacher())(LOGITS, TARGETS).total.isfinite())
    assert bool(ss.Objective(token=similarity(beta=0.5, counts=COUNTS))(LOGITS, TARGETS).total.isfinite())
    own = on_own_prefixes()
    assert bool(own(torch.zeros(B, 3, T, V), own.propose(TARGETS)).total.isfinite())
    assert soft(weights=LOGPROBS.exp()).dense(V).shape == (B, T, V)


def test_a_loss_says_where_its_tensor_is() -> None:
    loss = call()
    with pytest.raises(
        AttributeError, match=r"^A `Loss` has no `backward`: it is a record, and `loss\.total` the tens"
    ):
        loss.backward()
    assert not hasattr(loss, "item")
    assert torch.equal(copy.deepcopy(loss).total, loss.total)
