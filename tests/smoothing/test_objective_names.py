"""What objectives are called and shown as; presets are the objectives written out."""

from __future__ import annotations

import torch

import seqsmooth as ss
from oracles.every_objective import PAD, SPECIALS, VECTORS, V, every


def test_presets_are_objectives_written_out() -> None:
    counts = torch.arange(1.0, V + 1)
    reward = ss.rewards.Bleu()
    pairs = [
        (ss.mle(entropy=0.2), ss.Objective(entropy=0.2)),
        (ss.label_smoothing(0.2), ss.Objective(token=ss.Uniform(0.2))),
        (
            ss.tok(VECTORS, 0.3, 0.7, beta=0.2, counts=counts, missing=[PAD]),
            ss.Objective(token=ss.Similarity(VECTORS, 0.3, 0.2, counts, 0.7, missing=[PAD])),
        ),
        (ss.seq(0.3, pool="refs", alpha=0.5), ss.Objective(ss.Hamming(0.3, pool="refs", alpha=0.5))),
        (ss.seq(rate=0.3, lazy=False, samples=2), ss.Objective(ss.Hamming(rate=0.3, samples=2), lazy=False)),
        (
            ss.seq(0.3, reward=reward, reward_tau=0.5, samples=4, alpha=0.4, weights="literal"),
            ss.Objective(ss.Rewarded(reward, ss.Hamming(0.3), 0.5, 4, 0.4, weights="literal")),
        ),
        (
            ss.tok_seq(VECTORS, 0.3, 0.7, 0.2, alpha=0.4, pool="batch", specials=SPECIALS),
            ss.Objective(
                ss.Hamming(0.2, pool="batch", alpha=0.4), ss.Similarity(VECTORS, 0.3, alpha=0.7), specials=SPECIALS
            ),
        ),
    ]
    for preset, written in pairs:
        assert preset.signature() == written.signature()


def test_names_tell_objectives_apart() -> None:
    objectives = [objective for lazy in (True, False) for objective in every(lazy)]
    objectives += [ss.mle(entropy=0.1), ss.mle(), ss.tok(-2 * VECTORS[:, :2], 0.4, 0.5), ss.seq(rate=0.1)]
    assert len({objective.signature() for objective in objectives}) == len(objectives)
    objective = ss.tok_seq(VECTORS, 0.4, 0.5, 0.3, pool="refs", alpha=0.5, specials=SPECIALS)
    signature, shown = objective.signature(), repr(objective)
    for part in (
        "hamming|tau:0.3|pool:refs|alpha:0.5",
        "tau:0.4",
        "lazy:yes",
        f"version:{ss.__version__}",
    ):
        assert part in signature
    for part in ("Hamming(tau=0.3, pool=refs, alpha=0.5)", "Similarity(V=7", "eos:2"):
        assert part in shown
    assert "\n" not in signature


def test_top_k_says_what_it_drops() -> None:
    law = ss.Similarity(VECTORS, 0.4, mode="top-k", k=2)
    dense = ss.Similarity(VECTORS, 0.4).rows(torch.arange(V))
    expected = 1 - dense.sort(-1, descending=True).values[:, :2].sum(-1)
    torch.testing.assert_close(law.dropped, expected, atol=1e-12, rtol=0)
    assert f"drops {expected.mean():.1%} of the mass" in repr(ss.Objective(token=law))
    assert (ss.Similarity(VECTORS, 0.4).dropped == 0).all()
    zero = ss.Similarity(VECTORS, 0.4, mode="top-k", k=2, tail="zero").rows(torch.arange(V))
    torch.testing.assert_close(zero.sum(-1), 1 - expected, atol=1e-12, rtol=0)


def test_preparing_a_law_keeps_every_choice() -> None:
    reward = ss.rewards.Bleu()
    law = ss.Rewarded(
        reward,
        ss.Hamming(0.3, substitutes=ss.Similarity(VECTORS, 0.4)),
        0.5,
        3,
        0.4,
        weights="literal",
        against="target",
    )
    objective = ss.Objective(law, specials=SPECIALS)
    assert objective.sequence is law
    assert f"seq:({law.signature()})" in objective.signature()
    own = ss.Hamming(0.3, samples=2, alpha=0.4, substitutes=ss.Similarity(VECTORS, 0.4), integrate=False)
    objective = ss.Objective(own, lazy=False, specials=SPECIALS)
    assert objective.sequence is own
    assert f"seq:({own.signature()})" in objective.signature()
    assert not list(own.buffers(recurse=False))  # what is computed for an objective stays with it

    token = ss.Similarity(VECTORS, 0.4)
    assert ss.Objective(token=token).token is token


def test_presets_hand_every_option_on() -> None:
    counts = torch.arange(1.0, V + 1)
    reward = ss.rewards.Bleu()
    preset = ss.tok_seq(
        VECTORS,
        0.3,
        0.7,
        beta=0.2,
        counts=counts,
        missing=[PAD],
        rate=0.2,
        pool="batch",
        alpha=0.4,
        reward=reward,
        reward_tau=0.5,
        weights="literal",
        lazy=False,
        entropy=0.1,
        specials=SPECIALS,
        vocab_size=V,
        ignore_index=-1,
    )
    written = ss.Objective(
        ss.Rewarded(reward, ss.Hamming(rate=0.2, pool="batch"), 0.5, 5, 0.4, weights="literal"),
        ss.Similarity(VECTORS, 0.3, 0.2, counts, 0.7, missing=[PAD]),
        lazy=False,
        entropy=0.1,
        specials=SPECIALS,
        ignore_index=-1,
    )
    assert preset.signature() == written.signature()


def test_signatures_see_what_tensors_hold() -> None:
    counts = torch.arange(1.0, V + 1)
    documents = [[[4, 5, 6], [5, 6]], [[4, 6]]]
    other_documents = [[[4, 5, 6], [5, 5]], [[4, 6]]]
    pairs = [
        [ss.tok(VECTORS, 0.3, 0.7, beta=0.2, counts=c) for c in (counts, counts.flip(0))],
        [ss.tok(VECTORS, 0.3, 0.7, missing=m) for m in ([], [1])],
        [ss.seq(0.3, pool=torch.tensor(ids)) for ids in ([4, 5], [4, 6])],
        [ss.seq(0.3, vocab_size=size) for size in (5, 5000)],
        [ss.mle(ignore_index=index) for index in (-1, -100)],
        [ss.seq(tau) for tau in (0.3, 0.3000000001)],
        [ss.seq(0.3, lazy=lazy) for lazy in (True, False)],
        [
            ss.seq(0.3, reward=ss.rewards.Cider(ss.rewards.DocumentFrequencies.build(d)), reward_tau=1.0)
            for d in (documents, other_documents)
        ],
    ]
    for one, other in pairs:
        assert one.signature() != other.signature()
    law = ss.Similarity(VECTORS, 0.3)
    assert f"tok:({law.signature()})" in ss.Objective(token=law).signature()
    assert "samples:1" in ss.seq(0.3, lazy=False).signature()


def test_a_temperature_is_shown_as_a_rate_and_a_rate_as_a_temperature() -> None:
    by_tau = ss.seq(0.1, vocab_size=9488)
    assert "tau=0.1, pool=vocab, alpha=1.0" in repr(by_tau)
    assert "; rate=0.301" in repr(by_tau)
    by_rate = repr(ss.seq(rate=0.301, vocab_size=9488))
    assert "rate=0.301, pool=vocab, alpha=1.0" in by_rate
    assert "; tau=0.1" in by_rate
    assert repr(ss.Hamming(0.1)) == "Hamming(tau=0.1, pool=vocab, alpha=1.0)"
    assert "; rate=0.424" in repr(ss.seq(1.0, vocab_size=3))  # two others, 2 / (2 + e)
    rewarded = ss.seq(1.0, vocab_size=3, reward=ss.rewards.Constant(), reward_tau=1.0)
    assert "; rate=0.424" in repr(rewarded)  # of its proposal
    for odd in (ss.seq(rate=0.0, vocab_size=9), ss.seq(rate=1.0, vocab_size=9), ss.seq(rate=0.99, vocab_size=9)):
        assert "tau=" not in repr(odd)
    assert "rate=" not in repr(ss.seq(0.1, vocab_size=1))
    assert "rate=" in repr(ss.seq(1e-300, vocab_size=9))
