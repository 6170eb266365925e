"""Records between an objective and its laws: the setting, the ground truth of a batch, and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from torch import Tensor, nn

from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.ops.targets import Source
from seqsmooth.smoothing.specials import Specials

if TYPE_CHECKING:
    from seqsmooth.smoothing.token_law import TokenLaw


@dataclass(frozen=True, eq=False)
class Setting:
    """The choices of an objective that its laws depend on, and the tables they have prepared for it."""

    specials: Specials
    vocab_size: int | None = None
    lazy: bool = True
    token: TokenLaw | None = None
    """The token law that the sequence law goes with; None for a law that only proposes samples."""
    token_tables: nn.Module | None = None
    """The result of `token.prepare`."""
    sequence_tables: nn.Module | None = None
    """The result of `sequence.prepare`."""

    def reading(self, ignore_index: int) -> tuple[tuple[int, ...], int, int | None, tuple[int, ...], tuple[int, ...]]:
        """How targets are read, as `Source` has it: ids without a position, filler, BOS, frozen and undrawn tokens."""
        specials = self.specials
        ignored = (ignore_index,) if specials.pad is None else (ignore_index, specials.pad)
        return ignored, specials.filler, specials.bos, specials.ids("frozen"), specials.ids("undrawn")


@dataclass(frozen=True, eq=False)
class Truth(Source):
    """The ground truth of a batch, as the sequence laws see it."""

    references: Tensor | None  # (B, R, S) int64, padded with PAD or any negative id
    setting: Setting

    @classmethod
    def of(
        cls,
        targets: Tensor,  # (B, T) int64
        references: Tensor | None,  # (B, R, S) int64
        setting: Setting,
        ignore_index: int = IGNORED,
    ) -> Truth:
        """Targets as the special tokens say they must be read."""
        return cls(targets, *setting.reading(ignore_index), -1, references, setting)


@dataclass(frozen=True, eq=False)
class Loss:
    """The result of an objective.

    Examples:
        >>> import torch
        >>> import seqsmooth as ss
        >>> logits = torch.tensor([[[3.0, 0.0, 0.0, 0.0], [0.0, 9.0, 9.0, 0.0]]])
        >>> loss = ss.label_smoothing(0.1)(logits, torch.tensor([[0, -100]]))
        >>> int(loss.tokens), f"{loss.nll:.4f}"  # ln(1 + 3 / e^3) of the one position that counts
        (1, '0.1392')
        >>> f"{loss.total - loss.nll:.4f}"  # 3/4 of the share that is spread costs 3 each
        '0.2250'
    """

    total: Tensor  # (), or (B, T) where not reduced
    """The loss to minimise: a scalar, or with `reduction="none"` one number a position of the decoded sequences."""
    nll: Tensor  # (), or (B, T) where not reduced
    """The unsmoothed negative log-likelihood of the ground truth, reduced in the same way, without gradient."""
    tokens: Tensor  # ()
    """Number of ground-truth positions in this call."""
    ess: Tensor  # ()
    """Effective number of samples of an item, (sum w)^2 / sum w^2, on average; infinite where nothing is sampled."""

    if not TYPE_CHECKING:  # or else a checker would take every name for one of ours

        def __getattr__(self, name: str) -> NoReturn:
            """Called for what is not there: `loss.backward()` is what people try first."""
            raise AttributeError(f"A `Loss` has no `{name}`: it is a record, and `loss.total` the tensor to minimise.")
