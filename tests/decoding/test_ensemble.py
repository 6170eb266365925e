from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import seqsmooth as ss
from oracles.exhaustive import Law, Reader, everything
from oracles.small_models import NAMES, small_inputs, small_model
from seqsmooth.decoding import BeamSearch, Ensemble, Greedy, Sampling

BARE = ss.Specials(bos=0, eos=1)
SEARCH = BeamSearch(BARE, 4, width=300, best=30)


class Mixture(Reader):
    """The mean of what some readers say, computed token by token."""

    def __init__(self, readers: list[Reader], mean: str) -> None:
        self.readers, self.mean = readers, mean

    def __call__(self, words: tuple[int, ...]) -> list[float]:
        spoken = list(zip(*(reader(words) for reader in self.readers), strict=True))
        if self.mean == "probabilities":
            return [math.log(sum(map(math.exp, said)) / len(said)) for said in spoken]
        means = [sum(said) / len(said) for said in spoken]
        total = math.log(math.fsum(map(math.exp, means)))
        return [mean - total for mean in means]


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
@pytest.mark.parametrize("name", NAMES)
def test_one_member_is_the_model(name: str, mean: Any) -> None:
    model, inputs = small_model(name, 6, seed=1), small_inputs(name, 3)
    for members in ([model], [model, model], [Ensemble([model], mean), model]):
        ensemble = Ensemble(members, mean)
        for decoder in (SEARCH, Greedy(BARE, 5)):
            for ours, theirs in zip(decoder(ensemble, *inputs).lists(), decoder(model, *inputs).lists(), strict=True):
                assert [h.tokens for h in ours] == [h.tokens for h in theirs]
                assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-12)


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_two_members_are_their_mixture(mean: Any) -> None:
    """Of different kinds and with different inputs, against the mixture of all that there is."""
    names = ("top_down", "show_tell")
    models = [small_model(name, 4, seed=seed) for seed, name in enumerate(names)]
    inputs = [small_inputs(name, 3) for name in names]
    ensemble = Ensemble(models, mean, reads=[(0, 1), (2,)])
    found = SEARCH(ensemble, *inputs[0], *inputs[1]).lists()
    for item in range(3):
        readers = [Reader(model, given, item, 0) for model, given in zip(models, inputs, strict=True)]
        expected = everything(Mixture(readers, mean), Law(4, 0, 1, 4, forbidden=(0,)))[:30]
        assert [(h.tokens, h.finished) for h in found[item]] == [(words, ended) for words, _, _, ended in expected]
        assert [h.log_prob for h in found[item]] == pytest.approx([each[1] for each in expected], abs=1e-10, rel=0)
    assert [h.tokens for h in found[0]] != [h.tokens for h in SEARCH(models[0], *inputs[0]).lists()[0]]


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_teacher_forcing(mean: Any) -> None:
    models, inputs = [small_model("rnnsearch", 8, seed) for seed in range(3)], small_inputs("rnnsearch", 4)
    ensemble = Ensemble(models, mean)
    found = Sampling(BARE, 6, samples=2)(ensemble, *inputs, generator=torch.Generator().manual_seed(0)).lists()
    for item in range(4):
        reader = Reader(ensemble, inputs, item, 0)
        for h in found[item]:
            assert h.log_prob == pytest.approx(reader.log_prob(h.tokens, 1 if h.finished else None), abs=1e-10, rel=0)


def test_a_member_in_training_mode_is_noticed() -> None:
    models = [small_model("show_tell", 6, seed) for seed in range(2)]
    models[1].train()
    with pytest.raises(ValueError, match="`model` must be in evaluation mode"):
        Greedy(BARE, 5)(Ensemble(models), *small_inputs("show_tell", 2))
    assert Greedy(BARE, 5)(Ensemble(models).eval(), *small_inputs("show_tell", 2)).lists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Ensemble(torch.nn.Linear(2, 2)),  # type: ignore[arg-type]
            "`members` must be a list of models; it is a Linear.",
        ),
        (lambda: Ensemble([]), "`members` must be one or more; it is none."),
        (
            lambda: Ensemble([small_model("show_tell", 5), small_model("top_down", 6)]),
            r"`members` must be of one vocabulary; it is of \[5, 6\] tokens.",
        ),
        (lambda: Ensemble([torch.nn.Linear(2, 2)]), "`members` must be models; it is a Linear without `encode`"),
        (lambda: Ensemble([small_model("show_tell", 5)], "median"), "`mean` must be one of 'probabilities'"),  # type: ignore[arg-type]
        (
            lambda: Ensemble([small_model("show_tell", 5)], reads=[]),
            "`reads` must be one entry for each of the 1 members",
        ),
        (
            lambda: Ensemble([small_model("show_tell", 5)], reads=[(1,)]).encode(torch.zeros(2, 6)),
            "`inputs` must be 2 or more; it is 1.",
        ),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
