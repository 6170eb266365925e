"""What a training step may not do: break the graph, look at the host, or lose a derivative."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import seqsmooth as ss
from seqsmooth.ops import checks

B, T, V, R = 3, 4, 9, 2
PAD, BOS, EOS, UNK = range(4)
SPECIALS = ss.Specials(PAD, BOS, EOS, UNK)
SEED = torch.Generator().manual_seed(0)
LOGITS = torch.randn(B, T, V, generator=SEED)
TARGETS = torch.tensor([[4, 5, EOS, PAD], [6, 7, 8, EOS], [8, EOS, PAD, PAD]])
REFERENCES = torch.randint(4, V, (B, R, T), generator=SEED)
VECTORS = torch.randn(V, 3, generator=SEED)
COUNTS = torch.arange(1.0, V + 1)
FREQUENCIES = ss.rewards.DocumentFrequencies.build([[[4, 5, 6], [7, 8]], [[4, 6], [8, 8, 5]], [[7]]])
TEACHER = torch.randint(V, (B, T, 2), generator=SEED), torch.full((B, T, 2), -1.5)

SEQUENCES: dict[str, Callable[[], ss.smoothing.sequence_law.SequenceLaw | None]] = {
    "truth": lambda: None,
    "vocab": lambda: ss.Hamming(0.8, alpha=0.4),
    "batch": lambda: ss.Hamming(0.8, pool="batch", alpha=0.4),
    "refs": lambda: ss.Hamming(0.8, pool="refs", alpha=0.4),
    "ids": lambda: ss.Hamming(rate=0.3, pool=torch.tensor([5, 7, 8])),
    "sampled": lambda: ss.Hamming(0.8, pool="refs", samples=3),
    "substitutes": lambda: ss.Hamming(0.8, substitutes=ss.Similarity(VECTORS, 0.4)),
    "cider": lambda: ss.Rewarded(ss.rewards.Cider(FREQUENCIES), ss.Hamming(0.8, pool="refs"), 0.5, 3, 0.4),
    "bleu": lambda: ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(0.8), 0.5, 3, 0.4, weights="literal"),
    "hamming": lambda: ss.Rewarded(ss.rewards.Hamming(), ss.Hamming(0.8, pool="batch"), 0.5, 1, weights="batch"),
    "edit": lambda: ss.Rewarded(ss.rewards.Edit(), ss.Hamming(0.8), 0.5, 2, against="target"),
}
TOKENS: dict[str, Callable[[], ss.smoothing.token_law.TokenLaw | None]] = {
    "dirac": lambda: None,
    "uniform": lambda: ss.Uniform(0.1),
    "similarity": lambda: ss.Similarity(VECTORS, 0.3, 0.2, COUNTS, 0.5),
    "on the fly": lambda: ss.Similarity(VECTORS, 0.3, 0.2, COUNTS, 0.5, stored=False),
    "top-k": lambda: ss.Similarity(VECTORS, 0.3, alpha=0.5, mode="top-k", k=3),
    "sampled": lambda: ss.Similarity(VECTORS, 0.3, alpha=0.5, mode="sampled", k=3),
    "teacher": lambda: ss.Teacher(*TEACHER, tail="uniform", alpha=0.5),
}
CELLS = [*((name, "dirac") for name in SEQUENCES), *(("refs", name) for name in TOKENS), ("vocab", "similarity")]


def build(sequence: str, token: str, *, lazy: bool = True, entropy: float = 0.1) -> ss.Objective:
    laws = SEQUENCES[sequence](), TOKENS[token]()
    return ss.Objective(*laws, lazy=lazy, entropy=entropy, specials=SPECIALS, vocab_size=V)


def step(objective: ss.Objective, logits: Tensor, targets: Tensor, references: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    loss = objective(logits, objective.propose(targets, references=references))
    return loss.total, loss.nll, loss.ess


@pytest.mark.parametrize(("sequence", "token"), CELLS)
def test_compiles_without_a_break(sequence: str, token: str) -> None:
    torch.compiler.reset()
    objective = build(sequence, token)
    compiled = torch.compile(lambda *given: step(objective, *given), fullgraph=True, backend="aot_eager")
    results = []
    for run in (compiled, lambda *given: step(objective, *given)):
        torch.manual_seed(5)
        logits = LOGITS.clone().requires_grad_()
        total, nll, ess = run(logits, TARGETS, REFERENCES)
        results.append((total.detach(), nll, ess, torch.autograd.grad(total, logits)[0]))
    for ours, eager in zip(*results, strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.slow
def test_compiles_to_machine_code() -> None:
    torch.compiler.reset()
    objective = build("refs", "similarity")
    candidates = objective.propose(TARGETS, references=REFERENCES)
    compiled = torch.compile(objective, fullgraph=True)
    torch.testing.assert_close(compiled(LOGITS, candidates).total, objective(LOGITS, candidates).total)


class NoLookAtTheHost(TorchDispatchMode):
    """Refuses the operations that wait for the device to tell the host a number or a size."""

    FORBIDDEN = (
        "_local_scalar_dense",
        "nonzero",
        "_unique2",
        "unique_consecutive",
        "unique_dim",
        "masked_select",
        "equal",
        "is_nonzero",
        "repeat_interleave.Tensor",
        "multinomial",
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = str(func).removeprefix("aten.")
        assert not name.startswith(self.FORBIDDEN), f"{name} looks at the host"
        if name.startswith(("index.Tensor", "index_put")):
            masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
            assert not masks, "indexing by a mask looks at the host"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize(("sequence", "token"), CELLS)
def test_never_looks_at_the_host(sequence: str, token: str, lazy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if token == "teacher" and not lazy:
        pytest.skip("refused by the constructor")
    objective = build(sequence, token, lazy=lazy)
    monkeypatch.setattr(checks, "visible", lambda value: False)  # as on an accelerator
    with NoLookAtTheHost():
        candidates = objective.propose(TARGETS, references=REFERENCES)
        logits = torch.zeros(*candidates.sequences.shape, V, requires_grad=True)
        objective(logits, candidates).total.backward()
        hidden = torch.zeros(*candidates.sequences.shape, 2, requires_grad=True)
        objective.head(hidden, torch.zeros(V, 2), candidates, chunk=3).total.backward()


def test_edit_never_looks_at_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = ss.Objective(ss.Edit(0.8, "refs", samples=2), lazy=False, specials=SPECIALS, vocab_size=V)
    monkeypatch.setattr(checks, "visible", lambda value: False)
    with NoLookAtTheHost():
        objective.propose(TARGETS, references=REFERENCES)


def test_the_guard_can_fail() -> None:
    for look in (lambda x: x.item(), lambda x: x[x > 0], torch.nonzero, torch.unique):
        with NoLookAtTheHost(), pytest.raises(AssertionError, match="looks at the host"):
            look(torch.ones(1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize(("sequence", "token"), CELLS)
def test_cuda_equals_cpu_without_a_sync(sequence: str, token: str, lazy: bool) -> None:
    if token == "teacher" and not lazy:
        pytest.skip("refused by the constructor")
    objective = build(sequence, token, lazy=lazy)
    candidates = objective.propose(TARGETS, references=REFERENCES)
    logits = torch.randn(*candidates.sequences.shape, V)
    expected = objective(logits, candidates).total if "sampled" not in (sequence, token) else None
    objective, targets, references, logits = objective.cuda(), TARGETS.cuda(), REFERENCES.cuda(), logits.cuda()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        candidates = objective.propose(targets, references=references)
        total = objective(logits.requires_grad_(), candidates).total
        total.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert total.isfinite()
    exact = lazy and isinstance(objective.sequence, (ss.GroundTruth, ss.Hamming)) and expected is not None
    if exact:
        torch.testing.assert_close(total.cpu(), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("sequence", ["edit law", "cider", "sampled", "refs"])
def test_a_step_is_captured_in_a_cuda_graph(sequence: str) -> None:
    """Sampling, scoring, loss and gradient in one graph, with new samples at each replay."""
    law = ss.Edit(0.8, "refs", samples=3) if sequence == "edit law" else SEQUENCES[sequence]()
    token = ss.Similarity(VECTORS, 0.3, alpha=0.5)
    objective = ss.Objective(law, token, lazy=sequence != "edit law", specials=SPECIALS).cuda()
    targets, references = TARGETS.cuda(), REFERENCES.cuda()
    shape = objective.propose(targets, references=references).sequences.shape
    logits = torch.randn(*shape, V, device="cuda", requires_grad=True)

    def run() -> tuple[Tensor, Tensor]:
        loss = objective(logits, objective.propose(targets, references=references))
        (gradient,) = torch.autograd.grad(loss.total, logits)
        return loss.total.detach(), gradient

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total, gradient = run()
    seen = set()
    for _ in range(20):
        graph.replay()
        torch.cuda.synchronize()
        assert gradient.isfinite().all()
        seen.add(round(total.item(), 6))
    assert (len(seen) == 1) == (sequence == "refs")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_edit_does_not_sync() -> None:
    objective = ss.Objective(ss.Edit(0.8, "refs", samples=2), lazy=False, specials=SPECIALS, vocab_size=V).cuda()
    targets, references = TARGETS.cuda(), REFERENCES.cuda()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        objective.propose(targets, references=references)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    ("sequence", "token", "lazy"),
    [
        ("refs", "similarity", True),
        ("refs", "similarity", False),
        ("vocab", "top-k", True),
        ("cider", "on the fly", True),
    ],
)
def test_second_derivatives(sequence: str, token: str, lazy: bool) -> None:
    objective = build(sequence, token, lazy=lazy).double()
    candidates = objective.propose(TARGETS, references=REFERENCES)
    logits = torch.randn(*candidates.sequences.shape, V, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: objective(z, candidates).total, logits)
    assert torch.autograd.gradgradcheck(lambda z: objective(z, candidates).total, logits)
    hidden = torch.randn(*candidates.sequences.shape, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(V, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda h, w: objective.head(h, w, candidates, chunk=5).total, (hidden, weight))


@pytest.mark.parametrize(("sequence", "token"), CELLS)
def test_function_transforms(sequence: str, token: str) -> None:
    objective = build(sequence, token)
    candidates = objective.propose(TARGETS, references=REFERENCES)
    logits = LOGITS.clone().requires_grad_()
    (expected,) = torch.autograd.grad(objective(logits, candidates).total, logits)
    torch.testing.assert_close(torch.func.grad(lambda z: objective(z, candidates).total)(LOGITS), expected)
    along = torch.func.jvp(lambda z: objective(z, candidates).total, (LOGITS,), (expected,))[1]
    torch.testing.assert_close(along, expected.square().sum(), rtol=1e-4, atol=1e-6)
    hessian = torch.func.hessian(lambda z: objective(z, candidates).total)(LOGITS)
    assert hessian.shape == (B, T, V) * 2
    assert hessian.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_any_float_type(dtype: torch.dtype) -> None:
    objective = build("refs", "similarity")
    candidates = objective.propose(TARGETS, references=REFERENCES)
    logits = LOGITS.to(dtype, copy=True).requires_grad_()
    loss = objective(logits, candidates)
    assert loss.total.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(loss.total.double(), objective(logits.double(), candidates).total, atol=1e-5, rtol=1e-5)
    loss.total.backward()
    assert logits.grad.dtype == dtype
    assert logits.grad.isfinite().all()


def test_works_under_autocast() -> None:
    objective = build("refs", "similarity")
    candidates = objective.propose(TARGETS, references=REFERENCES)
    hidden, weight = torch.randn(B, T, 8, requires_grad=True), torch.randn(V, 8, requires_grad=True)
    expected = objective.head(hidden, weight, candidates)
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective.head(hidden, weight, candidates, chunk=2)
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, expected.total, atol=0.05, rtol=0.05)
    loss.total.backward()
