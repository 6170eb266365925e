"""Every contestant computes what its name says: its loss and gradients are those of the formula in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks import harness, head, loss, peers, rewards, sampler, step
from benchmarks.clock import Clock
from benchmarks.harness import Contest
from benchmarks.objectives import LossSuite, any_tokens
from benchmarks.records import TimingTable
from benchmarks.shapes import SHAPES, Shape, chosen_shapes, words, zipf

CPU = torch.device("cpu")
QUICK = Contest(Clock(CPU), 600.0)
NEEDS_GPU = ("Liger", "Apple")
HALF = 2.0**-11
"""Half of the last place of fp16, in which the benchmark stores V x V tables."""


@pytest.fixture(scope="module", autouse=True)
def few_rounds() -> Iterator[None]:
    # Not a small budget: once the time is over, peers are no longer compared with float64.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "MOST_ROUNDS", 2)
        yield


@pytest.fixture(scope="module", params=["loss", "head"])
def made(request: pytest.FixtureRequest) -> TimingTable:
    table = {"loss": loss.table, "head": head.table}[request.param]
    return table(SHAPES["tiny"], torch.float32, QUICK)


def test_every_contestant_agrees_with_float64(made: TimingTable) -> None:
    for row in made.rows:
        if not row.name.startswith(NEEDS_GPU):
            assert row.failures == {}, row
            results = head.RESULTS if made.flop else loss.RESULTS
            assert set(row.errors) == set(results)
            assert max(row.errors.values()) < (HALF if "stored" in row.name else 3e-6), row


def test_everyone_who_should_is_there(made: TimingTable) -> None:
    names = [row.name for row in made.rows]
    assert len(names) == len(set(names))
    ours = ["MLE", "Label smoothing", "MLE + entropy", "Tok dense, stored", "Tok dense, on the fly", "Tok top-64"]
    ours += ["Tok dense", "Tok-Seq exact, refs", "Seq CIDEr, L=5", "Seq BLEU, L=5", "Tok-Seq CIDEr, L=5"]
    ours += ["Tok sampled-16", "Seq exact, vocab", "Seq exact, batch", "Seq exact, refs", "Tok-Seq lazy, L=5"]
    ours += [f"Seq lazy, L={count}" for count in (1, 5, 10, 20)] + ["MLE, target given", "MLE, timed again"]
    assert set(ours) <= set(names)
    assert made.row(made.peer) is not None
    assert all(made.row(row.against) is not None for row in made.rows if row.against)


def test_half_precision_has_half_precision_errors() -> None:
    made = loss.table(SHAPES["tiny"], torch.bfloat16, QUICK)
    for row in made.rows:
        if not row.name.startswith(NEEDS_GPU):
            assert 1e-4 < row.errors["dz"] < 2e-2, row


def test_the_expected_target_is_that_of_the_objective() -> None:
    # The float64 targets come from formulas; here they meet what the objectives propose.
    vocabulary = LossSuite.of(SHAPES["tiny"], torch.Generator().manual_seed(3))
    text = words(SHAPES["tiny"], torch.Generator().manual_seed(4))
    compared = 0
    for ours in vocabulary.losses:
        if ours.expected is not None:
            proposed = ours.propose(text).target.dense(SHAPES["tiny"].vocab).flatten(0, -2)
            rtol = HALF if "stored" in ours.name else 0
            torch.testing.assert_close(proposed.double(), ours.expected(text), rtol=rtol, atol=1e-6)
            compared += 1
    assert compared == 7


def test_a_large_vocabulary_has_no_square_table() -> None:
    vocabulary = LossSuite(SHAPES["d"], torch.zeros(1, 1))
    names = [contestant.name for contestant in (*loss.ours(vocabulary), *loss.theirs(vocabulary))]
    assert "Tok dense, on the fly" in names
    assert not any("stored" in name or "S[y]" in name or "dense form" in name for name in names)


def test_any_tokens_are_distinct_ones_whose_weights_fall() -> None:
    law = LossSuite.of(Shape("x", "x", 1, 1, 8, 200), torch.Generator().manual_seed(0)).losses[4].objective.token
    ids, weights = any_tokens(law.table_of(), 64)
    assert ids.shape == weights.shape == (200, 64)
    assert all(len(set(row)) == 64 for row in ids.tolist())
    assert bool((weights.diff(dim=-1) < 0).all())
    torch.testing.assert_close(weights.sum(-1), torch.full((200,), 0.5))


def test_compiled_peers_take_part_when_asked() -> None:
    vocabulary = LossSuite(SHAPES["tiny"], torch.zeros(1, 1))
    names = {contestant.name for contestant in loss.theirs(vocabulary, compiled=True)}
    assert {f"{name}, compiled" for name in (loss.PEER, loss.SMOOTHED, loss.SPARSE, loss.TABLE)} <= names
    names = {contestant.name for contestant in head.theirs(vocabulary, compiled=True)}
    assert {f"linear + {name}, compiled" for name in (loss.PEER, loss.SPARSE)} <= names


def test_packages_take_part_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = LossSuite(SHAPES["tiny"], torch.zeros(1, 1))
    monkeypatch.setattr("importlib.util.find_spec", lambda package: package)
    names = {contestant.name for contestant in (*loss.theirs(vocabulary), *head.theirs(vocabulary))}
    packaged = {"Liger CE", "Liger CE, label smoothing", "Apple CCE"}
    packaged |= {f"Liger FLCE, chunk_mem_const={memory}" for memory in (1, 16, 32)}
    assert packaged <= names
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    names = {contestant.name for contestant in (*loss.theirs(vocabulary), *head.theirs(vocabulary))}
    assert not packaged & names


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_liger_is_called_as_it_should_be(smoothing: float) -> None:
    pytest.importorskip("liger_kernel")
    device = "cuda" if torch.cuda.is_available() else "cpu"  # there in Triton's interpreter
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(6, 16, generator=generator), torch.randn(50, 16, generator=generator)
    labels = torch.randint(50, (6,), generator=generator).to(device)
    given = [(hidden @ weight.T).to(device).requires_grad_()]
    both = [hidden.to(device).requires_grad_(), weight.to(device).requires_grad_()]
    wanted = torch.nn.functional.cross_entropy(given[0], labels, label_smoothing=smoothing)
    slope = torch.autograd.grad(wanted, given)[0]
    got = peers.liger_loss(smoothing)(given[0], labels)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(torch.autograd.grad(got, given)[0], slope)
    for memory in head.CHUNK_MEMORIES:
        got = peers.liger_head(memory, smoothing)(*both, labels)
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(torch.autograd.grad(got, both), (slope @ both[1], slope.T @ both[0]))


def test_a_destroyer_works_on_its_own_copy() -> None:
    text_shape = SHAPES["tiny"]
    given = loss.logits_inputs(text_shape, torch.float32, torch.Generator().manual_seed(0))
    before = given.logits.detach().clone()

    def destroying() -> object:
        def function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            total = torch.nn.functional.cross_entropy(logits, labels)
            with torch.no_grad():
                logits.data.zero_()
            return total

        return function

    vocabulary = LossSuite(text_shape, torch.zeros(1, 1))
    call = loss._overwriting(destroying, vocabulary.one_hot)(given)
    first = call.step()[0]
    call.restore()
    assert torch.equal(given.logits, before)
    assert torch.equal(call.step()[0], first)


def test_shapes_are_those_of_the_page() -> None:
    assert [(s.rows, s.hidden, s.vocab) for s in chosen_shapes("a,b, c,d")] == [
        (850, 512, 9800),
        (800, 256, 22822),
        (4000, 2000, 30000),
        (8192, 4096, 128256),
    ]
    with pytest.raises(ValueError, match="`shapes` must be one of 'a', 'b'"):
        chosen_shapes("a,e")
    with pytest.raises(ValueError, match="`shapes` must be names with commas"):
        chosen_shapes(" ,")


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_the_sample_fits_into_float64(name: str) -> None:
    shape = SHAPES[name]
    sample = shape.sample()
    assert 100 <= sample.rows <= shape.rows
    assert sample.rows * sample.vocab <= 2**25
    assert (sample.vocab, sample.hidden) == (shape.vocab, shape.hidden)


def test_sets_of_inputs_do_not_survive_in_the_cache() -> None:
    shape = SHAPES["a"]
    for size in (2**20, 17 * 2**20, 37 * 2**20, 240 * 2**20, 2100 * 2**20):
        count = shape.sets(size)
        assert 1 <= count <= 4
        assert count * size >= 2 * 64 * 2**20 or count == 4


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_the_words_of_every_shape_can_be_made(name: str) -> None:
    for shape in (SHAPES[name], SHAPES[name].sample()):
        text = words(shape, torch.Generator().manual_seed(0))
        assert text.targets.shape == (shape.batch, shape.steps)
        assert text.references.shape == (shape.batch, shape.references, shape.steps)
        assert text.samples.shape == (5, shape.rows)
        assert torch.equal(text.references[:, 0], text.targets)
        assert 0 <= int(text.targets.min()) <= int(text.samples.max()) < shape.vocab
        assert float((text.samples == text.labels).double().mean()) == pytest.approx(0.73, abs=0.05)


def test_words_repeat_as_in_text() -> None:
    drawn = zipf((20_000,), 1000, torch.Generator().manual_seed(0))
    counts = drawn.bincount(minlength=1000).sort(descending=True).values.double()
    harmonic = sum(1 / rank for rank in range(1, 1001))
    assert counts[0] / 20_000 == pytest.approx(1 / harmonic, rel=0.05)
    assert counts[9] / 20_000 == pytest.approx(1 / (10 * harmonic), rel=0.25)


def test_rewards_agree_with_everybody() -> None:
    made = rewards.table(50, QUICK, documents=30)
    names = [row.name for row in made.rows]
    assert {"CIDEr-D", "BLEU-4", "CIDEr-D on the host", "CIDEr-D, timed again", "pycocoevalcap CIDEr"} <= set(names)
    assert {"pycocoevalcap BLEU-4", "sacrebleu sentence BLEU", "nltk sentence BLEU"} <= set(names)
    for row in made.rows:
        assert row.failures == {}
        assert row.errors["score"] < (1e-6 if row.ours else 1e-12), row
    assert made.items == 50
    assert made.row("nltk sentence BLEU").items == 50


def test_rewards_have_a_row_for_each_path_of_a_cpu() -> None:
    contest = replace(QUICK, paths=("torch",), only="CIDEr-D")
    names = [row.name for row in rewards.table(50, contest, documents=30).rows]
    assert names == ["CIDEr-D (torch)", "CIDEr-D (torch), timed again"]


@pytest.mark.parametrize(("size", "rows", "samples"), [(50, 50, 1), (250, 50, 5), (2500, 500, 5)])
def test_sizes_are_batches(size: int, rows: int, samples: int) -> None:
    seen = []

    class Looking(Contest):
        def rows(self, contestants, inputs, sample=None, results=()):
            seen.append(inputs[0].candidates.shape[:2])
            return ()

    assert rewards.parts([size])[0][1](Looking(Clock(CPU), 1.0)).items == size
    assert seen == [(rows, samples)]


def test_the_law_of_distances_is_binomial() -> None:
    # The paper's p(d) is Binomial(T, a / (1 + a)) with a = m exp(-1 / tau).
    steps, others, tau = 17, 249, 0.17
    odds = others * math.exp(-1 / tau)
    rate = odds / (1 + odds)
    expected = [math.comb(steps, d) * rate**d * (1 - rate) ** (steps - d) for d in range(steps + 1)]
    np.testing.assert_allclose(sampler.distance_law(steps, others, tau), expected, rtol=1e-10)


@pytest.mark.parametrize("draw", [sampler.raml_loop, *sampler.AUTHORS.values()])
def test_the_samplers_of_others_change_as_many_words_as_they_should(draw) -> None:
    shape = Shape("x", "x", 40, 12, 8, 300)
    text = words(shape, torch.Generator().manual_seed(0))
    drawn = draw(text, 30, shape.vocab)
    assert drawn.shape == (40, 30, 12)
    changed = float((drawn != text.targets.unsqueeze(1)).double().mean())
    assert 0 < changed < 0.9
    if draw is sampler.raml_loop:
        odds = (shape.vocab - 1) * math.exp(-1 / sampler.TAUS["vocab"])
        assert changed == pytest.approx(odds / (1 + odds), abs=0.005)


def test_the_sampler_table_has_every_pool() -> None:
    made = sampler.table(Shape("x", "x", 4, 6, 8, 60), QUICK)
    names = {row.name for row in made.rows}
    for pool in ("vocab", "batch", "refs"):
        assert {f"Hamming {pool}, L={count}" for count in (1, 5, 20)} <= names
        assert f"Hamming {pool}, exact" in names
        assert f"authors' numpy, {pool}, L=5" in names
    assert all(row.failures == {} for row in made.rows)


def test_steps_are_those_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def build(model, objective, *, device, precision, size):
        built.append((model, objective, str(device), precision, size))
        return SimpleNamespace(eager=lambda: None, capture=lambda: lambda: None)

    monkeypatch.setattr(step, "MODELS", ("one", "two"))
    monkeypatch.setattr(step, "OBJECTIVES", ("mle", "tok"))
    monkeypatch.setattr(step, "build", build)
    parts = step.parts("bf16", size="small")
    assert [name for name, _ in parts] == ["one", "two"]
    made = parts[1][1](QUICK)
    assert [row.name for row in made.rows] == ["mle", "tok", "mle, timed again"]
    assert all(row.failures == {} and row.against == "mle" for row in made.rows)
    assert built[0] == ("two", "mle", "cpu", "bf16", "small")
