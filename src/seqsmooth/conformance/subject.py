"""`Subject`: a loss under examination, and how it is called."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED

Call = Literal["flat", "sequence", "trainer", "head", "states"]
CALLS: dict[Call, str] = {
    "flat": "loss(logits (N, V), labels (N,)), as F.cross_entropy",
    "sequence": "loss(logits (B, T, V), labels (B, T)), as an Objective",
    "trainer": "loss(outputs, labels (B, T)), outputs.logits of (B, T, V), as transformers' compute_loss_func",
    "head": "loss(hidden (N, D), weight (V, D), labels (N,)), as linear_cross_entropy",
    "states": "loss(hidden (B, T, D), weight (V, D), labels (B, T)), as Objective.head",
}
SMOOTHINGS = ("label_smoothing", "smoothing", "epsilon")
ITEMS = ("num_items", "num_items_in_batch")
OUTPUTS = ("outputs", "output", "model_output", "model_outputs")


class Outputs(dict[str, Tensor]):
    """The outputs of a Hugging Face model: logits by key, by name or as the first item."""

    @property
    def logits(self) -> Tensor:
        """(B, T, V)."""
        return self["logits"]

    def __getitem__(self, key: str | int) -> Tensor:
        return super().__getitem__("logits" if key == 0 else str(key))


@dataclass(frozen=True)
class Subject:
    """A loss under examination, by default a mean over the positions whose label is not -100.

    Keywords may be arguments of the loss or, where `function` is a class, of its constructor.

    Examples:
        >>> from torch.nn import functional as F
        >>> subject = Subject("torch", F.cross_entropy, smoothing="label_smoothing")
        >>> loss = subject.loss(torch.zeros(1, 2, 4), torch.tensor([[3, -100]]), smoothing=0.1)
        >>> f"{loss:.4f}"  # ln 4
        '1.3863'
    """

    name: str
    function: Callable[..., Any]
    call: Call = "flat"
    smoothing: str | None = None
    """The keyword that takes a strength of smoothing, 0 for none."""
    uniform: bool = True
    """Whether that smoothing is meant to be torch's: a share of the mass over all V tokens."""
    items: str | None = None
    """The keyword that takes what the sum is divided by."""
    reduction: str | None = None
    """The keyword that takes "mean", "sum" or "none"."""
    shift: str | None = None
    """The keyword that makes position t predict label t + 1."""
    shifts: bool = False
    """Whether position t always predicts label t + 1."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    versions: Mapping[str, str] = field(default_factory=dict)
    """The packages that the results depend on."""

    @property
    def from_states(self) -> bool:
        """Whether it takes hidden states and an output matrix instead of logits."""
        return self.call in ("head", "states")

    def loss(
        self,
        logits: Tensor,  # (B, T, V)
        labels: Tensor,  # (B, T)
        *,
        smoothing: float = 0.0,
        items: Tensor | None = None,  # ()
        reduction: str | None = None,
        shifted: bool = False,
        weight: Tensor | None = None,  # (V, V)
    ) -> Tensor:  # (), or one number a position
        """The loss of a batch; if `shifted`, position t predicts label t + 1. `weight` defaults to the identity."""
        keywords: dict[str, object] = {}
        for name, value in ((self.smoothing, smoothing), (self.items, items), (self.reduction, reduction)):
            if name is not None and value is not None:
                keywords[name] = value
        if shifted and not self.shifts:
            assert self.shift is not None
            keywords[self.shift] = True
        if self.shifts and not shifted:  # it drops the first label and the last logits
            labels = F.pad(labels, (1, 0), value=IGNORED)
            logits = F.pad(logits, (0, 0, 0, 1))
        function = self.function
        if isinstance(function, type):
            own = {name: keywords.pop(name) for name in list(keywords) if name in _parameters(function)}
            function = function(**own)
        return _loss_in(function(*self._arguments(logits, labels, weight), **keywords))

    def _arguments(self, logits: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[object, ...]:
        rows, column = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        if self.call == "flat":
            return rows, column
        if self.from_states:  # times the identity, so the logits are the hidden states
            identity = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
            matrix = identity if weight is None else weight
            return (rows, matrix, column) if self.call == "head" else (logits, matrix, labels)
        return (Outputs(logits=logits) if self.call == "trainer" else logits), labels


def load(
    name: str,
    *,
    call: Call | None = None,
    smoothing: str | None = None,
    uniform: bool = True,
    shifts: bool = False,
    device: torch.device | None = None,
) -> Subject:
    """Load a loss by its name, "MODULE:NAME"; what is not given is read off its signature.

    Args:
        name: as in "torch.nn.functional:cross_entropy"; the module may be in the current folder.
        call: how it is called, one of `CALLS`.
        smoothing: the keyword that takes the strength of its smoothing.
        uniform: whether that smoothing is label smoothing.
        shifts: whether position t always predicts label t + 1.
        device: where its tensors are; the CPU by default.

    Examples:
        >>> subject = load("torch.nn.functional:cross_entropy")
        >>> subject.call, subject.smoothing, subject.reduction
        ('flat', 'label_smoothing', 'reduction')
    """
    function = _import_loss(name)
    known = _parameters(function)
    inner = known if not isinstance(function, type) else known | _parameters(function.__call__)
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        inner |= _parameters(function.forward)
    if call is None:
        call = "trainer" if inner.keys() & {*OUTPUTS} else "sequence" if "candidates" in inner else "flat"
    checks.one_of("call", call, tuple(CALLS))
    if smoothing is not None:
        checks.must(smoothing in inner, "smoothing", f"a keyword of {name}", repr(smoothing))
    return Subject(
        name,
        function,
        call,
        smoothing=smoothing or _first(SMOOTHINGS, inner),
        uniform=uniform,
        items=_first(ITEMS, inner),
        reduction=_first(("reduction",), inner),
        shift=_first(("shift_labels",), inner),
        shifts=shifts,
        device=torch.device("cpu") if device is None else device,
    )


def _import_loss(name: str) -> Callable[..., Any]:
    module, colon, path = name.partition(":")
    sentence = f"The loss `{name}` must be written as MODULE:NAME, like torch.nn.functional:cross_entropy."
    checks.require(bool(module and colon and path), sentence)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"The module `{module}` cannot be imported: {reason}.") from error
    for part in path.split("."):
        checks.require(hasattr(value, part), f"The module `{module}` has no `{path}`.")
        value = getattr(value, part)
    kinds = "a loss is a function, an nn.Module or a class of either"
    checks.require(callable(value), f"`{name}` is {checks.describe(value)}, but {kinds}.")
    function: Callable[..., Any] = value
    return function


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a function by name; none where it has no signature."""
    if isinstance(function, torch.nn.Module):
        function = function.forward
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def _first(names: tuple[str, ...], known: Mapping[str, object]) -> str | None:
    return next((name for name in names if name in known), None)


def _loss_in(result: Any) -> Tensor:
    """The loss in a result: a tensor, the `total` or `loss` of a record, or the first item of a tuple."""
    for name in ("total", "loss"):
        if isinstance(getattr(result, name, None), Tensor):
            result = getattr(result, name)
    value = result[0] if isinstance(result, tuple) else result
    checks.require(isinstance(value, Tensor), f"The loss returned {checks.describe(value)}; it must return a tensor.")
    loss: Tensor = value
    return loss
