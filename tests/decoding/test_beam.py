from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import seqsmooth as ss
from oracles.exhaustive import Found, Law, Reader, beam, everything
from oracles.launches import counted
from oracles.small_models import NAMES, small_inputs, small_model
from seqsmooth.decoding import BeamSearch, Greedy, Hypothesis

BARE = ss.Specials(bos=0, eos=1)
FULL = ss.Specials(pad=0, bos=1, eos=2, unk=3)
B = 3

CASES: dict[str, tuple[int, ss.Specials, dict[str, Any], tuple[int, ...]]] = {
    # V, specials, rules, the ids that must never be written
    "all tokens": (4, BARE, {"max_length": 4, "forbidden": ()}, ()),
    "no BOS": (5, BARE, {"max_length": 4}, (0,)),
    "five steps": (4, BARE, {"max_length": 5}, (0,)),
    "specials": (7, FULL, {"max_length": 4}, (0, 1, 3)),
    "an id": (5, BARE, {"max_length": 4, "forbidden": ("bos", 3)}, (0, 3)),
    "UNK may be": (6, FULL, {"max_length": 4, "forbidden": ("pad", "bos")}, (0, 1)),
    "two words": (5, BARE, {"max_length": 4, "min_length": 2}, (0,)),
    "all are cut": (5, BARE, {"max_length": 3, "min_length": 3}, (0,)),
    "no word twice": (5, BARE, {"max_length": 4, "no_repeat": 1}, (0,)),
    "no bigram twice": (4, BARE, {"max_length": 5, "no_repeat": 2}, (0,)),
    "one step": (5, BARE, {"max_length": 1}, (0,)),
}


def law_of(case: str, length: str) -> tuple[Law, dict[str, Any], ss.Specials]:
    size, specials, rules, never = CASES[case]
    plain = {name: value for name, value in rules.items() if name != "forbidden"}
    return Law(size, specials.bos, specials.eos, forbidden=never, length=length, **plain), rules, specials


def agree(ours: list[Hypothesis], theirs: list[Found]) -> None:
    assert [(h.tokens, h.finished) for h in ours] == [(words, finished) for words, _, _, finished in theirs]
    for mine, (_, log_prob, score, _) in zip(ours, theirs, strict=True):
        assert mine.log_prob == pytest.approx(log_prob, abs=1e-10, rel=0)
        assert mine.score == pytest.approx(score, abs=1e-10, rel=0)


@pytest.mark.parametrize("length", ["none", "mean", "gnmt"])
@pytest.mark.parametrize("case", CASES)
def test_a_wide_beam_is_exhaustive_search(case: str, length: str) -> None:
    law, rules, specials = law_of(case, length)
    name = NAMES[list(CASES).index(case) % len(NAMES)]
    model, inputs = small_model(name, law.vocab_size, seed=3), small_inputs(name, B)
    width = law.vocab_size**law.max_length
    found = BeamSearch(specials, **rules, length=length, width=width, best=min(width, 100))(model, *inputs).lists()
    for item in range(B):
        expected = everything(Reader(model, inputs, item, law.bos), law)
        assert len(expected) >= 2
        agree(found[item], expected[:100])


@pytest.mark.parametrize("name", NAMES)
def test_exhaustive_search_with_every_model(name: str) -> None:
    law = Law(4, 0, 1, 4, forbidden=(0,))
    model, inputs = small_model(name, 4, seed=5), small_inputs(name, B)
    found = BeamSearch(BARE, 4, width=256, best=40)(model, *inputs).lists()
    for item in range(B):
        agree(found[item], everything(Reader(model, inputs, item, 0), law)[:40])


@pytest.mark.parametrize("stop", ["proven", "filled"])
@pytest.mark.parametrize("length", ["none", "mean", "gnmt"])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_narrow_beam_is_beam_search_with_lists(width: int, length: str, stop: str) -> None:
    ended, cut = 0, 0
    for seed, case in enumerate(["all tokens", "specials", "two words", "no bigram twice", "no word twice"]):
        law, rules, specials = law_of(case, length)
        law = Law(**{**vars(law), "max_length": 7})
        model, inputs = small_model("show_tell", law.vocab_size, seed), small_inputs("show_tell", 6, seed)
        search = BeamSearch(specials, **{**rules, "max_length": 7}, length=length, width=width, best=width, stop=stop)
        found = search(model, *inputs).lists()
        for item in range(6):
            agree(found[item], beam(Reader(model, inputs, item, law.bos), law, width, width, stop))
            ended += sum(h.finished for h in found[item])
            cut += sum(not h.finished for h in found[item])
    assert ended > 0
    assert cut > 0 or stop == "filled"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", ["none", "mean", "gnmt"])
def test_a_beam_of_one_is_greedy(name: str, length: str) -> None:
    """With "proven" only where a longer one cannot score better: otherwise it may find a better one."""
    model, inputs = small_model(name, 7, seed=1), small_inputs(name, 8)
    greedy = Greedy(FULL, 8, length=length)(model, *inputs).lists()
    assert {h.finished for (h,) in greedy} == {True, False}
    same = BeamSearch(FULL, 8, length=length, width=1, stop="filled")(model, *inputs).lists()
    proven = BeamSearch(FULL, 8, length=length, width=1)(model, *inputs).lists()
    for (mine,), (theirs,), (better,) in zip(same, greedy, proven, strict=True):
        assert (mine.tokens, mine.finished) == (theirs.tokens, theirs.finished)
        assert mine.score == pytest.approx(theirs.score, abs=1e-12)
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-12)
        assert better.score >= mine.score - 1e-12
        assert length != "none" or better.tokens == mine.tokens


@pytest.mark.parametrize("stop", ["proven", "filled"])
@pytest.mark.parametrize("name", NAMES)
def test_batched_is_one_by_one(name: str, stop: str) -> None:
    """Each item alone and without the padding of its inputs."""
    model, inputs = small_model(name, 9, seed=2), small_inputs(name, 7)
    search = BeamSearch(FULL, 9, width=3, best=3, stop=stop, no_repeat=3)
    together = search(model, *inputs).lists()
    lengths = torch.arange(7) * 3 % 5 + 1  # as in `small_inputs`
    for item in range(7):
        alone = tuple(part[item : item + 1] for part in inputs)
        short = alone if name == "show_tell" else tuple(part[:, : lengths[item]] for part in alone)
        for lonely in (alone, short):
            (found,) = search(model, *lonely).lists()
            agree(found, [(h.tokens, h.log_prob, h.score, h.finished) for h in together[item]])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 6),
    length=st.sampled_from(["none", "mean", "gnmt"]),
    stop=st.sampled_from(["proven", "filled"]),
    longest=st.integers(1, 8),
    shortest=st.integers(0, 3),
    no_repeat=st.integers(0, 3),
    name=st.sampled_from(NAMES),
)
def test_what_is_true_of_every_list(
    seed: int, width: int, length: str, stop: str, longest: int, shortest: int, no_repeat: int, name: str
) -> None:
    shortest = min(shortest, longest)
    model, inputs = small_model(name, 8, seed, spread=1.0), small_inputs(name, 4, seed)
    rules: dict[str, Any] = {"length": length, "stop": stop, "min_length": shortest, "no_repeat": no_repeat}
    found = BeamSearch(FULL, longest, width=width, best=width, **rules)(model, *inputs)
    assert found.tokens.shape == (4, width, longest)
    law = Law(8, 1, 2, longest, shortest, length=length, no_repeat=no_repeat)
    for item, hypotheses in enumerate(found.lists()):
        reader = Reader(model, inputs, item, 1)
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({(h.tokens, h.finished) for h in hypotheses}) == len(hypotheses)
        assert no_repeat == 1 or hypotheses
        for h in hypotheses:
            assert not {0, 1, 2, 3} & set(h.tokens)
            assert shortest <= len(h.tokens) <= longest
            assert h.finished == (len(h.tokens) < longest)
            assert law.allows(h.tokens)
            assert h.log_prob == pytest.approx(reader.log_prob(h.tokens, 2 if h.finished else None), abs=1e-10, rel=0)
            assert h.score == pytest.approx(law.score(h.log_prob, len(h.tokens) + h.finished), abs=1e-12, rel=0)


class Counting:
    """A model that counts its steps."""

    def __init__(self, model: Any) -> None:
        self.model, self.steps = model, 0

    def encode(self, *inputs: Tensor) -> Any:
        return self.model.encode(*inputs)

    def start(self, memory: Any) -> Any:
        return self.model.start(memory)

    def step(self, memory: Any, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        self.steps += 1
        return self.model.step(memory, state, tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.model.logits(hidden)


@pytest.mark.parametrize("stop", ["proven", "filled"])
@pytest.mark.parametrize("length", ["none", "mean"])
def test_stopping_early_changes_nothing(length: str, stop: str) -> None:
    taken = {}
    for every in (0, 1, 3, 7):
        model, inputs = Counting(small_model("show_tell", 9, seed=4)), small_inputs("show_tell", 5)
        with torch.no_grad():
            model.model.head.bias[2] += 3  # it likes to end
        search = BeamSearch(FULL, 30, width=2, best=2, length=length, stop=stop, check_every=every)
        taken[every] = model, search(model, *inputs).lists()
    for every in (1, 3, 7):
        assert taken[every][1] == taken[0][1]
    assert taken[0][0].steps == 30
    if (length, stop) != ("mean", "proven"):
        assert taken[1][0].steps < 15
        assert taken[1][0].steps <= taken[3][0].steps < taken[1][0].steps + 3


def test_it_stops_only_when_proven() -> None:
    """A short hypothesis ends at once; a longer one of a better mean is still found."""

    class Fable:
        """0.6 for EOS at once; 0.4 for a word, after which all is certain, and the end comes after 9 words."""

        def encode(self, *inputs: Tensor) -> tuple[Tensor]:
            return (inputs[0],)

        def start(self, memory: tuple[Tensor]) -> tuple[Tensor]:
            return (torch.zeros_like(memory[0]),)

        def step(self, memory: Any, state: tuple[Tensor], tokens: Tensor) -> tuple[Tensor, tuple[Tensor]]:
            return state[0], (state[0] + 1,)

        def logits(self, hidden: Tensor) -> Tensor:
            first, last = torch.tensor([1e-9, 0.6, 0.4]).double(), torch.tensor([1e-9, 1.0, 1e-9]).double()
            between = torch.tensor([1e-9, 1e-9, 1.0]).double()
            return torch.where(hidden == 0, first, torch.where(hidden == 9, last, between)).log()

    start = torch.zeros(2, 1)
    (best, second), _ = BeamSearch(BARE, 20, width=2, best=2, check_every=1)(Fable(), start).lists()
    assert best.tokens == (2,) * 9
    assert best.score == pytest.approx(math.log(0.4) / 10, abs=1e-6)
    assert second.tokens == ()
    ((summed,), _) = BeamSearch(BARE, 20, width=2, length="none")(Fable(), start).lists()
    assert summed.tokens == ()


def test_fewer_hypotheses_than_asked_for() -> None:
    model, inputs = small_model("show_tell", 4), small_inputs("show_tell", 2)
    search = BeamSearch(BARE, 2, width=9, best=9, no_repeat=1)
    found = search(model, *inputs)
    assert [len(item) for item in found.lists()] == [1 + 2 + 2] * 2  # nothing; one of two words; both in two orders
    assert found.scores.shape == (2, 9)
    none = BeamSearch(BARE, 4, min_length=4, width=2, no_repeat=1)(model, *inputs)
    assert none.lists() == [[], []]  # two words that must not be repeated are not four


def test_no_items() -> None:
    model = small_model("show_tell", 8)
    found = BeamSearch(FULL, 9)(model, torch.zeros(0, 6, dtype=torch.float64))
    assert found.tokens.shape == (0, 1, 9)
    assert found.lists() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_float_types(dtype: torch.dtype) -> None:
    model, inputs = small_model("show_tell", 20, seed=1).to(dtype), small_inputs("show_tell", 4)
    found = BeamSearch(FULL, 6, width=3, best=3)(model, inputs[0].to(dtype))
    assert found.scores.dtype == torch.float32
    for item, hypotheses in enumerate(found.lists()):
        reader = Reader(model.double(), (inputs[0].to(dtype).double(),), item, 1)
        tolerance = 1e-4 if dtype == torch.float32 else 1.0  # a state of bfloat16 has three digits
        for h in hypotheses:
            assert h.log_prob == pytest.approx(reader.log_prob(h.tokens, 2 if h.finished else None), abs=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_a_handful_of_launches(name: str) -> None:
    """A step costs the model's launches, one for each tensor of its state, eight to search, two to trace back."""
    model, inputs, token = small_model(name, 50), small_inputs(name, 4), torch.ones(4, dtype=torch.long)
    memory = model.encode(*inputs)
    state = model.start(memory)
    with counted() as alone, torch.no_grad():
        model.logits(model.step(memory, state, token)[0])
    counts = []
    for steps in (5, 6):
        with counted() as launches:
            BeamSearch(FULL, steps, width=3, check_every=0)(model, *inputs)
        counts.append(len(launches))
        assert not [launch for launch in launches if "item" in launch or "local_scalar" in launch]  # no look at values
    assert counts[1] - counts[0] <= len(alone) + len(state) + 8 + 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BeamSearch(ss.Specials(eos=1), 5), "`specials.bos` must be given"),
        (lambda: BeamSearch(FULL, 0), "`max_length` must be 1 or more; it is 0."),
        (lambda: BeamSearch(FULL, 5, min_length=6), "`min_length` must be at most `max_length`, 5; it is 6."),
        (lambda: BeamSearch(FULL, 5, forbidden=("eos",)), "`forbidden` must be without EOS"),
        (lambda: BeamSearch(FULL, 5, forbidden=(2,)), "`forbidden` must be without EOS"),
        (lambda: BeamSearch(FULL, 5, forbidden=("unc",)), "`forbidden` must be one of 'pad'"),
        (lambda: BeamSearch(FULL, 5, forbidden="unk"), "`forbidden` must be a tuple"),
        (lambda: BeamSearch(FULL, 5, length="median"), "`length` must be one of 'none', 'mean', 'gnmt'"),
        (lambda: BeamSearch(FULL, 5, length="gnmt", alpha=-1), "`alpha` must be a finite number, 0 or more"),
        (lambda: BeamSearch(FULL, 5, width=0), "`width` must be 1 or more"),
        (lambda: BeamSearch(FULL, 5, best=4), "`best` must be at most `width`, 3; it is 4."),
        (lambda: BeamSearch(FULL, 5, stop="soon"), "`stop` must be one of 'proven', 'filled'"),
        (
            lambda: BeamSearch(FULL, 5)(small_model("show_tell", 8).train(), *small_inputs("show_tell", 2)),
            r"`model` must be in evaluation mode \(`model.eval\(\)`\); it is in training mode.",
        ),
        (
            lambda: BeamSearch(FULL, 5)(small_model("show_tell", 3), *small_inputs("show_tell", 2)),
            "`unk` must be an id below 3; it is 3.",
        ),
        (
            lambda: BeamSearch(FULL, 5, forbidden=(9,))(small_model("show_tell", 8), *small_inputs("show_tell", 2)),
            "`forbidden` must be ids below 8; it is 9.",
        ),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_model_that_says_nan() -> None:
    model, inputs = small_model("show_tell", 8), small_inputs("show_tell", 2)
    with torch.no_grad():
        model.head.bias.fill_(math.nan)
    with pytest.raises(ValueError, match="`log_probs` must be numbers"):
        BeamSearch(FULL, 5)(model, *inputs).lists()


def test_an_id_of_two_names_is_forbidden_only_if_both_are() -> None:
    """In the authors' captions BOS and EOS are one id."""
    specials = ss.Specials(bos=1, eos=1, unk=3)
    assert BeamSearch(specials, 5).barred == (3,)
    model, inputs = small_model("show_tell", 8), small_inputs("show_tell", 6)
    with torch.no_grad():
        model.head.bias[1] += 5
    assert all(h.finished for (h,) in BeamSearch(specials, 5)(model, *inputs).lists())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_in_a_cuda_graph() -> None:
    model, features = small_model("show_tell", 20).float().cuda(), torch.randn(8, 6).cuda()
    search = BeamSearch(FULL, 6, width=3, best=3, check_every=0)
    expected = search(model, features).lists()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        search(model, features)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = search(model, features)
    graph.replay()
    assert [[h.tokens for h in item] for item in found.lists()] == [[h.tokens for h in item] for item in expected]
