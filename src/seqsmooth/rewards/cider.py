"""CIDEr-D."""

from __future__ import annotations

import math
import zlib

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks, dispatch, ngrams
from seqsmooth.ops.native import ngrams as native_ngrams
from seqsmooth.rewards.document_frequencies import (
    DocumentFrequencies,
    agree,
    build_hash_table,
    fits_hash_table,
    lookup,
    weigh,
)
from seqsmooth.rewards.protocol import check_dtype, check_ids


class Cider(nn.Module):
    """CIDEr-D of Vedantam et al. (2015), Eq. 1 and 4, as coco-caption calculates it under the name CIDEr.

    With f(g) the frequency of an n-gram in a sequence and w(g) = f(g) ln(D / max(1, df(g))), D the number of documents,

        10 * mean over n and references r of
            exp(-(|c| - |r|)^2 / (2 sigma^2)) * sum over g of min(w_c(g), w_r(g)) w_r(g) / (||w_c|| ||w_r||)

    where lengths are numbers of bigrams, and a sum is not divided where a norm is zero. A candidate that is its only
    reference scores 10 (if all orders have an n-gram of weight), one that shares no n-gram with any scores 0.

    Args:
        document_frequencies: the frequencies behind the weights, of at least this order. For numbers that compare with
            coco-caption's, count the references of the whole set that is scored.
        order: the length of the longest n-grams.
        sigma: the width of the penalty on the difference in length; infinity for none.
        dtype: the type of the arithmetic, torch.float32 or torch.float64.

    Examples:
        >>> from seqsmooth.rewards import Cider, DocumentFrequencies
        >>> frequencies = DocumentFrequencies.build([[[4, 5, 6, 7]], [[8, 9, 10]]])  # the references of two images
        >>> candidates = torch.tensor([[[4, 5, 6, 7], [8, 9, 10, -1]]])
        >>> Cider(frequencies)(candidates, torch.tensor([[[4, 5, 6, 7]]]))  # itself; nothing in common
        tensor([[10.,  0.]])
    """

    table: Tensor | None

    def __init__(
        self,
        document_frequencies: DocumentFrequencies,
        order: int = 4,
        sigma: float = 6.0,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        given = isinstance(document_frequencies, DocumentFrequencies)
        rule = "a DocumentFrequencies"
        checks.must(given, "document_frequencies", rule, checks.describe(document_frequencies))
        self.order = checks.at_least("order", order, 1)
        rule = f"at most {document_frequencies.order}, the order of `document_frequencies`"
        checks.must(order <= document_frequencies.order, "order", rule, order)
        self.sigma = checks.positive("sigma", sigma)
        self.dtype = check_dtype(dtype)
        self.documents = document_frequencies.documents
        # Whole numbers, so that a change of the precision of the module around this one does not reach them.
        for n in range(order):
            self.register_buffer(f"keys_{n + 1}", document_frequencies.keys[n], persistent=False)
            self.register_buffer(f"counts_{n + 1}", document_frequencies.counts[n], persistent=False)
        self.register_buffer("table", None, persistent=False)
        self._documents: tuple[list[tuple[Tensor, int]], native_ngrams.Documents] | None = None
        self._rarest = math.log(self.documents) ** 2  # the squared weight of an n-gram that no document contains
        self._fusable = dtype == torch.float32 and order <= ngrams.FUSED and fits_hash_table(document_frequencies.keys)
        if self._fusable and dispatch.path() == "triton":
            self._hash_table()  # now, and not at the first call, which may be inside the capture of a graph

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)
        """Score each candidate against the references of its row."""
        check_ids(candidates, references)
        ours, home = candidates.device, self.get_buffer("keys_1").device
        checks.must(ours == home, "candidates", f"on {home}, where this reward is", f"on {ours}")
        if self._fusable and dispatch.uses_kernels(candidates, references):
            from seqsmooth.ops.kernels import cider
            from seqsmooth.ops.kernels.ngrams import fit

            if fit(candidates, references):
                return cider.cider(candidates, references, self._hash_table(), self._rarest, self.order, self.sigma)
        if native_ngrams.fit(candidates, references, self.order, apart=True):
            return native_ngrams.cider(candidates, references, self._sorted(), self.sigma).to(self.dtype)
        return ngrams.in_portions(self._score, candidates, references)

    def _score(
        self,
        candidates: Tensor,  # (B, L, T)
        references: Tensor,  # (B, R, S)
    ) -> Tensor:  # (B, L)
        ranks = ngrams.ordinals(candidates, self.order)
        squares, our_norms = self._weigh(candidates, ranks)
        _, their_norms = self._weigh(references, ngrams.ordinals(references, self.order))
        shared = ngrams.counts(candidates[:, :, None], references[:, None], self.order)
        total = torch.zeros((), dtype=self.dtype, device=candidates.device)
        for n in range(self.order):
            # min(w_c, w_r) w_r of an n-gram is f_r times its squared weight for each occurrence left after clipping.
            clipped = (ranks[n][:, :, None] <= shared[n]) * shared[n]  # (B, L, R, T-n)
            product = (clipped * squares[n][:, :, None]).sum(-1)  # (B, L, R)
            norm = our_norms[n][:, :, None] * their_norms[n][:, None]
            total = total + product / norm.masked_fill(norm == 0, 1)
        bigrams = (ngrams.lengths(candidates) - 1).clamp(min=0)  # (B, L)
        their_bigrams = (ngrams.lengths(references) - 1).clamp(min=0)  # (B, R)
        apart = (bigrams[:, :, None] - their_bigrams[:, None]).to(self.dtype)
        # An absent reference has no n-grams: it adds nothing to the sum and is left out of the number.
        number = (references >= 0).any(-1).sum(-1, keepdim=True).clamp(min=1)
        return 10 / self.order * (total * torch.exp(-((apart / self.sigma) ** 2) / 2)).sum(-1) / number

    def _weigh(
        self,
        ids: Tensor,  # (..., T)
        ranks: list[Tensor],  # for n = 1..order: (..., T-n+1)
    ) -> tuple[list[Tensor], list[Tensor]]:  # for n = 1..order: (..., T-n+1) and (...)
        # The squared weight ln(D / df)^2 of the n-gram at each position, and the norms of the vectors w.
        squares, norms = [], []
        for documents, rank in zip(lookup(ids, *self._trie()), ranks, strict=True):
            square = weigh(documents, self.documents, self.dtype)
            squares.append(square)
            norms.append(((2 * rank - 1).clamp(min=0) * square).sum(-1).sqrt())
        return squares, norms

    def _trie(self) -> tuple[list[Tensor], list[Tensor]]:
        orders = range(1, self.order + 1)
        buffers = self._buffers  # `get_buffer` takes longer than a small batch
        found = [[buffers[f"{name}_{n}"] for n in orders] for name in ("keys", "counts")]
        return [each for each in found[0] if each is not None], [each for each in found[1] if each is not None]

    def _hash_table(self) -> Tensor:
        if self.table is None:
            self.table = build_hash_table(self.documents, *self._trie()).to(self.get_buffer("keys_1").device)
        return self.table

    def _sorted(self) -> native_ngrams.Documents:
        keys, counts = self._trie()
        # Versions tell what was written in place; tensors of inference have none.
        state = [(each, 0 if each.is_inference() else each._version) for each in (*keys, *counts)]
        known = self._documents
        pairs = [] if known is None else zip(known[0], state, strict=True)
        if known is None or any(before[0] is not now[0] or before[1] != now[1] for before, now in pairs):
            whole = agree(self.documents, keys, counts)  # C would read anywhere
            checks.must(whole, "document_frequencies", "as `build` and `load` make them", "of parts that do not agree")
            most = max(int(count.max()) for count in counts)
            squares = weigh(torch.arange(most + 1, device=keys[0].device), self.documents, torch.float64)
            self._documents = known = state, native_ngrams.Documents.of(keys, counts, squares)
        return known[1]

    def extra_repr(self) -> str:
        """List the arguments."""
        return f"documents={self.documents}, order={self.order}, sigma={self.sigma:.12g}"

    def signature(self) -> str:
        """Name the reward exactly."""
        total = 0
        for name, buffer in self.named_buffers(recurse=False):
            if name.startswith(("keys", "counts")):
                total = zlib.crc32(buffer.cpu().numpy().tobytes(), total)
        return f"cider:D|sigma:{self.sigma:.12g}|n:{self.order}|docs:{self.documents}|crc:{total:08x}"
