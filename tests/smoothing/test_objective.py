"""The objective as its users meet it: shapes, edges, records, names."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.smoothing.records import Draws

V = 7
PAD, BOS, EOS, UNK = range(4)
SPECIALS = ss.Specials(PAD, BOS, EOS, UNK)
TARGETS = torch.tensor([[4, 5, EOS, PAD], [6, EOS, PAD, PAD]])
REFERENCES = torch.tensor([[[4, 5, EOS], [5, 6, EOS]], [[6, EOS, PAD], [PAD, PAD, PAD]]])
VECTORS = torch.randn(V, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
EVERY_SEQUENCE = {
    "truth": lambda: ss.GroundTruth(),
    "hamming": lambda: ss.Hamming(0.8, pool="refs", alpha=0.5),
    "hamming L=2": lambda: ss.Hamming(0.8, pool="batch", alpha=0.5, samples=2),
    "rewarded": lambda: ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(0.8, pool="refs"), 0.5, 2, 0.5),
    "batch weights": lambda: ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(0.8, pool="refs"), 0.5, 1, 0.5, weights="batch"),
    "edit": lambda: ss.Edit(0.8, "refs", 0.5, 2),
}
EVERY_TOKEN = {
    "dirac": lambda: ss.Dirac(),
    "uniform": lambda: ss.Uniform(0.2),
    "similarity": lambda: ss.Similarity(VECTORS, 0.4, alpha=0.5),
    "sampled": lambda: ss.Similarity(VECTORS, 0.4, alpha=0.5, mode="sampled", k=2),
}


def run(objective: ss.Objective, targets: Tensor, references: Tensor) -> tuple[ss.Loss, Tensor]:
    candidates = objective.propose(targets, references=references, generator=torch.Generator().manual_seed(0))
    logits = torch.randn(*candidates.sequences.shape, V, dtype=torch.float64, requires_grad=True)
    loss = objective(logits, candidates)
    (gradient,) = torch.autograd.grad(loss.total, logits)
    return loss, gradient


def every(lazy: bool) -> list[ss.Objective]:
    return [
        ss.Objective(sequence(), token(), lazy=lazy, specials=SPECIALS, vocab_size=V)
        for name, sequence in EVERY_SEQUENCE.items()
        for token in EVERY_TOKEN.values()
        if not (lazy and name == "edit")
    ]


@pytest.mark.parametrize("lazy", [True, False])
def test_ignored_rows_contribute_nothing(lazy: bool) -> None:
    """An item of padding only changes neither the loss nor any gradient nor the sample size, whatever its logits."""
    for objective in every(lazy):
        targets = torch.cat([TARGETS, torch.full((1, 4), PAD)])
        references = torch.cat([REFERENCES, torch.full((1, 2, 3), PAD)])
        candidates = objective.propose(targets, references=references)
        assert torch.isinf(candidates.ess) or 1 <= candidates.ess <= 2
        mass = candidates.target.dense(V).sum()
        if not isinstance(objective.sequence, ss.Edit):  # whose samples have masses of their own
            assert mass.item() == pytest.approx(5)
        assert not candidates.mask[2].any()
        assert (candidates.sequences[2] == PAD).all()
        logits = torch.randn(*candidates.sequences.shape, V, dtype=torch.float64)
        logits[2] = math.nan
        logits.requires_grad_()
        loss = objective(logits, candidates)
        (gradient,) = torch.autograd.grad(loss.total, logits)
        assert loss.total.isfinite()
        assert loss.nll.isfinite()
        assert not loss.ess.isnan()
        assert (gradient[2] == 0).all()
        assert gradient.isfinite().all()
        assert loss.tokens == 5


@pytest.mark.parametrize("lazy", [True, False])
def test_a_batch_of_padding_costs_nothing(lazy: bool) -> None:
    for objective in every(lazy):
        loss, gradient = run(objective, torch.full((2, 4), PAD), torch.full((2, 1, 3), PAD))
        assert loss.total == 0
        assert loss.nll == 0
        assert loss.tokens == 0
        assert (gradient == 0).all()


@pytest.mark.parametrize("lazy", [True, False])
def test_a_batch_of_one_token(lazy: bool) -> None:
    for objective in every(lazy):
        loss, gradient = run(objective, torch.tensor([[4]]), torch.tensor([[[4]]]))
        assert loss.total.isfinite()
        assert gradient.isfinite().all()
        assert loss.tokens == 1


@pytest.mark.parametrize("lazy", [True, False])
def test_no_items_at_all(lazy: bool) -> None:
    for objective in every(lazy):
        loss, gradient = run(objective, torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 2, 3, dtype=torch.long))
        assert loss.total == 0
        assert gradient.shape[0] == 0


@pytest.mark.parametrize("pool", [torch.tensor([], dtype=torch.long), torch.tensor([PAD, EOS]), "refs"])
def test_an_empty_pool_leaves_the_ground_truth(pool: str | Tensor) -> None:
    references = torch.full((2, 1, 3), EOS)
    for sequence, lazy in (
        (ss.Hamming(0.8, pool=pool), True),
        (ss.Hamming(0.8, pool=pool, samples=3), True),
        (ss.Hamming(0.8, pool=pool, samples=3), False),
        (ss.Hamming(rate=1.0, pool=pool, samples=3, integrate=False), False),
        (ss.Rewarded(ss.rewards.Constant(), ss.Hamming(0.8, pool=pool), 1.0, 2), True),
    ):
        objective = ss.Objective(sequence, lazy=lazy, specials=SPECIALS, vocab_size=V)
        candidates = objective.propose(TARGETS, references=references)
        assert torch.equal(candidates.sequences, TARGETS.unsqueeze(1).expand_as(candidates.sequences))
        logits = torch.randn(2, 1, 4, V, dtype=torch.float64)
        expected = F.cross_entropy(logits.flatten(0, 2), TARGETS.flatten(), ignore_index=PAD)
        total = objective(logits.expand(*candidates.sequences.shape, V), candidates).total
        torch.testing.assert_close(total, expected, atol=1e-12, rtol=0)


def test_edit_with_an_empty_pool_only_deletes() -> None:
    objective = ss.Objective(ss.Edit(5.0, torch.tensor([EOS]), samples=50), lazy=False, specials=SPECIALS, vocab_size=V)
    for sentence in objective.propose(TARGETS).sequences[0].tolist():
        words = [word for word in sentence if word != PAD]
        assert words in ([4, 5, EOS], [4, EOS], [5, EOS], [EOS])


def test_each_item_has_a_reference_pool_of_its_own_size() -> None:
    objective = ss.Objective(ss.Hamming(rate=0.5, pool="refs"), specials=SPECIALS, vocab_size=V)
    target = objective.propose(TARGETS, references=REFERENCES).target.dense(V)[:, 0]
    expected = torch.zeros(2, 4, V, dtype=torch.float64)
    expected[0, 0, [4, 5, 6]] = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    expected[0, 1, [4, 5, 6]] = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64)
    expected[0, 2, EOS] = 1
    expected[1, 0, 6] = 1  # its pool is {6}: no alternative
    expected[1, 1, EOS] = 1
    torch.testing.assert_close(target, expected, atol=1e-12, rtol=0)


def test_pools_of_ids_for_each_item() -> None:
    pools = torch.tensor([[5, 6, 6], [4, -1, PAD]])
    objective = ss.Objective(ss.Hamming(rate=0.5, pool=pools), specials=SPECIALS, vocab_size=V)
    target = objective.propose(TARGETS).target.dense(V)[:, 0]
    assert target[0, 0].tolist() == pytest.approx([0, 0, 0, 0, 0.5, 0.25, 0.25], abs=1e-12)
    assert target[0, 1].tolist() == pytest.approx([0, 0, 0, 0, 0, 0.5, 0.5], abs=1e-12)
    assert target[1, 0].tolist() == pytest.approx([0, 0, 0, 0, 0.5, 0, 0.5], abs=1e-12)


def test_pad_and_bos_get_no_mass() -> None:
    for token in EVERY_TOKEN.values():
        for sequence in (None, ss.Hamming(0.8, alpha=0.5), ss.Hamming(0.8, substitutes=ss.Similarity(VECTORS, 0.4))):
            objective = ss.Objective(sequence, token(), specials=SPECIALS, vocab_size=V)
            target = objective.propose(TARGETS).target.dense(V)
            assert (target[..., [PAD, BOS]] == 0).all()


def test_eos_rows_spread_when_they_have_a_vector_and_stay_sharp_without() -> None:
    with_vector = ss.Objective(token=ss.Similarity(VECTORS, 0.4), specials=SPECIALS).propose(TARGETS).target.dense(V)
    law = ss.Similarity(VECTORS, 0.4, missing=[EOS])
    without = ss.Objective(token=law, specials=SPECIALS).propose(TARGETS).target.dense(V)
    assert with_vector[0, 0, 2, EOS] < 0.99
    assert without[0, 0, 2].tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert (without[0, 0, :2, EOS] == 0).all()


def test_the_short_form_is_the_long_one() -> None:
    logits = torch.randn(2, 4, V, dtype=torch.float64)
    for objective in (ss.mle(specials=SPECIALS), ss.seq(0.5, alpha=0.3, specials=SPECIALS), ss.label_smoothing(0.1)):
        long = ss.Objective(objective.sequence, objective.token, specials=objective.specials, vocab_size=V)
        expected = long(logits.unsqueeze(1), long.propose(TARGETS)).total
        torch.testing.assert_close(objective(logits, TARGETS).total, expected, atol=0, rtol=0)
    sampled = ss.seq(0.5, pool="batch", samples=3, specials=SPECIALS)
    one, other = (sampled(logits, TARGETS, generator=torch.Generator().manual_seed(s)).total for s in (1, 2))
    assert one != other


def test_candidates() -> None:
    objective = ss.Objective(ss.Hamming(0.8, samples=3), lazy=False, specials=SPECIALS, vocab_size=V)
    candidates = objective.propose(TARGETS)
    assert candidates.sequences.shape == (2, 4, 4)
    assert torch.equal(candidates.sequences[:, 0], TARGETS)
    assert torch.equal(candidates.shifted(BOS)[:, 0], torch.tensor([[BOS, 4, 5, EOS], [BOS, 6, EOS, PAD]]))
    assert candidates.weights.flatten().tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3] * 2)
    assert candidates.ess == 3
    lazy = ss.Objective(ss.Hamming(0.8), specials=SPECIALS, vocab_size=V).propose(TARGETS)
    assert lazy.sequences.shape == (2, 1, 4)
    assert torch.equal(lazy.inputs, lazy.shifted(BOS))
    assert lazy.ess == math.inf


def test_an_empty_sequence_may_end_with_the_token_that_others_begin_with() -> None:
    candidates = ss.mle(specials=ss.Specials(bos=2, eos=2)).propose(torch.tensor([[2, -100], [5, 2]]))
    assert candidates.inputs[:, 0, :].tolist()[1] == [2, 5]
    assert candidates.inputs[0, 0, 0] == 2


def test_no_gradient_flows_into_targets() -> None:
    vectors = VECTORS.clone().requires_grad_()
    objective = ss.Objective(ss.Hamming(0.8), ss.Similarity(vectors, 0.4), specials=SPECIALS)
    candidates = objective.propose(TARGETS)
    assert not any(row.weights.requires_grad for row in candidates.target.rows)
    loss = objective(torch.zeros(2, 4, V, requires_grad=True), candidates)
    assert not loss.nll.requires_grad
    loss.total.backward()
    assert vectors.grad is None


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
    assert f"drops {expected.mean():.1%} of the mass" in repr(law)
    assert (ss.Similarity(VECTORS, 0.4).dropped == 0).all()
    zero = ss.Similarity(VECTORS, 0.4, mode="top-k", k=2, tail="zero").prepare().rows(torch.arange(V))
    torch.testing.assert_close(zero.sum(-1), 1 - expected, atol=1e-12, rtol=0)


def test_never_seen_tokens_have_equal_frequency() -> None:
    counts = torch.tensor([0.0, 0.0, 4.0, 8.0, 8.0, 1.0, 1.0], dtype=torch.float64)
    rows = ss.Similarity(torch.ones(V, 1, dtype=torch.float64), 1.0, 1.0, counts).rows(torch.tensor([0, 3]))
    penalties = torch.tensor([[1, 1, 0, 0, 0, 0, 0], [0, 0, 0.5, 1, 1, 0.125, 0.125]], dtype=torch.float64)
    torch.testing.assert_close(rows, (-penalties).softmax(-1), atol=1e-12, rtol=0)


def test_an_objective_copies_and_pickles_and_stores_no_tables() -> None:
    objective = ss.tok_seq(VECTORS, 0.4, 0.5, 0.3, alpha=0.5, specials=SPECIALS)
    logits = torch.randn(2, 4, V)
    expected = objective(logits, TARGETS).total
    for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):  # noqa: S301
        assert other(logits, TARGETS).total == expected
    assert not objective.state_dict()
    ids = torch.zeros(2, 4, 1, dtype=torch.long)
    teacher = ss.Teacher(ids, torch.full((2, 4, 1), -1.0))
    assert not ss.Objective(ss.Hamming(0.3, pool=torch.tensor([4, 5])), teacher).state_dict()


def test_a_law_serves_two_objectives() -> None:
    """Preparing a law for one objective leaves the law itself as it was."""
    law = ss.Similarity(VECTORS, 0.4)
    plain, special = ss.Objective(token=law), ss.Objective(token=law, specials=SPECIALS)
    assert (plain.propose(TARGETS).target.dense(V)[..., PAD] > 0).all()
    assert (special.propose(TARGETS).target.dense(V)[..., PAD] == 0).all()
    assert law.known.all()


@pytest.mark.parametrize("lazy", [True, False])
def test_integer_types_of_ids_do_not_matter(lazy: bool) -> None:
    for objective in every(lazy):
        results = []
        for dtype in (torch.int32, torch.int64):
            torch.manual_seed(1)
            results.append(run(objective, TARGETS.to(dtype), REFERENCES.to(dtype))[0].total)
        assert results[0] == results[1]


def test_extreme_temperatures_give_numbers() -> None:
    logits = torch.randn(2, 4, V)
    narrow = ss.Similarity(VECTORS.float(), tau=1e-50)
    assert ss.Objective(token=narrow, specials=SPECIALS)(logits, TARGETS).total.isfinite()
    for kind in ("tilted", "literal", "batch"):
        sequence = ss.Rewarded(ss.rewards.Hamming(), ss.Hamming(0.8), 1e-320, 3, weights=kind, against="target")
        candidates = ss.Objective(sequence, specials=SPECIALS, vocab_size=V).propose(TARGETS)
        assert candidates.target.weights.isfinite().all()
        assert candidates.ess.isfinite()


def test_building_under_autocast_changes_nothing() -> None:
    build = lambda: ss.tok_seq(VECTORS.float(), 0.05, 0.5, rate=0.3, specials=SPECIALS)  # noqa: E731
    expected = build().propose(TARGETS).target.dense(V)
    with torch.autocast("cpu", torch.bfloat16):
        target = build().propose(TARGETS).target.dense(V)
    torch.testing.assert_close(target, expected, atol=0, rtol=0)


def test_the_head_works_under_function_transforms_in_chunks() -> None:
    objective = ss.tok_seq(VECTORS, 0.4, 0.5, 0.8, alpha=0.5, specials=SPECIALS)
    candidates = objective.propose(TARGETS)
    hidden, weight = torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(V, 3, dtype=torch.float64)
    whole = torch.func.grad(lambda h: objective.head(h, weight, candidates).total)(hidden)
    parts = torch.func.grad(lambda h: objective.head(h, weight, candidates, chunk=3).total)(hidden)
    torch.testing.assert_close(parts, whole, atol=1e-12, rtol=0)


def test_labels_can_be_mapped_over() -> None:
    logits, labels = torch.randn(3, 5, V), torch.randint(V, (3, 5))
    mapped = torch.func.vmap(ss.cross_entropy)(logits, labels)
    torch.testing.assert_close(
        mapped, torch.stack([F.cross_entropy(z, y) for z, y in zip(logits, labels, strict=True)])
    )


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert ss.Specials(pad=numpy.int64(0), frozen=["eos"]) == ss.Specials(pad=0, frozen=("eos",))
    assert hash(ss.Specials(frozen=["eos"]))
    assert ss.Hamming(tau=numpy.float32(0.5), samples=numpy.int32(3)).samples == 3


def test_inputs_are_ids_that_an_embedding_can_read() -> None:
    targets = torch.tensor([[4, -100], [-100, 5]])
    assert ss.mle().propose(targets).sequences.tolist() == [[[4, 0]], [[0, 5]]]
    assert ss.mle(specials=ss.Specials(pad=6)).propose(targets).sequences.tolist() == [[[4, 6]], [[6, 5]]]


def test_a_padding_item_does_not_weigh_in_the_batch() -> None:
    """weights="batch" compares items; one without a position is none of them."""

    class Given(ss.Hamming):
        def draw(self, truth, count, generator):  # type: ignore[no-untyped-def]
            return Draws(truth.tokens.unsqueeze(1), truth.mask.unsqueeze(1), None)

    def lengths(candidates: Tensor, references: Tensor) -> Tensor:
        return (candidates >= 0).sum(-1).double()

    sequence = ss.Rewarded(lengths, Given(0.8), 0.5, 1, weights="batch", against="target")
    objective = ss.Objective(sequence, specials=SPECIALS, vocab_size=V)
    padded = torch.cat([TARGETS, torch.full((2, 4), PAD)])
    alone, beside = objective.propose(TARGETS), objective.propose(padded)
    torch.testing.assert_close(beside.target.weights[:2], alone.target.weights, atol=1e-12, rtol=0)
    torch.testing.assert_close(beside.ess, alone.ess, atol=1e-12, rtol=0)
    cold = ss.Rewarded(lambda c, r: -lengths(c, r), Given(0.8), 1e-320, 1, weights="batch", against="target")
    target = ss.Objective(cold, specials=SPECIALS, vocab_size=V).propose(padded).target
    assert target.weights[:2, 0, 0, 1].tolist() == pytest.approx([0, 2])  # the shortest real item takes all
    other = ss.Rewarded(lengths, ss.Hamming(0.8, samples=None), 0.5, 3)
    flat = ss.Objective(other, specials=SPECIALS, vocab_size=V).propose(padded, references=padded.unsqueeze(1))
    assert flat.ess.item() == pytest.approx(3)  # equal scores; items without a position are not averaged over


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
    prepared = ss.Objective(law, specials=SPECIALS).sequence
    assert prepared.signature() == law.signature()
    own = ss.Hamming(0.3, samples=2, alpha=0.4, substitutes=ss.Similarity(VECTORS, 0.4), integrate=False)
    prepared = ss.Objective(own, lazy=False, specials=SPECIALS).sequence
    assert prepared.signature() == own.signature()
    assert prepared.integrate is False
    assert own.substitution is None

    class Mine(ss.Similarity):
        pass

    assert isinstance(ss.Objective(token=Mine(VECTORS, 0.4)).token, Mine)


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
    assert law.prepare().signature() == law.prepare().prepare().signature() == law.signature()
    assert "samples:1" in ss.seq(0.3, lazy=False).signature()


def test_half_precision_of_the_model_leaves_the_targets_alone() -> None:
    model = torch.nn.Module()
    model.objective = ss.tok_seq(VECTORS.float(), 0.05, 0.5, 0.8, pool="refs", specials=SPECIALS)
    logits = torch.randn(2, 4, V)
    expected = model.objective(logits, model.objective.propose(TARGETS, references=REFERENCES)).total
    signature = model.objective.signature()
    model.bfloat16()
    candidates = model.objective.propose(TARGETS, references=REFERENCES)
    torch.testing.assert_close(model.objective(logits, candidates).total, expected, atol=0, rtol=0)
    torch.testing.assert_close(model.objective(logits + 100, candidates).total, expected, atol=1e-4, rtol=0)
    assert model.objective.signature() == signature
    assert model.to("meta").objective.token.units.device.type == "meta"


def test_a_teacher_obeys_the_special_tokens_and_gives_way_where_it_has_nothing() -> None:
    ids = torch.tensor([[[PAD, 4], [5, 6], [4, 5], [4, 5]], [[4, 5]] * 4])
    logprobs = torch.tensor([0.6, 0.2], dtype=torch.float64).log().expand(2, 4, 2).clone()
    logprobs[0, 1] = -math.inf
    for tail, expected in (
        ("zero", [0, 0, 0, 0, 0.2, 0, 0]),
        ("uniform", [0, 0, 0.2, 0.2, 0.2, 0.2, 0.2]),
        ("renormalise", [0, 0, 0, 0, 1, 0, 0]),
    ):
        objective = ss.Objective(token=ss.Teacher(ids, logprobs, tail=tail), specials=SPECIALS, vocab_size=V)
        target = objective.propose(TARGETS).target.dense(V)[0, 0]
        assert target[0].tolist() == pytest.approx(expected, abs=1e-12)
        assert target[1].tolist() == pytest.approx([0, 0, 0, 0, 0, 1, 0])  # the ground truth
        assert (target[:, [PAD, BOS]] == 0).all()


def test_an_id_of_two_names_is_ruled_by_both() -> None:
    shared = ss.Specials(pad=0, bos=2, eos=2)
    assert shared.ids("unsmoothed") == (0,)  # EOS may be predicted
    assert shared.ids("undrawn") == (0, 2)
    assert shared.ids("frozen") == (2,)
    with pytest.raises(ValueError, match=r"`eos` must be another id than `pad`, .*, but is 2 instead\."):
        ss.Specials(pad=2, eos=2)


def test_a_temperature_is_shown_as_a_rate_and_a_rate_as_a_temperature() -> None:
    by_tau = ss.seq(0.1, vocab_size=9488)
    assert "tau=0.1, pool=vocab, alpha=1.0; rate=0.301" in repr(by_tau)
    assert "rate=0.301, pool=vocab, alpha=1.0; tau=0.1" in repr(ss.seq(rate=0.301, vocab_size=9488))
    assert repr(ss.Hamming(0.1)) == "Hamming(tau=0.1, pool=vocab, alpha=1.0)"
    for odd in (ss.seq(rate=0.0, vocab_size=9), ss.seq(rate=1.0, vocab_size=9), ss.seq(rate=0.99, vocab_size=9)):
        assert "tau=" not in repr(odd)
    assert "rate=" not in repr(ss.seq(0.1, vocab_size=1))
    assert "rate=" in repr(ss.seq(1e-300, vocab_size=9))


def test_a_single_item_has_all_its_samples() -> None:
    for kind, count in (("tilted", 3), ("literal", 3), ("batch", 3), ("batch", 1)):
        proposal = ss.Hamming(rate=0.0)  # so that all samples are alike
        sequence = ss.Rewarded(ss.rewards.Constant(), proposal, 1.0, count, weights=kind, against="target")
        candidates = ss.Objective(sequence, specials=SPECIALS, vocab_size=V).propose(TARGETS[:1])
        assert candidates.ess.item() == pytest.approx(count)
