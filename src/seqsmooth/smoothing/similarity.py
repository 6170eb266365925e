"""`Similarity`: the paper's token-level smoothing by word embeddings, and its rare-token promotion."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable
from seqsmooth.smoothing.law import checksum
from seqsmooth.smoothing.model_matrix import Matrix, model_vectors
from seqsmooth.smoothing.records import Setting
from seqsmooth.smoothing.specials import Specials
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.smoothing.token_matrix import (
    KeptMatrix,
    Mode,
    Nearest,
    TopTail,
    check_choices,
    check_shapes,
    draw_from,
    find_nearest,
    keep,
    multiply,
)
from seqsmooth.smoothing.token_vectors import Missing, apart, check_counts, unit_rows


class Similarity(TokenLaw):
    """r(v|y) proportional to exp(r(v, y) / tau), r the cosine of two embeddings: Eq. 13 and, with `beta`, Eq. 14.

    r^freq(v, y) = cos(v, y) - beta * min(f_v / f_y, f_y / f_v) promotes rare tokens around frequent ones and the other
    way round. A token without an embedding keeps all its mass and gets none; PAD and BOS are always such tokens.

    Temperatures are in cosine units as in the paper. The authors' code has (cos - 1) / 2 and beta / tau: its
    tau_word .15 is 0.30 here, and its tau_word .09 with promote_rarity 1 is tau = beta = 0.18 here.

    Args:
        embeddings: one vector a token.
        tau: temperature. To infinity it gives `Uniform`; to 0, `Dirac` if `beta` is 0 and no two vectors are parallel.
        beta: weight of the frequency term, in the units of the cosine.
        counts: how often each token occurs, needed where `beta` > 0.
        alpha: the share of each token's mass that is spread.
        missing: tokens that have no embedding: their ids, a mask over the vocabulary, or "zeros" for all-zero rows.
        mode: "dense" is exact; "sampled" draws k tokens from each row, an unbiased estimate of it; "top-k" keeps the k
            largest entries of each row, and `dropped` says what that loses.
        k: tokens a row, for "sampled" and "top-k".
        tail: "renormalise" or "zero", what "top-k" does about the mass it drops.
        stored: keep the V x V table; by default up to 20,000 tokens, and beyond that, on a CPU, the rows of the tokens
            met so far, up to 1.6 GB. False keeps nothing. `torch.float16` keeps the table in half the memory, read in
            half the time, each entry off by 0.05 % or, if it is small, by 3e-8.
        kinds: a small number for each token: mass stays within a kind, as that of pieces which begin a word. A negative
            one is a token without company, like a `missing` one.

    Examples:
        >>> law = Similarity(torch.eye(2), tau=1.0)
        >>> law.rows(torch.tensor([0]))  # e / (e + 1) and 1 / (e + 1)
        tensor([[0.7311, 0.2689]])
    """

    name = "similarity"
    keeps_empty: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True
    units: Tensor
    known: Tensor
    counts: Tensor | None

    def __init__(
        self,
        embeddings: Tensor,  # (V, D)
        tau: float,
        beta: float = 0.0,
        counts: Tensor | None = None,  # (V,)
        alpha: float = 1.0,
        *,
        missing: Missing = (),
        mode: Mode = "dense",
        k: int | None = None,
        tail: TopTail = "renormalise",
        stored: bool | torch.dtype | None = None,
        kinds: Tensor | None = None,  # (V,) int64
    ) -> None:
        super().__init__(alpha)
        checks.floats("embeddings", embeddings)
        checks.shape("embeddings", embeddings, None, None, letters="(V, D)")
        self.tau = checks.positive("tau", tau)
        self.beta = checks.non_negative("beta", beta)
        checks.must(beta <= 1e6, "beta", "at most 1e6, in units of the cosine", beta)
        check_choices(mode, k, tail, stored, embeddings.shape[0])
        self.mode: Mode = mode
        self.k = k
        self.tail: TopTail = tail
        self.stored = stored
        self.nearest: Nearest = find_nearest
        units, known = unit_rows(embeddings.detach(), missing)
        self.scale, self.kinds = 1.0, 0
        if kinds is not None:
            units, known, self.scale = apart(units, known, kinds, self.tau)
            self.kinds = units.shape[1] - embeddings.shape[1]
        self.register_buffer("units", units, persistent=False)
        self.register_buffer("known", known, persistent=False)
        self.register_buffer("counts", check_counts(counts, self.beta, units), persistent=False)

    @classmethod
    def from_model(
        cls,
        model: nn.Module,
        tau: float,
        *,
        matrix: Matrix | str = "input",
        centred: bool = True,
        rank: int | None = None,
        k: int | None = None,
        beta: float = 0.0,
        counts: Tensor | None = None,  # (V,)
        alpha: float = 1.0,
        min_count: int = 0,
        missing: Missing = "zeros",
        kinds: Tensor | None = None,  # (V,) int64
        stored: bool | torch.dtype | None = None,
    ) -> Similarity:
        """The law of a model's own embeddings, as they are now: no others are needed, and any V has them.

        Args:
            model: any module with an `nn.Embedding` or a linear head, or with Hugging Face's `get_input_embeddings`.
            tau: temperature.
            matrix: "input", "output", or the dotted name of a module or parameter where these are not clear.
            centred: take the mean vector off first, which all tokens share and which makes all cosines alike.
            rank: keep so many principal components of the vectors, for the memory and time of large models; all where
                None.
            k: keep the k nearest of each token ("top-k"); exact where None.
            beta: weight of the frequency term.
            counts: how often each token occurs.
            alpha: the share of each token's mass that is spread.
            min_count: tokens that occur less often keep their mass and get none: their vectors were hardly trained.
            missing: tokens without a vector; all-zero rows, as of `padding_idx`, by default.
            kinds: mass stays within a kind, see `seqsmooth.text.subword_kinds`.
            stored: as above.

        Examples:
            >>> law = Similarity.from_model(nn.Embedding(10, 4), tau=0.2, k=3)
            >>> law.vocab_size, law.mode
            (10, 'top-k')
        """
        vectors, known = model_vectors(
            model, matrix, centred=centred, rank=rank, missing=missing, counts=counts, min_count=min_count
        )
        mode: Mode = "dense" if k is None else "top-k"
        return cls(vectors, tau, beta, counts, alpha, missing=~known, mode=mode, k=k, stored=stored, kinds=kinds)

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.units.shape[0]

    def prepare(self, setting: Setting) -> KeptMatrix:
        """The matrix of the law, or what is kept of it, without mass for special tokens."""
        return keep(self.table_of(setting), self.alpha, self.mode, self.k, self.tail, self.stored, self.nearest)

    def table_of(self, setting: Setting | None = None) -> SimilarityTable:
        """S with rows that are computed when they are needed; no mass for the special tokens of a setting."""
        known = self.known
        if setting is not None and (unsmoothed := setting.specials.ids("unsmoothed")):
            known = known.clone()
            for token in unsmoothed:
                known[token] = False
        return SimilarityTable(self.units, known, self.tau / self.scale, self.beta / self.scale, self.counts)

    @torch.no_grad()
    def take(self, other: Similarity) -> None:
        """Take over the vectors of another law, in place."""
        checks.must(self.alpha == other.alpha, "other", f"a law with alpha = {self.alpha}", other.alpha)
        names = ("units", "known", "counts")
        check_shapes(self, other, names)  # all, before anything is written over
        for name in names:
            mine = getattr(self, name)
            if mine is not None:
                mine.copy_(getattr(other, name))

    @property
    def dropped(self) -> Tensor:  # (V,)
        """The mass of each row that "top-k" leaves out, before any renormalising; 0 in the other modes.

        Special tokens are ordinary here; `objective.token_tables.masses` has the mass that an objective drops.
        """
        if self.mode != "top-k":
            return self.units.new_zeros(self.vocab_size)
        masses = self.prepare(Setting(Specials())).masses
        assert masses is not None
        return masses

    def rows(
        self,
        tokens: Tensor,  # (...)
        setting: Setting | None = None,
    ) -> Tensor:  # (..., V)
        """S in full for some tokens, the top-k one if that is the mode; `setting` is that of an objective."""
        checks.integers("tokens", tokens)
        checks.ids_below("tokens", tokens, self.vocab_size)
        rows = self.table_of(setting).rows(tokens.flatten())
        if self.mode == "top-k":
            assert self.k is not None
            best = rows.topk(self.k, -1)
            values = best.values / best.values.sum(-1, keepdim=True) if self.tail == "renormalise" else best.values
            rows = torch.zeros_like(rows).scatter_(-1, best.indices, values)
        return rows.view(*tokens.shape, self.vocab_size)

    def spread(self, target: SoftTarget, setting: Setting, generator: Generator | None) -> SoftTarget:
        """A row of M for each slot, or one of S beside it; rows of other tables are multiplied by M."""
        kept = _matrix_of(setting)
        units = self._buffers["units"]  # `self.units` takes longer
        assert units is not None
        table = kept.matrix(units, self._buffers["counts"])
        rows: tuple[Rows, ...] = ()
        if target.rows:
            rows = tuple(
                row if row.table.mixed else Rows(self.mix(row.table, setting), row.index, row.weights)
                for row in target.rows
            )
        if self.mode == "dense" and kept.in_full:  # rows of M say all, and nothing has to be weighed at each step
            ids, weights = target.ids, target.weights
            return SoftTarget(ids.narrow(-1, 0, 0), weights.narrow(-1, 0, 0), (Rows(table, ids, weights), *rows))
        stays = (1 - self.alpha) * target.weights
        if self.mode != "sampled":
            return SoftTarget(target.ids, stays, (*kept.rows(table, target.ids, self.alpha * target.weights), *rows))
        assert self.k is not None
        tokens = target.ids.flatten()
        drawn = draw_from(kept, table, tokens.clamp_min(0), self.k, self.units.dtype, generator)
        drawn = drawn.masked_fill(tokens.unsqueeze(-1) < 0, IGNORED).view(*target.ids.shape, self.k).flatten(-2)
        weights = (self.alpha / self.k * target.weights).repeat_interleave(self.k, -1)
        return SoftTarget(torch.cat([target.ids, drawn], -1), torch.cat([stays, weights], -1), rows)

    def mix(self, table: RowTable, setting: Setting) -> DenseTable:
        """The rows of a table times M, in full: its mass is then dense anyway."""
        kept = _matrix_of(setting)
        share = 1.0 if self.mode == "dense" and kept.in_full else self.alpha  # then M is kept, and S otherwise
        with torch.autocast(self.units.device.type, enabled=False):
            product = multiply(table, kept, kept.matrix(self.units, self.counts), share, self.units)
            return DenseTable(product, product.sum(-1), mixed=True)

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """The law and a checksum of its embeddings."""
        known = self.table_of(setting).known
        vectors = (self.units, known) if self.counts is None else (self.units, known, self.counts)
        chosen: dict[str, object] = {"V": self.vocab_size, "D": self.units.shape[1], "crc": checksum(*vectors)}
        chosen["tau"] = self.tau
        if self.kinds:
            chosen["kinds"] = self.kinds
        if self.stored == torch.float16:
            chosen["stored"] = "float16"
        if self.beta > 0:
            chosen["beta"] = self.beta
        if self.k is not None:
            chosen[self.mode] = self.k
        if self.mode == "top-k":
            chosen["tail"] = self.tail
        return chosen | {"alpha": self.alpha}

    def remark(self, setting: Setting) -> str:
        """The mass that "top-k" drops."""
        masses = _matrix_of(setting).masses if self.mode == "top-k" else None
        return "" if masses is None else f"drops {float(masses.mean()):.1%} of the mass"


def _matrix_of(setting: Setting) -> KeptMatrix:
    """The matrix of the token law of an objective."""
    assert isinstance(setting.token_tables, KeptMatrix)
    return setting.token_tables
