"""`Objective`: sequence law x token law x prefix = one loss."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.cross_entropy import Job, Reduction, RowLosses, check_positions, losses, reduced_job
from seqsmooth.ops.head import Head, check_head
from seqsmooth.ops.sampling import Generator, check_generator
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.ops.targets import aim
from seqsmooth.smoothing.dirac import Dirac
from seqsmooth.smoothing.ground_truth import GroundTruth
from seqsmooth.smoothing.law import Precise, agreed_vocab_size
from seqsmooth.smoothing.records import Loss, Setting, Truth
from seqsmooth.smoothing.sequence_law import SequenceLaw
from seqsmooth.smoothing.specials import Specials
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.version import __version__

_KEYS = itertools.count()
_FIXED = ("sequence", "token", "specials", "lazy", "vocab_size", "ignore_index")
"""Attributes that tables have been prepared for."""


class Objective(Precise):
    """loss(x, y*) = sum_k w_k sum_t H(M(.|y^k_t), p(.|h_t)), H(q, p) = - sum_v q(v) ln p(v), less gamma H(p).

    Three independent choices: `sequence` gives the sequences y^k and their weights w_k, `token` the spread M around
    each token, and `lazy` whose prefix h_t is computed from: the ground truth's, in one forward pass for all (Eq. 19),
    or each sequence's own (Eq. 18).

    Args:
        sequence: `GroundTruth` (default), `Hamming`, `Edit` or `Rewarded`.
        token: `Dirac` (default), `Uniform`, `Similarity` or `Teacher`.
        lazy: decode the ground truth only.
        entropy: gamma, weight of the entropy of the model's own predictions, which is rewarded (Pereyra et al. 2017).
        specials: ids of special tokens; none by default.
        vocab_size: V, needed by `propose` only where nothing else tells it.
        ignore_index: a negative id that marks targets which are no positions, beside PAD.

    The laws are parts of the objective: one law in two objectives is on one device with both, and its choices must not
    change any more.

    Examples:
        >>> import seqsmooth as ss
        >>> objective = ss.Objective(token=ss.Uniform(alpha=0.1))
        >>> logits, targets = torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.long)
        >>> loss = objective(logits, targets)
        >>> round(loss.total.item(), 4), int(loss.tokens)  # ln 5 a token
        (1.6094, 6)
    """

    def __init__(
        self,
        sequence: SequenceLaw | None = None,
        token: TokenLaw | None = None,
        *,
        lazy: bool = True,
        entropy: float = 0.0,
        specials: Specials | None = None,
        vocab_size: int | None = None,
        ignore_index: int = IGNORED,
    ) -> None:
        super().__init__()
        sequence = GroundTruth() if sequence is None else sequence
        token = Dirac() if token is None else token
        checks.must(
            isinstance(sequence, SequenceLaw), "sequence", "a sequence law, as Hamming", checks.describe(sequence)
        )
        checks.must(isinstance(token, TokenLaw), "token", "a token law, as Similarity", checks.describe(token))
        checks.flag("lazy", lazy)
        checks.whole("ignore_index", ignore_index)
        rule = "negative (a padding id of the vocabulary goes into `specials`, as Specials(pad=0))"
        checks.must(ignore_index < 0, "ignore_index", rule, ignore_index)
        self.specials = Specials() if specials is None else specials
        checks.must(
            isinstance(self.specials, Specials),
            "specials",
            "a Specials, as Specials(pad=0)",
            checks.describe(specials),
        )
        if token.true_prefix_only and not sequence.only_truth:
            rule = f"True with {type(token).__name__}, which knows the ground truth's prefix only"
            checks.must(lazy, "lazy", rule, lazy)
        self.lazy = lazy
        self.entropy = checks.non_negative("entropy", entropy)
        self.ignore_index = ignore_index
        self.vocab_size = agreed_vocab_size(vocab_size, sequence, token)
        if self.vocab_size is not None:
            self.specials.check(self.vocab_size)
        self.key = next(_KEYS)
        self.sequence, self.token = sequence, token
        setting = Setting(self.specials, self.vocab_size, lazy, token)
        self.token_tables = token.prepare(setting)
        self.sequence_tables = sequence.prepare(replace(setting, token_tables=self.token_tables))
        self._reading = setting.reading(ignore_index)
        self._collect()

    def _collect(self) -> None:
        """Note where the laws and all tensors are: a module looks its parts up slowly."""
        sequence, token = self.sequence, self.token
        tables = self.token_tables, self.sequence_tables
        self.setting = Setting(self.specials, self.vocab_size, self.lazy, token, *tables)
        self._laws = sequence, token
        self._short = sequence.only_truth and _has_short_way(sequence, token)
        self._places = [
            (module._buffers, name)
            for module in self.modules()
            for name, value in module._buffers.items()
            if value is not None
        ]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "setting" in self.__dict__:
            raise AttributeError(f"An objective keeps its `{name}`: make another one with Objective({name}=...).")
        super().__setattr__(name, value)

    def propose(
        self,
        targets: Tensor,  # (B, T) int64
        *,
        references: Tensor | None = None,  # (B, R, S) int64, padded with PAD or any negative id
        generator: Generator | None = None,
        stream: torch.cuda.Stream | None = None,
    ) -> Candidates:
        """Decide what to decode, and what should then be predicted.

        Args:
            targets: ground-truth sequences, padded with PAD or `ignore_index`.
            references: all ground-truth sequences of each item, for the pool "refs" and for rewards; an item with fewer
                of them has rows of padding.
            generator: source of the samples; torch's global one by default. Inside a CUDA graph, one of your own must
                be registered with the graph before the capture: `graph.register_generator_state(generator)`. A `Philox`
                need not, and a replay waits for nothing.
            stream: on a GPU, another stream to draw and score on, while the current one goes on with the model, which
                needs nothing of the candidates when lazy. The loss waits for it; call `candidates.wait()` before
                reading their tensors yourself.
        """
        if stream is None:
            return self._without_grad(targets, references, generator, self.setting)
        rule = "a torch.cuda.Stream"
        checks.must(isinstance(stream, torch.cuda.Stream), "stream", rule, checks.describe(stream))
        # It starts after all that came before on the current stream. So memory that it takes over from an earlier step
        # is no longer read there, and needs no `record_stream`.
        stream.wait_stream(torch.cuda.current_stream(stream.device))
        with torch.cuda.stream(stream):
            candidates = self._without_grad(targets, references, generator, self.setting)
        return replace(candidates, stream=stream, given=(targets, references))

    def forward(
        self,
        logits: Tensor,  # (B, K', T, V), or (B, T, V) where K' = 1
        candidates: Candidates | Tensor,  # or plain targets (B, T)
        *,
        generator: Generator | None = None,
        reduction: Reduction = "mean",
        num_items: Tensor | float | None = None,  # ()
        inplace: bool = False,
    ) -> Loss:
        """The loss of decoded candidates.

        Args:
            logits: the model's scores after reading `candidates.inputs`.
            candidates: from `propose`; or plain targets, where lazy and no references are needed.
            generator: source of the samples when `candidates` are plain targets.
            reduction: "mean" over the ground-truth tokens of the batch, "sum", or "none": one number a position (B, T).
            num_items: what "mean" divides by instead: the ground-truth tokens of the whole step, under gradient
                accumulation or data parallelism.
            inplace: as in `cross_entropy`: the gradient may take the memory of the logits.
        """
        checks.floats("logits", logits)
        if logits.dim() not in (3, 4):
            raise checks.wrong("logits", "of shape (B, K', T, V) or (B, T, V)", tuple(logits.shape))
        vocab_size = logits.shape[-1]
        self._check_vocabulary("logits", vocab_size)
        ready = self._ready(candidates, generator, vocab_size)
        check_positions("logits", logits, ready.target, "V", single=logits.dim() == 3)
        ready.target.check(vocab_size, name="logits")
        job = self._job(ready, reduction, num_items, inplace=inplace)
        return _loss(losses(logits, job), ready, job)

    def head(
        self,
        hidden: Tensor,  # (B, K', T, D), or (B, T, D) where K' = 1
        weight: Tensor,  # (V, D)
        candidates: Candidates | Tensor,  # or plain targets (B, T)
        bias: Tensor | None = None,  # (V,)
        *,
        generator: Generator | None = None,
        reduction: Reduction = "mean",
        num_items: Tensor | float | None = None,  # ()
        chunk: int | None = None,
    ) -> Loss:
        """The loss from hidden states: at most `chunk` rows of logits are ever in memory."""
        check_head(hidden, weight, bias, chunk)
        if hidden.dim() not in (3, 4):
            raise checks.wrong("hidden", "of shape (B, K', T, D) or (B, T, D)", tuple(hidden.shape))
        self._check_vocabulary("weight", weight.shape[0])
        head = Head(hidden, weight, bias, chunk, begin=reduction != "none")
        ready = self._ready(candidates, generator, weight.shape[0])
        check_positions("hidden", hidden, ready.target, "D", single=hidden.dim() == 3)
        ready.target.check(weight.shape[0], name="weight")
        job = self._job(ready, reduction, num_items)
        return _loss(head.losses(job), ready, job)

    def signature(self) -> str:
        """One line that makes two runs comparable; its last word is the arithmetic (see `dispatch.path`)."""
        parts = [
            f"seq:({self.sequence.signature(self.setting)})",
            f"tok:({self.token.signature(self.setting)})",
            f"lazy:{'yes' if self.lazy else 'no'}",
            *([f"entropy:{self.entropy}"] if self.entropy else []),
            *([f"V:{self.vocab_size}"] if self.vocab_size is not None else []),
            *([f"ignore:{self.ignore_index}"] if self.ignore_index != IGNORED else []),
            f"specials:({self.specials})",
            f"version:{__version__}",
            f"kernels:{dispatch.path()}",
        ]
        return "|".join(parts)

    def extra_repr(self) -> str:
        """The arguments that are not laws, and what the laws remark."""
        entropy = f", entropy={self.entropy:g}" if self.entropy else ""
        remarks = [f"; {remark}" for law in (self.sequence, self.token) if (remark := law.remark(self.setting))]
        return f"lazy={self.lazy}{entropy}, specials=({self.specials}){''.join(remarks)}"

    def truth(
        self,
        targets: Tensor,  # (B, T)
        references: Tensor | None = None,  # (B, R, S)
        setting: Setting | None = None,
    ) -> Truth:
        """Targets as this objective reads them: their `mask`, `tokens` and decoder `inputs`."""
        return Truth(targets, *self._reading, self.key, references, setting or self.setting)

    @torch.no_grad()
    def change_rate(
        self,
        targets: Tensor,  # (B, T)
        references: Tensor | None = None,  # (B, R, S)
    ) -> Tensor:  # ()
        """The share of positions that the sequence law changes, before its `alpha`; 0 if the law cannot tell.

        It is the law's own probability where that has a closed form. Where lengths change it is measured on one sample
        of each sequence, with a generator of its own: training goes on as if nobody had looked.
        """
        return self.sequence.change_rate(self.truth(targets, references))

    def _without_grad(
        self, targets: Tensor, references: Tensor | None, generator: Generator | None, setting: Setting
    ) -> Candidates:
        """Propose with no graph: `torch.no_grad` takes longer than all the checks."""
        if self._modules["token"] is not self.setting.token:  # in a replica of `nn.DataParallel`
            self._collect()
            setting = replace(self.setting, vocab_size=setting.vocab_size)
        before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            return self._propose(targets, references, generator, setting)
        finally:
            torch._C._set_grad_enabled(before)

    def _propose(
        self,
        targets: Tensor,  # (B, T)
        references: Tensor | None,  # (B, R, S)
        generator: Generator | None,
        setting: Setting,
    ) -> Candidates:
        if generator is not None:
            check_generator(generator)
        checks.integers("targets", targets)
        if targets.dim() != 2:
            checks.shape("targets", targets, None, None, letters="(B, T)")
        self._check_device("targets", targets)
        if references is not None:
            checks.integers("references", references)
            if references.dim() != 3 or references.shape[0] != targets.shape[0]:
                checks.shape("references", references, targets.shape[0], None, None, letters="(B, R, S)")
            checks.device("references", references, targets.device)
            references = references if references.dtype is torch.int64 else references.long()
        truth = self.truth(targets if targets.dtype is torch.int64 else targets.long(), references, setting)
        if checks.visible(targets):
            self._check_values(truth)
        sequence, token = self._laws
        candidates = token.smooth_truth(truth) if self._short else None
        if candidates is None:
            candidates = sequence.measure(truth, lazy=self.lazy, generator=generator)
            target = token.spread(candidates.target, setting, generator)
            candidates = aim(candidates, target if token.keeps_empty else target.where(candidates.mask))
        if candidates.maker == self.key:
            return candidates
        return replace(candidates, maker=self.key, bos=self.specials.bos)  # of a law that is not ours

    def _check_values(self, truth: Truth) -> None:
        """Look at the targets themselves, where that is free."""
        real, vocab_size = truth.mask, truth.setting.vocab_size
        if vocab_size is not None:
            checks.ids_below("targets", truth.targets, vocab_size, where=real)
            if truth.references is not None:
                checks.ids_below("references", truth.references, vocab_size, where=truth.references >= 0)
        whole = self.lazy or not bool((~real[:, :-1] & real[:, 1:]).any())
        checks.must(whole, "targets", "free of ignored positions before real ones when lazy is False", "not")

    def _ready(self, candidates: Candidates | Tensor, generator: Generator | None, vocab_size: int) -> Candidates:
        """Candidates as they are; plain targets proposed on the spot."""
        if isinstance(candidates, Candidates):
            ours = candidates.maker == self.key
            checks.must(ours, "candidates", "from this objective's `propose`", "from another's")
            return candidates
        if not isinstance(candidates, Tensor):
            raise checks.wrong("candidates", "from `propose`, or targets", checks.describe(candidates))
        single = self.lazy or self.sequence.only_truth
        checks.must(
            single, "candidates", "from `propose` when lazy is False, so that samples are decoded", "plain targets"
        )
        setting = self.setting
        if setting.vocab_size is None:  # which the model tells, then
            self.specials.check(vocab_size)
            setting = replace(setting, vocab_size=vocab_size)
        return self._without_grad(candidates, None, generator, setting)

    def _job(
        self,
        candidates: Candidates,
        reduction: Reduction,
        num_items: Tensor | float | None,  # ()
        *,
        inplace: bool = False,
    ) -> Job:
        """The job for the logits of all prefixes, put together on the stream that computes the candidates."""
        checks.flag("inplace", inplace)
        stream = candidates.stream
        if stream is not None:
            if self.entropy != 0:  # whose weights may take over memory that the current stream still reads
                stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                job = self._job(replace(candidates, stream=None), reduction, num_items, inplace=inplace)
            return replace(job, stream=stream)
        weights = None
        if self.entropy != 0:  # gamma for each row of logits, as its prefix weighs
            weights = (self.entropy * candidates.weights).unsqueeze(-1).expand_as(candidates.sequences).flatten()
        return reduced_job(
            candidates.target,
            reduction,
            num_items,
            count=candidates.count,
            labels=candidates.labels,
            entropy_weights=weights,
            inplace=inplace,
        )

    def _check_device(self, name: str, value: Tensor) -> None:
        for buffers, key in self._places:
            home = buffers[key]
            assert home is not None
            checks.device(name, value, home.device, " of the objective (`objective.to(...)` moves it)")

    def _check_vocabulary(self, name: str, vocab_size: int) -> None:
        if self.vocab_size not in (None, vocab_size):
            raise checks.wrong(name, f"over {self.vocab_size} tokens", f"over {vocab_size}")


def _loss(losses: RowLosses, candidates: Candidates, job: Job) -> Loss:
    """The results of a job; those of each position are summed over the prefixes of its item."""
    total, nll = losses
    if not job.reduced:
        total, nll = (part.view_as(candidates.sequences).sum(1) for part in losses)
    return Loss(total, nll, candidates.count, candidates.ess)


def _has_short_way(sequence: SequenceLaw, token: TokenLaw) -> bool:
    """Whether `smooth_truth` says what `measure` and `spread` would: neither has been overridden since."""
    spreads = next(kind for kind in type(token).__mro__ if "spread" in vars(kind))
    return type(sequence).measure is GroundTruth.measure and "smooth_truth" in vars(spreads)
