"""Whole steps on the CPU: ours by path, lazy or not, beside the same models in plain torch, which learn as ours do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from benchmarks import step, step_peers
from benchmarks.clock import Clock
from benchmarks.harness import Contest
from benchmarks.step import PAD, TINY, make_batch
from seqsmooth.models import RNNsearch, ShowTell

CPU = torch.device("cpu")


@pytest.mark.parametrize("model", step.ON_CPU)
def test_every_step_learns(model: step.ModelName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "is_installed", lambda package: False)
    contest = Contest(Clock(CPU), 1e-9, paths=("torch",), threads=1)
    made = step.table(model, "fp32", contest, TINY)
    names = [f"{name} (torch)" for name in (*step.OBJECTIVES, *step.OWN)]
    assert [row.name for row in made.rows] == [*names, "mle (torch), timed again", step.PLAIN]
    for row in made.rows:
        assert row.failures == {}, row
        assert row.cpu is not None
        assert row.over_ours["cpu"].median > 0
    assert made.peer == step.PLAIN
    assert made.shape["threads"] == 1


@pytest.mark.parametrize(
    ("objective", "rows"), [("mle", 1), ("seq-hamming-5", 1), ("own-hamming-1", 2), ("own-cider-2", 3)]
)
def test_own_prefixes_are_decoded_and_lazy_ones_are_not(objective: step.ObjectiveName, rows: int) -> None:
    bench = step.build("show_tell", objective, device="cpu", precision="fp32", size=TINY)
    seen: list[int] = []
    bench.step.model.register_forward_hook(lambda module, inputs, states: seen.append(states.shape[:-1].numel()))
    bench.eager()
    assert sum(seen) == rows * TINY.items * TINY.length


def test_all_steps_of_a_model_learn_from_the_same_words() -> None:
    batches = [
        step.build("rnnsearch", name, device="cpu", precision="fp32", size=TINY).batch for name in ("mle", "tok")
    ]
    batches.append(make_batch("rnnsearch", TINY, torch.Generator().manual_seed(0), CPU))
    for batch in batches[1:]:
        assert torch.equal(batch.targets, batches[0].targets)
        assert torch.equal(batch.inputs[0], batches[0].inputs[0])


def test_show_and_tell_in_plain_torch_is_ours() -> None:
    torch.manual_seed(0)
    ours = ShowTell(TINY.vocabulary, TINY.features, TINY.embedding, TINY.units).eval()
    theirs = step_peers.PlainShowTell(TINY).eval()
    assert theirs.dropout.p == ours.embedding_dropout.p
    batch = make_batch("show_tell", TINY, torch.Generator().manual_seed(0), CPU)
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())
    theirs.load_state_dict(ours.state_dict())
    hidden = ours(batch.inputs, batch.targets)
    torch.testing.assert_close(
        theirs(batch.inputs[0], batch.targets), F.linear(hidden, ours.head.weight, ours.head.bias)
    )


def test_rnnsearch_in_plain_torch_is_of_the_same_size_and_learns() -> None:
    torch.manual_seed(0)
    ours = RNNsearch(TINY.vocabulary, TINY.vocabulary, TINY.embedding, TINY.embedding, TINY.units)
    theirs = step_peers.PlainRNNsearch(TINY)
    sizes = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.15)
    batch = make_batch("rnnsearch", TINY, torch.Generator().manual_seed(0), CPU)
    train = step_peers.plain(theirs, batch)

    def nll() -> float:
        with torch.no_grad():
            logits = theirs.eval()(batch.inputs[0], batch.targets.roll(1, 1))
        theirs.train()
        return float(F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=PAD))

    before = nll()
    for _ in range(20):
        train()
    assert nll() < before


def test_joeynmt_takes_a_step() -> None:
    pytest.importorskip("joeynmt")
    batch = make_batch("rnnsearch", TINY, torch.Generator().manual_seed(0), CPU)
    step_peers.joeynmt(TINY, batch)()
