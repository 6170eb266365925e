"""The objective as its users meet it: pools, special tokens, candidates, types."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.every_objective import BOS, EOS, EVERY_TOKEN, PAD, REFERENCES, SPECIALS, TARGETS, VECTORS, V, every, run


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


@pytest.mark.parametrize("pool", ["batch", "refs"])
def test_padding_is_in_no_pool_whatever_may_be_drawn(pool: str) -> None:
    generous = ss.Specials(PAD, BOS, EOS, undrawn=("bos",))
    objective = ss.Objective(ss.Hamming(rate=0.5, pool=pool), specials=generous, vocab_size=V)
    target = objective.propose(TARGETS, references=REFERENCES).target.dense(V)
    assert (target[..., PAD] == 0).all()
    assert (target[0, 0, 0, [4, 5, 6, EOS]] > 0).all()


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


def test_building_under_autocast_changes_nothing() -> None:
    build = lambda: ss.tok_seq(VECTORS.float(), 0.05, 0.5, rate=0.3, specials=SPECIALS)  # noqa: E731
    expected = build().propose(TARGETS).target.dense(V)
    with torch.autocast("cpu", torch.bfloat16):
        target = build().propose(TARGETS).target.dense(V)
    torch.testing.assert_close(target, expected, atol=0, rtol=0)


@pytest.mark.parametrize(
    "pool", ["vocab", "batch", "refs", torch.tensor([4, 5, 6])], ids=["vocab", "batch", "refs", "ids"]
)
@pytest.mark.parametrize("token", list(EVERY_TOKEN))
def test_autocast_does_not_round_the_loss_of_single_precision(pool: str | Tensor, token: str) -> None:
    objective = ss.Objective(ss.Hamming(rate=0.4, pool=pool), EVERY_TOKEN[token](), specials=SPECIALS, vocab_size=V)
    logits = torch.randn(2, 4, V, generator=torch.Generator().manual_seed(2))
    found = []
    for lowered in (False, True):
        source, leaf = torch.Generator().manual_seed(3), logits.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
            loss = objective(leaf, objective.propose(TARGETS, references=REFERENCES, generator=source)).total
        found.append((loss, *torch.autograd.grad(loss, leaf)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


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
    with pytest.raises(ValueError, match=r"`eos` must be another id than `pad`, .*; it is 2\."):
        ss.Specials(pad=2, eos=2)


def test_tensors_are_found_at_any_depth() -> None:
    """They tell the device of an objective, which targets are held against at every call."""
    frequencies = ss.rewards.DocumentFrequencies.build([[[4, 5, 6], [5, 6]], [[6, 4]]])
    law = ss.Rewarded(ss.rewards.Cider(frequencies), ss.Hamming(rate=0.5, pool=torch.tensor([4, 5])), 0.5, 3)
    objective = ss.Objective(law, ss.Similarity(VECTORS, 0.4), specials=SPECIALS)
    for moved in (objective, objective.to("meta")):
        expected = {id(buffer) for buffer in moved.buffers()}
        assert len(expected) > 5
        assert {id(buffers[name]) for buffers, name in moved._places} == expected
