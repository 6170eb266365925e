"""The protocol of every model: encode, start, decode, step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from seqsmooth.models.configurable import Configurable
from seqsmooth.ops import checks
from seqsmooth.ops.products import Linear

Memory = TypeVar("Memory", bound=tuple[Tensor, ...])
"""The encoded inputs: tensors with one row for each item, so rows can be repeated and selected."""
State = TypeVar("State", bound=tuple[Tensor, ...])
"""The decoder's state after the tokens so far, also with one row for each item."""


class Model(Configurable, Generic[Memory, State]):
    """A sequence generator: inputs to memory, memory and tokens to hidden states, hidden states to logits by `head`.

    `decode` reads whole sequences, for training; `step` reads one token of each item, for generation. Both compute the
    same. The head is separate, so `objective.head(hidden, model.head.weight, candidates, model.head.bias)` needs no
    tensor of all logits. Shapes never depend on values: padding is a mask, and everything can be captured in a CUDA
    graph. `seqsmooth.models.build(**model.config())` builds a model of the same kind and sizes.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.models import ShowTell
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16)
        >>> objective = ss.label_smoothing(0.1, specials=ss.Specials(pad=0, bos=1, eos=2), vocab_size=50)
        >>> candidates = objective.propose(torch.tensor([[4, 5, 2], [6, 2, 0]]))
        >>> hidden = model((torch.randn(2, 8),), candidates.inputs)  # (B, K', T, D)
        >>> loss = objective.head(hidden, model.head.weight, candidates, model.head.bias)
        >>> int(loss.tokens)
        5
    """

    head: nn.Linear

    @abstractmethod
    def encode(
        self,
        *inputs: Tensor,  # (B, ...) each
    ) -> Memory:
        """Encode the inputs, once for each item."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The state before the first token."""

    @abstractmethod
    def decode(
        self,
        memory: Memory,
        tokens: Tensor,  # (B, T) int64, BOS first
    ) -> Tensor:  # (B, T, D)
        """The hidden states after each token, by teacher forcing."""

    @abstractmethod
    def step(
        self,
        memory: Memory,
        state: State,
        tokens: Tensor,  # (B,) int64
    ) -> tuple[Tensor, State]:  # (B, D)
        """The hidden state after one more token."""

    def logits(
        self,
        hidden: Tensor,  # (..., D)
    ) -> Tensor:  # (..., V)
        """The scores of the next token."""
        scores: Tensor = self.head(hidden)
        return scores

    def forward(
        self,
        inputs: Sequence[Tensor],  # of `encode`; B rows, or B / n where each serves n rows of tokens
        tokens: Tensor,  # (B, T), or (B, K', T) as `candidates.inputs`
    ) -> Tensor:  # (B, T, D) or (B, K', T, D)
        """The hidden states of one or several prefixes for each item, in one pass."""
        checks.must(tokens.dim() in (2, 3), "tokens", "of shape (B, T) or (B, K', T)", tuple(tokens.shape))
        memory = self.encode(*inputs)
        prefixes, rows = tokens.flatten(0, -2), max(memory[0].shape[0], 1)
        rule = f"of B rows, a multiple of the {rows} rows of the inputs"
        checks.must(tokens.shape[0] % rows == 0, "tokens", rule, f"of {tokens.shape[0]}")
        hidden = self.decode(repeat(memory, prefixes.shape[0] // rows), prefixes)
        return hidden.reshape(*tokens.shape, hidden.shape[-1])


def check_number(inputs: Sequence[Tensor], most: int, what: str) -> None:
    """Check that there is an input, and at most `most` of them."""
    rule = f"{what} (in a tuple if they are one argument)"
    checks.must(1 <= len(inputs) <= most, "inputs", rule, f"{len(inputs)} tensors")


def check_features(
    features: Tensor,
    *sizes: int | None,
    letters: str,
    weight: Tensor,  # of the layer that reads them
) -> None:
    """Check the shape, device and type of features by the layer that reads them."""
    checks.shape("features", features, *sizes, letters=letters)
    checks.floats("features", features)
    checks.device("features", features, weight.device, " of the model")
    lowered = torch.is_autocast_enabled(weight.device.type) and features.dtype != torch.float64
    if features.dtype != weight.dtype and not lowered:
        raise checks.wrong("features", f"of the type of the model's weights, {weight.dtype}", features.dtype)


def repeat(memory: Memory, times: int) -> Memory:
    """A memory or state with each row `times` times, one after the other."""
    if times == 1:
        return memory
    parts = [part.repeat_interleave(times, 0) for part in memory]
    return type(memory)(*parts) if hasattr(memory, "_fields") else type(memory)(parts)


def make_embedding(
    vocab_size: int,
    size: int,
    vectors: Tensor | None,  # (V, E)
    *,
    source: bool = False,
) -> nn.Embedding:
    """Create an embedding with given initial vectors, or uniform in (-0.1, 0.1) as the authors'."""
    checks.at_least("source_size" if source else "vocab_size", vocab_size, 1)
    table = nn.Embedding(vocab_size, checks.at_least("embedding_size", size, 1))
    nn.init.uniform_(table.weight, -0.1, 0.1)
    if vectors is not None:
        checks.shape("source_vectors" if source else "vectors", vectors, vocab_size, size, letters="(V, E)")
        with torch.no_grad():
            table.weight.copy_(vectors)
    return table


def make_head(size: int, vocab_size: int, tied: nn.Embedding | None) -> nn.Linear:
    """Create a head, uniform in (-0.1, 0.1) with a bias of 0; if tied, it shares the matrix of the embedding."""
    head = Linear(size, vocab_size)
    nn.init.zeros_(head.bias)
    if tied is None:
        nn.init.uniform_(head.weight, -0.1, 0.1)
        return head
    width = tied.embedding_dim
    checks.must(width == size, "embedding_size", f"that of the hidden states, {size}, where tied", width)
    head.weight = tied.weight
    return head


def make_recurrent(inputs: int, outputs: int, units: int, *, bias: bool = False) -> nn.Linear:
    """Create a matrix of a recurrence, uniform in +-1 / sqrt(units) like those of `nn.LSTM`."""
    layer = Linear(inputs, outputs, bias=bias)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(units**-0.5), units**-0.5)
    return layer
