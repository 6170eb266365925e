"""`Candidates`: what to decode, and what the decoder should then predict."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import SoftTarget


@dataclass(frozen=True, eq=False)
class Candidates:
    """A measure on target sequences, sum_k w_k delta(y^k), laid over the prefixes that are to be decoded.

    Prefix 0 is always the ground truth; lazy candidates have no other (K' = 1). `sequences` are whole target sequences,
    y_1 .. y_T; `inputs` are what a decoder that predicts y_t from y_<t reads.

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

    sequences: Tensor  # (B, K', T) int64; the filler outside the mask
    mask: Tensor  # (B, K', T) bool
    weights: Tensor  # (B, K') weight of each prefix
    target: SoftTarget  # of shape (B, K', T): the tokens to predict; empty outside the mask
    labels: Tensor  # (B, K', T) the ground truth on its own prefix, -100 elsewhere: for the plain NLL
    count: Tensor  # () number of ground-truth positions
    ess: Tensor  # () effective number of samples of an item; infinite where nothing is sampled
    bos: int | None = None
    read: Tensor | None = None  # (B, T) the `inputs` of the ground truth, where a kernel has written them
    maker: int = -1
    """Which objective these are for."""
    stream: torch.cuda.Stream | None = None
    """Where all this is still being computed; None if that was the current stream."""
    given: tuple[Tensor | None, ...] = ()
    """Tensors that this stream may still read."""

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
        return shift(self.sequences, bos)


def shift(
    tokens: Tensor,  # (..., T)
    bos: int,
) -> Tensor:  # (..., T)
    """The inputs of a decoder that predicts these tokens: BOS, and all but the last of them."""
    return F.pad(tokens[..., :-1], (1, 0), value=bos) if tokens.shape[-1] else tokens
