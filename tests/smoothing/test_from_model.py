"""Smoothing from a model's own embeddings, against rows written out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import seqsmooth as ss
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.smoothing.model_matrix import model_matrix
from seqsmooth.smoothing.token_matrix import KeptMatrix

V, D = 12, 5


class Plain(nn.Module):
    """One embedding, one head, and a layer of another size."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(V, D, padding_idx=0)
        self.inner = nn.Linear(D, D)
        self.head = nn.Linear(D, V)


class Told(Plain):
    """As Hugging Face's models: it has other embeddings, too, and says which is which."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Embedding(30, D)

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def get_output_embeddings(self) -> nn.Module | None:
        return self.head


def law_by_hand(
    vectors: Tensor,
    tau: float,
    *,
    known: list[bool] | None = None,
    kinds: list[int] | None = None,
    beta: float = 0.0,
    counts: list[float] | None = None,
) -> Tensor:
    """Eq. 13 and 14, one pair of tokens at a time; tokens of another kind count for nothing."""
    size = len(vectors)
    known = known or [True] * size
    kinds = kinds or [0] * size
    rows = torch.zeros(size, size, dtype=torch.double)
    for y in range(size):
        if not known[y] or kinds[y] < 0:
            rows[y, y] = 1
            continue
        for v in range(size):
            if known[v] and kinds[v] == kinds[y]:
                reward = float(torch.cosine_similarity(vectors[v].double(), vectors[y].double(), dim=0))
                if counts is not None:
                    reward -= beta * min(counts[v] / counts[y], counts[y] / counts[v])
                rows[y, v] = math.exp(reward / tau)
        rows[y] /= rows[y].sum()
    return rows


def rows_of(objective: ss.Objective) -> SimilarityTable:
    """The law that computes its rows when they are needed."""
    token, tables = objective.token, objective.token_tables
    assert isinstance(token, ss.Similarity)
    assert isinstance(tables, KeptMatrix)
    table = tables.matrix(token.units, token.counts)
    assert isinstance(table, SimilarityTable)
    return table


def whole(law: ss.Similarity) -> Tensor:
    return law.rows(torch.arange(law.vocab_size)).double()


@pytest.mark.parametrize("which", ["input", "output"])
def test_the_matrix_is_found_with_and_without_being_told(which: str) -> None:
    torch.manual_seed(0)
    for model in (Plain(), Told()):
        wanted = model.words.weight if which == "input" else model.head.weight
        assert model_matrix(model, which) is wanted
    assert model_matrix(nn.Linear(D, V), "output").shape == (V, D)
    assert model_matrix(nn.Sequential(nn.Embedding(V, D)), "0").shape == (V, D)
    assert model_matrix(Told(), "positions.weight").shape == (30, D)


def test_what_is_not_clear_is_said() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(7, D), nn.Embedding(V, D)

    sentence = r"`model` must be one with a single nn.Embedding for tokens, or `matrix` its name; it is one with "
    with pytest.raises(ValueError, match=sentence + r"source \(7, 5\), target \(12, 5\)\."):
        ss.Similarity.from_model(Two(), tau=0.2)
    assert ss.Similarity.from_model(Two(), tau=0.2, matrix="target").vocab_size == V
    with pytest.raises(ValueError, match=sentence + "none\\."):
        ss.Similarity.from_model(nn.Linear(2, 2), tau=0.2)
    with pytest.raises(ValueError, match="`matrix` must be 'input', 'output' or the name of a module of the model"):
        ss.Similarity.from_model(Plain(), tau=0.2, matrix="words.of")
    with pytest.raises(ValueError, match="`counts` must be given when `min_count` is greater than 0"):
        ss.Similarity.from_model(Plain(), tau=0.2, min_count=1)


@pytest.mark.parametrize("centred", [True, False])
def test_rows_are_those_of_the_embeddings_centred_or_not(centred: bool) -> None:
    torch.manual_seed(1)
    model = Plain()
    model.words.weight.data[1:] += 1.5  # what all tokens share
    vectors = model.words.weight.detach().double()
    known = [False] + [True] * (V - 1)  # padding_idx is a row of zeros
    moved = vectors - vectors[1:].mean(0) if centred else vectors
    found = whole(ss.Similarity.from_model(model, tau=0.3, centred=centred))
    torch.testing.assert_close(found, law_by_hand(moved, 0.3, known=known), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lowered", [False, True])
def test_principal_components_are_those_of_a_singular_value_decomposition(lowered: bool) -> None:
    torch.manual_seed(8)
    model = Plain()
    known = [False] + [True] * (V - 1)
    vectors = model.words.weight.detach().double()
    moved = (vectors - vectors[1:].mean(0)) * torch.tensor(known).unsqueeze(-1)
    left, values, _ = torch.linalg.svd(moved, full_matrices=False)
    for rank in (2, 3, D):
        with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
            found = ss.Similarity.from_model(model, tau=0.3, rank=rank)
        assert found.units.shape == (V, rank)
        wanted = law_by_hand(left[:, :rank] * values[:rank], 0.3, known=known)
        torch.testing.assert_close(whole(found), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="`rank` must be at most D = 5; it is 6"):
        ss.Similarity.from_model(model, tau=0.3, rank=6)


def test_hugging_faces_models_say_where_their_vectors_are() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 40, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**sizes, hidden_size=8, intermediate_size=8, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config)
    assert model_matrix(model, "input") is model.model.embed_tokens.weight
    assert model_matrix(model, "output") is model.lm_head.weight
    assert ss.Similarity.from_model(model.to(torch.bfloat16), tau=0.2, k=4).vocab_size == 40


def test_the_nearest_are_kept_where_k_is_given() -> None:
    torch.manual_seed(2)
    model = Plain()
    dense, sparse = (ss.Similarity.from_model(model, tau=0.3, k=k) for k in (None, 3))
    best = whole(dense).topk(3, -1)
    wanted = torch.zeros(V, V, dtype=torch.double).scatter(-1, best.indices, best.values)
    wanted = wanted / wanted.sum(-1, keepdim=True)
    torch.testing.assert_close(whole(sparse), wanted, rtol=1e-5, atol=1e-6)


def test_tokens_that_were_hardly_seen_keep_to_themselves() -> None:
    torch.manual_seed(3)
    model = Plain()
    counts = torch.tensor([0.0, 9, 0, 2, 5, 5, 1, 8, 3, 30, 2, 7])
    law = ss.Similarity.from_model(model, tau=0.3, beta=0.2, counts=counts, min_count=3, centred=False)
    known = [count >= 3 for count in counts.tolist()]
    numbers = [max(count, 1.0) for count in counts.tolist()]
    wanted = law_by_hand(model.words.weight.detach(), 0.3, known=known, beta=0.2, counts=numbers)
    torch.testing.assert_close(whole(law), wanted, rtol=1e-5, atol=1e-6)


@given(
    seed=st.integers(0, 10_000), tau=st.floats(0.05, 2.0), kinds=st.lists(st.integers(-1, 3), min_size=V, max_size=V)
)
def test_mass_stays_within_a_kind(seed: int, tau: float, kinds: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(V, D, generator=generator)
    counts = torch.randint(1, 9, (V,), generator=generator).double()
    law = ss.Similarity(vectors, tau, 0.3, counts, kinds=torch.tensor(kinds))
    wanted = law_by_hand(vectors, tau, kinds=kinds, beta=0.3, counts=counts.tolist())
    torch.testing.assert_close(whole(law), wanted, rtol=2e-4, atol=2e-6)


def test_kinds_are_checked_and_named() -> None:
    law = ss.Similarity(torch.randn(4, 2), 0.2, kinds=torch.tensor([0, 0, 1, -1]))
    assert "kinds:2" in law.signature()
    assert "tau:0.2" in law.signature()
    with pytest.raises(ValueError, match=r"`kinds` must be of shape \(V,\) = \(4,\); it is \(2,\)"):
        ss.Similarity(torch.randn(4, 2), 0.2, kinds=torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="`kinds` must be below 64; it is 99"):
        ss.Similarity(torch.randn(1, 2), 0.2, kinds=torch.tensor([99]))


def objectives(model: Plain, stored: bool) -> list[ss.Objective]:
    token = [ss.Similarity.from_model(model, tau=0.3, alpha=0.6, stored=stored) for _ in range(3)]
    specials = ss.Specials(pad=0, bos=1, eos=2)
    return [
        ss.Objective(token=token[0], specials=specials),
        ss.Objective(ss.Hamming(tau=0.3, alpha=0.5), token[1], specials=specials),
        ss.Objective(token=ss.Similarity.from_model(model, tau=0.3, k=4), specials=specials),
    ]


@pytest.mark.parametrize("stored", [True, False])
def test_a_refreshed_objective_is_one_made_anew(stored: bool) -> None:
    torch.manual_seed(4)
    model = Plain()
    logits, targets = torch.randn(2, 3, V), torch.tensor([[4, 5, 2], [6, 2, 0]])
    held = objectives(model, stored)
    before = [objective(logits, targets).total for objective in held]
    places = [[buffer.data_ptr() for buffer in objective.buffers()] for objective in held]
    model.words.weight.data.normal_()
    stale = [objective(logits, targets).total for objective in held]
    assert all(torch.equal(one, other) for one, other in zip(before, stale, strict=True))
    for number, objective in enumerate(held):
        ss.Refresh(objective, lambda number=number: remake(model, number, stored), every=1).now()
    anew = [objective(logits, targets).total for objective in objectives(model, stored)]
    found = [objective(logits, targets).total for objective in held]
    torch.testing.assert_close(found, anew)
    assert all(not torch.allclose(one, other) for one, other in zip(before, found, strict=True))
    assert places == [[buffer.data_ptr() for buffer in objective.buffers()] for objective in held]


def remake(model: Plain, number: int, stored: bool) -> ss.Similarity:
    if number == 2:
        return ss.Similarity.from_model(model, tau=0.3, k=4)
    return ss.Similarity.from_model(model, tau=0.3, alpha=0.6, stored=stored)


def test_a_law_takes_over_only_one_of_its_own_share() -> None:
    law, other = (ss.Similarity.from_model(Plain(), tau=0.3, alpha=alpha) for alpha in (0.6, 0.5))
    with pytest.raises(ValueError, match=r"`other` must be a law with alpha = 0.6; it is 0.5"):
        law.take(other)


def test_what_the_kernels_read_is_refreshed_in_place() -> None:
    torch.manual_seed(5)
    model = Plain()

    def make() -> ss.Similarity:
        return ss.Similarity.from_model(model, tau=0.3, stored=False)

    objective = ss.Objective(token=make())
    table = rows_of(objective)
    before = [part.clone() for part in table.halves]
    model.words.weight.data.normal_()
    ss.Refresh(objective, make, every=1).now()
    assert rows_of(objective) is table
    wanted = rows_of(ss.Objective(token=make())).halves
    for mine, theirs in zip(table.halves, wanted, strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(before[0], table.halves[0])


def test_it_follows_the_optimiser_every_n_steps() -> None:
    torch.manual_seed(6)
    model = Plain()
    made = []

    def make() -> ss.Similarity:
        made.append(model.words.weight.detach().clone())
        return ss.Similarity.from_model(model, tau=0.3)

    objective = ss.Objective(token=make())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    handle = ss.Refresh(objective, make, every=3).attach(optimiser)
    for _ in range(7):
        model.words(torch.tensor([3, 4])).pow(2).sum().backward()
        optimiser.step()
    assert len(made) == 3  # at the start, after steps 3 and 6
    latest = made[2] - made[2][1:].mean(0)
    wanted = law_by_hand(latest, 0.3, known=[False] + [True] * (V - 1))
    torch.testing.assert_close(whole(objective.token), wanted, rtol=1e-5, atol=1e-6)  # type: ignore[arg-type]
    handle.remove()
    optimiser.step()
    assert len(made) == 3


def test_a_law_that_is_refused_changes_nothing() -> None:
    stored, computed = (ss.Similarity(torch.randn(V, D), 0.2, stored=stored) for stored in (True, False))
    before = stored.units.clone()
    refresh = ss.Refresh(ss.Objective(token=stored), lambda: computed, every=1)
    with pytest.raises(ValueError, match="`other` must be a law with table of shape"):
        refresh.now()
    assert torch.equal(stored.units, before)


def test_what_cannot_be_refreshed_is_refused() -> None:
    model = Plain()
    with pytest.raises(ValueError, match="`objective` must be one with a Similarity; it is one with Dirac"):
        ss.Refresh(ss.mle(), lambda: ss.Similarity.from_model(model, tau=0.2), every=1)
    objective = ss.Objective(token=ss.Similarity.from_model(model, tau=0.2))
    with pytest.raises(ValueError, match="`make` must be a function that gives the same law with other tables"):
        ss.Refresh(objective, lambda: ss.Similarity.from_model(model, tau=0.2, k=3), every=1).now()
    for other in ({"tau": 0.3}, {"tau": 0.2, "beta": 0.1, "counts": torch.ones(V)}):
        with pytest.raises(ValueError, match="`make` must be a function that gives the same law with other tables"):
            ss.Refresh(objective, lambda other=other: ss.Similarity.from_model(model, **other), every=1).now()
    with pytest.raises(ValueError, match="`other` must be a law with units of shape"):
        ss.Refresh(objective, lambda: ss.Similarity(torch.randn(V, D + 1), 0.2), every=1).now()
    with pytest.raises(ValueError, match=r"^`make` must be a function that makes a .*; it is a Similarity\.$"):
        ss.Refresh(objective, objective.token, every=1)  # type: ignore[arg-type]
    refresh = ss.Refresh(objective, lambda: ss.Similarity.from_model(model, tau=0.2), every=1)
    with pytest.raises(ValueError, match=r"^`optimiser` must be a torch.optim.Optimizer .*; it is None\.$"):
        refresh.attach(None)  # type: ignore[arg-type] # a Trainer's, before it is made


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("change", [{"tau": 0.3}, {"beta": 0.2}])
def test_a_refreshed_law_keeps_its_numbers(change: dict[str, float], stored: bool) -> None:
    """Where the table is stored another temperature would be taken over, and where it is not it would be lost."""
    model, counts = Plain(), torch.arange(1.0, V + 1)
    options: dict[str, Any] = {"tau": 0.2, "beta": 0.1, "counts": counts, "stored": stored}
    objective = ss.Objective(token=ss.Similarity.from_model(model, **options))
    with pytest.raises(ValueError, match="`make` must be a function that gives the same law with other tables"):
        ss.Refresh(objective, lambda: ss.Similarity.from_model(model, **options | change), every=1).now()


@pytest.mark.parametrize("stored", [True, False])
def test_kinds_are_kept_apart_by_the_kernels_too(stored: bool, kernels: torch.device) -> None:
    torch.manual_seed(7)
    vectors, kinds = torch.randn(V, D), torch.tensor([0, 1, 2, -1] * 3)
    law = ss.Similarity(vectors, 0.3, alpha=0.5, kinds=kinds, stored=stored)
    logits, targets = torch.randn(2, 3, V), torch.tensor([[4, 5, 6], [7, 8, -100]])
    objective = ss.Objective(token=law).to(kernels)
    leaf = logits.to(kernels).requires_grad_()
    found = objective(leaf, targets.to(kernels)).total
    (slope,) = torch.autograd.grad(found, leaf)
    rows = 0.5 * torch.eye(V, dtype=torch.double) + 0.5 * law_by_hand(vectors, 0.3, kinds=kinds.tolist())
    wide = logits.double().requires_grad_()
    each = -(rows[targets.clamp_min(0)] * wide.log_softmax(-1)).sum(-1)
    wanted = each[targets >= 0].mean()
    (wanted_slope,) = torch.autograd.grad(wanted, wide)
    torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slope.cpu().double(), wanted_slope, rtol=1e-3, atol=1e-5)
