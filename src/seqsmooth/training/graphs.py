"""A whole step of training as one CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from seqsmooth.data import Batch
from seqsmooth.ops import checks
from seqsmooth.training.step import Report, TrainingStep

WARM_UP = 3


class GraphedStep:
    """A `TrainingStep` captured once, for batches of one shape, and replayed: one launch a step.

    A step of a small model is hundreds of short kernels, and the host takes longer to launch them than the GPU to run
    them. A replay draws new samples and new dropout each time. Making one leaves the model, the optimiser and the
    generators as they were. Where there is no CUDA, the same step runs eagerly, with the same result.

    Args:
        step: what to capture. Its optimiser must be capturable, as `seqsmooth.training.adam` makes it. Numbers that are
            no tensors, as a learning rate given as a float, stay as they are now.
        example: a batch of the shape that all will have. Its values matter little: it is used to warm up.

    Attributes:
        graph: the CUDA graph, or None where there is no CUDA.
        batch: what a replay reads. A call copies its batch there, unless it is that one itself.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.models import ShowTell
        >>> from seqsmooth.training import adam
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16)
        >>> objective = ss.mle(specials=ss.Specials(pad=0, bos=1, eos=2))
        >>> batch = Batch((torch.randn(2, 8),), torch.tensor([[4, 5, 2], [6, 2, 0]]))
        >>> step = GraphedStep(TrainingStep(model, objective, adam(model.parameters(), lr=0.01)), batch)
        >>> int(step(batch).loss.tokens)  # eagerly here; one launch where there is a GPU
        5
    """

    def __init__(self, step: TrainingStep, example: Batch) -> None:
        checks.must(isinstance(step, TrainingStep), "step", "a TrainingStep", checks.describe(step))
        self.step = step
        for name, value in example.tensors().items():
            checks.device(name, value, step.device)
        self.batch = example.clone()
        self.graph: torch.cuda.CUDAGraph | None = None
        if step.device.type == "cuda":
            for group in step.optimizer.param_groups:
                rule = "capturable (`seqsmooth.training.adam` makes one)"
                checks.must(bool(group.get("capturable")), "step.optimizer", rule, "not")
            self._capture()

    def __call__(self, batch: Batch) -> Report:
        """Learn from a batch. The next call overwrites what the report holds."""
        given, captured = batch.tensors(), self.batch.tensors()
        same = given.keys() == captured.keys()
        checks.must(same, "batch", f"of {', '.join(captured)}, as captured", f"of {', '.join(given)}")
        for name, value in captured.items():
            checks.shape(name, given[name], *value.shape, letters="captured")
            rule = f"of type {value.dtype}, as captured"
            checks.must(given[name].dtype == value.dtype, name, rule, given[name].dtype)
            if given[name] is not value:
                value.copy_(given[name], non_blocking=True)
        if self.graph is None:
            return self.step(self.batch)
        self.graph.replay()
        return self._report

    def _capture(self) -> None:
        with torch.cuda.device(self.step.device):
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            with restore_after(self.step):
                aside.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(aside):
                    for _ in range(WARM_UP):
                        self.step(self.batch)
                torch.cuda.current_stream().wait_stream(aside)
            self.graph = torch.cuda.CUDAGraph()
            if isinstance(self.step.generator, torch.Generator):
                # The default generator of the device is known to every graph.
                self.graph.register_generator_state(self.step.generator)
            # Other threads may make batches meanwhile, in pinned memory.
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self._report = self.step(self.batch)


@contextmanager
def restore_after(step: TrainingStep) -> Iterator[None]:
    """Restore parameters, buffers, the optimiser's state and the generators after the block.

    It is put back in place, where a graph will look for it. A state that the optimiser made inside becomes zeros, which
    is where Adam and its kin begin.
    """
    model, optimizer = step.model, step.optimizer
    values = [*model.parameters(), *model.buffers()]
    before = [value.detach().clone() for value in values]
    states = {
        parameter: {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}
        for parameter, state in optimizer.state.items()
    }
    default = torch.cuda.default_generators[torch.cuda.current_device()] if step.device.type == "cuda" else None
    generators = [source for source in (default or torch.default_generator, step.generator) if source is not None]
    seeds = [source.get_state() for source in generators]
    try:
        yield
    finally:
        with torch.no_grad():
            for value, old in zip(values, before, strict=True):
                value.copy_(old)
            for parameter, state in optimizer.state.items():
                for name, value in state.items():
                    if isinstance(value, Tensor):
                        old_state = states.get(parameter, {})
                        value.copy_(old_state[name]) if name in old_state else value.zero_()
        optimizer.zero_grad(set_to_none=True)
        for source, seed in zip(generators, seeds, strict=True):
            source.set_state(seed)
