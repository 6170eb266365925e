"""What travels between the parts: the truth, a measure on sequences, candidates, a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.positions import Positions, Reading, Source, masked, read
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.smoothing.specials import Specials, is_any


class Truth:
    """The ground truth of a batch, as the sequence laws see it.

    The positions are told from the padding when somebody asks. A kernel that reads the targets itself asks for nothing,
    and `keep` gives the others what it found. It may set the `share` of the mass apart that the token law spreads.
    """

    def __init__(
        self,
        tokens: Tensor,  # (B, T) int64
        mask: Tensor | None,  # (B, T) bool, the positions; None where `ignored` tells them
        references: Tensor | None,  # (B, R, S) int64, padded with PAD or any negative id
        specials: Specials,
        vocab_size: int | None,
        *,
        ignored: tuple[int, ...] = (),
        share: float = 0.0,
    ) -> None:
        self.references = references
        self.specials = specials
        self.vocab_size = vocab_size
        self.share = share
        self.found: Positions | None = None
        self.reading: Reading | None = None
        if mask is None:
            self.source = Source(tokens, ignored, specials.filler, specials.bos)
        else:
            self.found = masked(tokens, mask, specials.filler)
            self.source = Source(self.found.labels, (IGNORED,), specials.filler, specials.bos)

    def keep(self, reading: Reading) -> None:
        """Remember what a kernel has read."""
        self.found, self.reading = None, reading

    @property
    def positions(self) -> Positions:
        """What the targets hold."""
        if self.found is None:
            self.found = read(self.source) if self.reading is None else self.reading.positions
        return self.found

    @property
    def labels(self) -> Tensor:  # (B, 1, T) int64
        """The tokens after the true prefix; -100 where there is no position."""
        return self.positions.labels.unsqueeze(1) if self.reading is None else self.reading.labels

    @property
    def count(self) -> Tensor:  # ()
        """The number of positions."""
        return self.positions.count if self.reading is None else self.reading.count

    @property
    def inputs(self) -> Tensor | None:  # (B, T)
        """What a decoder reads, where a kernel has written it."""
        return self.positions.inputs if self.reading is None else self.reading.inputs

    @property
    def tokens(self) -> Tensor:  # (B, T) int64
        """The tokens; the filler where there is no position."""
        return self.positions.tokens

    @property
    def mask(self) -> Tensor:  # (B, T) bool
        """The positions."""
        return self.positions.mask

    @property
    def movable(self) -> Tensor:  # (B, T) bool
        """Positions that a sequence law may change."""
        frozen = self.specials.ids("frozen")
        return self.mask & ~is_any(self.tokens, frozen) if frozen else self.mask


@dataclass(frozen=True, eq=False)
class Draws:
    """Sequences drawn from a proposal q(y|y*)."""

    tokens: Tensor  # (B, L, T)
    mask: Tensor  # (B, L, T) bool
    log_prob: Tensor | None  # (B, L) ln q, or None where it has no closed form
    log_base: Tensor | None = None  # (B, L) ln of a weight each draw carries beforehand; None for plain samples
    reading: Reading | None = None
    """Where a kernel drew them: the ground truth and the draws side by side, as a lazy target of equal weights."""


@dataclass(frozen=True, eq=False)
class Measure:
    """A measure on target sequences, sum_k w_k delta(y^k), laid over the prefixes that are to be decoded.

    Prefix 0 is always the ground truth. Lazy measures have no other (K' = 1).
    """

    tokens: Tensor  # (B, K', T) prefixes to decode; the filler outside the mask
    mask: Tensor  # (B, K', T) bool
    weights: Tensor  # (B, K') weight of each prefix
    target: SoftTarget  # of shape (B, K', T): the tokens to predict, before any token law; empty outside the mask
    ess: Tensor  # () effective sample size; infinite where nothing is sampled
    apart: Tensor | None = None  # (B, 1, T, K) the share that the token law spreads, where the target is without it


@dataclass(frozen=True, eq=False)
class Candidates:
    """What to decode, and what the decoder should then predict.

    `sequences` are whole target sequences, y_1 .. y_T; `inputs` are what a decoder that predicts y_t from y_<t reads.

    Examples:
        >>> import seqsmooth as ss
        >>> specials = ss.Specials(pad=0, bos=1, eos=2)
        >>> objective = ss.seq(rate=0.5, samples=3, alpha=0.6, lazy=False, specials=specials, vocab_size=9)
        >>> candidates = objective.propose(torch.tensor([[4, 5, 2], [6, 2, 0]]))
        >>> candidates.inputs.shape  # the ground truth and three samples of each item
        torch.Size([2, 4, 3])
        >>> candidates.inputs[:, 0].tolist()  # BOS and the words before
        [[1, 4, 5], [1, 6, 2]]
        >>> [round(weight, 4) for weight in candidates.weights[0].tolist()]
        [0.4, 0.2, 0.2, 0.2]
    """

    sequences: Tensor  # (B, K', T) int64; K' = 1 when lazy
    mask: Tensor  # (B, K', T) bool
    weights: Tensor  # (B, K')
    target: SoftTarget  # of shape (B, K', T)
    labels: Tensor  # (B, K', T) the ground truth on its own prefix, -100 elsewhere: for the plain NLL
    count: Tensor  # () number of ground-truth positions
    ess: Tensor  # ()
    bos: int | None
    maker: int
    """Which objective these are for."""
    read: Tensor | None = None  # (B, T) the `inputs` of the ground truth, where a kernel has written them
    stream: torch.cuda.Stream | None = None
    """Where all this is still being made; None if that was the current one."""
    given: tuple[Tensor | None, ...] = ()
    """What that stream may still read."""

    def wait(self) -> None:
        """Let the current stream wait for the one that `propose` was given."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    @property
    def inputs(self) -> Tensor:  # (B, K', T)
        """Decoder inputs for teacher forcing, `shifted` by the BOS of the objective's specials."""
        rule = "given for `inputs` (or take `shifted(start)` with the token your decoder starts from)"
        checks.must(self.bos is not None, "specials.bos", rule, None)
        assert self.bos is not None
        if checks.visible(self.sequences):
            # In front of all of several: of one it may be another token of the same id, such as EOS where all is empty.
            first = (self.sequences[:, 0, :1] == self.bos) & self.mask[:, 0, 1:2]
            twice = first.numel() > 1 and bool(first.all())
            rule = "without BOS in front, which `inputs` puts there (`targets[:, 1:]` leaves it out)"
            checks.must(not twice, "targets", rule, f"{self.bos} first")
        if self.read is None:
            return self.shifted(self.bos)
        self.wait()
        return self.read.unsqueeze(1)

    def shifted(
        self,
        bos: int,
    ) -> Tensor:  # (B, K', T)
        """Decoder inputs for teacher forcing: BOS, y_1 .. y_{T-1}."""
        checks.at_least("bos", bos, 0)
        self.wait()
        return torch.cat([torch.full_like(self.sequences[..., :1], bos), self.sequences[..., :-1]], -1)


@dataclass(frozen=True, eq=False)
class Loss:
    """The result of an objective.

    Examples:
        >>> import seqsmooth as ss
        >>> logits = torch.tensor([[[3.0, 0.0, 0.0, 0.0], [0.0, 9.0, 9.0, 0.0]]])
        >>> loss = ss.label_smoothing(0.1)(logits, torch.tensor([[0, -100]]))
        >>> int(loss.tokens), f"{loss.nll:.4f}"  # ln(1 + 3 / e^3) of the one position that counts
        (1, '0.1392')
        >>> f"{loss.total - loss.nll:.4f}"  # 3/4 of the share that is spread costs 3 each
        '0.2250'
    """

    total: Tensor  # (), or (B, T) where not reduced
    """What to minimise: a scalar, or with `reduction="none"` one number a position of the decoded sequences."""
    nll: Tensor  # (), or (B, T) likewise
    """The unsmoothed negative log-likelihood of the ground truth, reduced alike, without gradient."""
    tokens: Tensor  # ()
    """Number of ground-truth positions in this call."""
    ess: Tensor  # ()
    """Effective number of samples of an item, (sum w)^2 / sum w^2, on average; infinite where nothing is sampled."""

    if not TYPE_CHECKING:  # or else a checker would take every name for one of ours

        def __getattr__(self, name: str) -> NoReturn:
            """Called for what is not there: `loss.backward()` is what people try first."""
            raise AttributeError(f"A `Loss` has no `{name}`: it is a record, and `loss.total` the tensor to minimise.")


def measured(truth: Truth, reading: Reading, *rows: Rows) -> Measure:
    """The lazy measure that a kernel has read off the targets; `rows` are of shape (B, 1, T, J)."""
    truth.keep(reading)
    target = SoftTarget.unchecked(reading.ids, reading.weights, rows)
    return Measure(reading.tokens, reading.mask, reading.whole, target, reading.ess, reading.apart)


def stack_atoms(
    truth: Truth,
    draws: Draws,
    weights: Tensor,  # (B, L) of the draws
    alpha: float,
    *,
    lazy: bool,
    ess: Tensor,  # ()
) -> Measure:
    """The measure (1 - alpha) delta(y*) + alpha sum_l w_l delta(y^l), over one prefix or over each atom's own."""
    weights = torch.cat([torch.full_like(weights[:, :1], 1 - alpha), alpha * weights], 1)
    if lazy:
        kept = torch.where(draws.mask, draws.tokens, IGNORED)
        slots = torch.cat([truth.positions.labels.unsqueeze(1), kept], 1).transpose(1, 2).unsqueeze(1)
        target = SoftTarget(slots, weights[:, None, None, :].expand(slots.shape))
        return Measure(truth.tokens.unsqueeze(1), truth.mask.unsqueeze(1), torch.ones_like(weights[:, :1]), target, ess)
    longer = draws.tokens.shape[-1] - truth.tokens.shape[-1]
    mask = torch.cat([F.pad(truth.mask, (0, longer)).unsqueeze(1), draws.mask], 1)
    tokens = torch.cat([F.pad(truth.tokens, (0, longer)).unsqueeze(1), draws.tokens], 1)
    slots = torch.where(mask, tokens, IGNORED).unsqueeze(-1)
    target = SoftTarget(slots, weights[:, :, None, None].expand(slots.shape))
    return Measure(torch.where(mask, tokens, truth.specials.filler), mask, weights, target, ess)
