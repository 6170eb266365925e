"""Batches of a split: few shapes, every item once an epoch, the same order from the same seed on any device."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqsmooth.data.batch import Batch
from seqsmooth.data.buckets import make_buckets
from seqsmooth.data.sources import Epoch, Resident, Streamed, Widths, resident_bytes
from seqsmooth.data.split import Split
from seqsmooth.ops import checks

RESIDENT_SHARE = 0.4  # of the memory of a device that is free
_AHEAD = 4  # batches that the thread may be ahead


class Batches:
    """One epoch after another: each `iter` goes on with the next.

    The order follows from the seed and the number of the epoch. Batches are full: where a bucket does not fill its last
    one, rows whose targets are all PAD do, so that shapes never vary and nothing is left out or seen twice.

    `state_dict` between two batches, `load_state_dict` in another process: it goes on with the next batch.

    Args:
        split: the items.
        vocabulary: the greatest number of words on either side.
        batch_size: targets in a batch, over all ranks; capped at the number of targets, rounded up to a multiple of
            `world`.
        shuffle: whether each epoch has an order of its own; otherwise it is that of the corpus within each shape.
        seed: the orders follow from it.
        references: the most references beside each target; 0 for none.
        captions_per_image: a batch is of images with so many of their captions each; by default of single captions.
        max_words: cut targets and sources after so many words; EOS comes after them.
        fraction: of the items, drawn by the seed alone: what is in a smaller one is in a larger one, too.
        buckets: the greatest number of shapes.
        rank: of this process.
        world: the number of processes; each gets its part of every batch, all of one shape.
        device: where batches are wanted; the host by default.
        resident: whether the corpus is copied to the device; by default on a GPU where `resident_limit` allows it.
            Otherwise, for a GPU, a thread makes batches ahead, in pinned memory.
        resident_limit: in bytes; 40 % of what is free on a GPU by default.

    Examples:
        >>> import tempfile
        >>> from seqsmooth.data import Side, write_pairs
        >>> pairs = [("ein Hund", "a dog"), ("zwei Hunde", "two dogs"), ("ein Mann", "a man")]
        >>> side = Side(min_count=1)
        >>> corpus = write_pairs(tempfile.mkdtemp() + "/pairs", {"train": pairs}, source=side, target=side)
        >>> batches = corpus.batches("train", batch_size=2, seed=1)
        >>> [batch.targets.shape for batch in batches]  # three pairs: the second batch is filled up
        [torch.Size([2, 3]), torch.Size([2, 3])]
        >>> sorted(item for batch in batches for item in batch.items.tolist())  # the next epoch; -1 is what fills
        [-1, 0, 1, 2]
    """

    def __init__(
        self,
        split: Split,
        vocabulary: int,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        references: int = 5,
        captions_per_image: int | None = None,
        max_words: int | None = None,
        fraction: float = 1.0,
        buckets: int = 6,
        rank: int = 0,
        world: int = 1,
        device: torch.device | str | None = None,
        resident: bool | None = None,
        resident_limit: int | None = None,
    ) -> None:
        checks.at_least("batch_size", batch_size, 1)
        checks.at_least("seed", seed, 0)
        checks.at_least("references", references, 0)
        checks.at_least("world", world, 1)
        checks.must(0 <= rank < world, "rank", f"in [0, {world})", rank)
        self.copies = 1 if captions_per_image is None else checks.at_least("captions_per_image", captions_per_image, 1)
        whole = batch_size % (self.copies * world) == 0
        checks.must(whole, "batch_size", f"a multiple of {self.copies} captions an image x {world} ranks", batch_size)
        checks.must(len(split.targets) > 0, "split", "one with targets", "one without")
        self.split = split
        self.grouped = captions_per_image is not None
        self.units = batch_size // self.copies
        self.shared = self.copies if split.pictures else 1
        self.shuffle, self.seed, self.rank, self.world = shuffle, seed, rank, world
        self.device = torch.device("cpu" if device is None else device)
        self._lengths = _cut(split.targets.lengths, max_words)
        self.fraction = checks.positive("fraction", checks.fraction("fraction", fraction))
        self._arrange(buckets, max_words)
        count = min(references, split.most)
        width = int(self._lengths.max())
        if resident is None:
            size = resident_bytes(split, self._widths, count, width, vocabulary)
            resident = size <= (_free(self.device) if resident_limit is None else resident_limit)
        self.resident = resident
        self._source: Resident | Streamed
        if self.resident:
            self._source = Resident(split, self._widths, count, width, self.device, vocabulary, self.shared)
        else:
            self._source = Streamed(split, self._widths, count, width, self.shared)
        self._next = (0, 0)  # the epoch and the batch that the next `iter` begins with
        self._now = (0, 0)  # those that the next batch will be
        self._begun: int | None = None  # the epoch whose order is known

    def __len__(self) -> int:
        return sum(-(-len(rows) // self.units) for rows in self._members)

    def __iter__(self) -> Iterator[Batch]:
        # A generator: nothing happens before its first batch is asked for, so that a `set_epoch` in between counts.
        epoch, first = self._next
        self._next, self._now = (epoch + 1, 0), (epoch, first)
        if self._begun != epoch:
            self._source.begin(self._order(epoch))
            self._begun = epoch
        ahead = self.device.type != "cpu" and not self.resident
        for number, batch in enumerate(self._ahead(first) if ahead else self._in_turn(first), first + 1):
            self._now = (epoch, number) if number < len(self) else (epoch + 1, 0)
            yield batch

    def shapes(self) -> list[tuple[tuple[tuple[int, ...], ...], int]]:
        """List the distinct shapes of inputs, and T, of all batches."""
        rows = self.units * self.copies // self.world
        features = self.split.features
        shapes = []
        for target, source in self._widths:
            inputs: tuple[tuple[int, ...], ...] = ()
            if source:
                inputs = ((rows, source),)
            elif features is not None:
                varying = features.offsets is not None
                inputs = ((rows // self.shared, *features.shape), *([(rows, features.shape[0])] if varying else []))
            shapes.append((inputs, target))
        return shapes

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin that epoch; one that is to be resumed in its middle still is."""
        if self._next[0] != checks.at_least("epoch", epoch, 0):
            self._next = (epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the batch that come next, and what they depend on."""
        return {"epoch": self._now[0], "batch": self._now[1], **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next `iter` go on from a state; it must be of the same corpus and settings."""
        for name, value in self._identity().items():
            checks.must(state.get(name) == value, f"state[{name!r}]", f"{value!r}, as here", repr(state.get(name)))
        self._next = self._now = (int(state["epoch"]), int(state["batch"]))

    def _identity(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batches": len(self),
            "batch_size": self.units * self.copies,
            "captions_per_image": self.copies if self.grouped else None,
            "targets": len(self.split.targets),
            "fraction": self.fraction,
        }

    def _arrange(self, most: int, max_words: int | None) -> None:
        split = self.split
        target: NDArray[Any] = self._lengths
        item: NDArray[Any] | None = None
        if self.grouped:
            counts = np.diff(split.firsts)
            checks.must(
                bool((counts > 0).all()), "split", "one whose items all have captions", "one with items without"
            )
            target = np.maximum.reduceat(target, split.firsts[:-1])
        lengths = [target]
        if split.sources is not None:
            item = None if self.grouped or split.paired else split.item_of(np.arange(len(target)))
            source = _cut(split.sources.lengths, max_words)
            lengths.append(source if item is None else source[item])
        rows = self._select()
        self.units = min(self.units, -(-len(rows) // self.world) * self.world)
        buckets = make_buckets(np.stack(lengths, 1)[rows], self.units, most)
        self._widths = tuple(Widths(width[0], width[1] if len(width) > 1 else 0) for width in buckets.widths)
        self._members = [rows[buckets.member == number].astype(np.int32) for number in range(len(buckets.widths))]

    def _select(self) -> NDArray[np.int64]:
        """Select the rows, of items or of targets, of the items that the fraction keeps."""
        split = self.split
        count = len(split)
        rows = np.arange(count if self.grouped else len(split.targets))
        if self.fraction == 1:
            return rows
        drawn = np.random.default_rng([self.seed, *b"fraction"]).permutation(count)
        chosen = np.zeros(count, dtype=bool)
        chosen[drawn[: max(1, round(self.fraction * count))]] = True
        return np.flatnonzero(chosen if self.grouped else chosen[split.item_of(rows)])

    def _order(self, epoch: int) -> Epoch:
        """Draw the rows of each batch of an epoch: first the order within each bucket, then that of the batches."""
        source = np.random.default_rng([self.seed, epoch])
        units, bucket = [], []
        for number, members in enumerate(self._members):
            order = source.permutation(members) if self.shuffle else members
            filled = np.full(-(-len(order) // self.units) * self.units, -1, dtype=np.int32)
            filled[: len(order)] = order
            units.append(filled.reshape(-1, self.units))
            bucket.append(np.full(len(units[-1]), number, dtype=np.int8))
        unit, buckets = np.concatenate(units), np.concatenate(bucket)
        if self.shuffle:
            turn = source.permutation(len(unit))
            unit, buckets = unit[turn], buckets[turn]
        none = len(self.split.targets)
        real = np.where(unit < 0, unit[:, :1], unit)  # the inputs of the first row fill up
        if self.grouped:
            targets = self._captions(real, source if self.shuffle else None)  # (batches, units, copies)
            targets = np.where(unit[..., None] < 0, none, targets)
            items = np.broadcast_to(real[..., None], targets.shape)
        else:
            targets = np.where(unit < 0, none, unit)[..., None]
            items = self.split.item_of(real)[..., None]
        tokens = np.append(self._lengths, 0)[targets].sum((1, 2), dtype=np.int64)
        mine = np.s_[:, self.rank :: self.world]
        flat = (len(unit), -1)
        return Epoch(
            items[mine].reshape(flat).astype(np.int32), targets[mine].reshape(flat).astype(np.int32), buckets, tokens
        )

    def _captions(
        self,
        items: NDArray[np.int32],  # (batches, units)
        source: np.random.Generator | None,
    ) -> NDArray[np.int64]:  # (batches, units, copies)
        """Choose captions of each image, different ones where it has enough; where not, they start over."""
        first = self.split.firsts[items]
        count = (self.split.firsts[items + 1] - first)[..., None]
        place = np.broadcast_to(np.arange(self.split.most), (*items.shape, self.split.most))
        if source is not None:
            luck = source.random(place.shape, dtype=np.float32)
            place = np.argsort(np.where(place < count, luck, 2.0), axis=-1)
        turn = np.arange(self.copies) % count
        captions: NDArray[np.int64] = first[..., None] + np.take_along_axis(place, turn, -1)
        return captions

    def _in_turn(self, first: int) -> Iterator[Batch]:
        for number in range(first, len(self)):
            yield self._finish(self._source.batch(number))

    def _finish(self, batch: Batch) -> Batch:
        return batch if self.resident else replace(batch, inputs=self.split.as_read(batch.inputs))

    def _ahead(self, first: int) -> Iterator[Batch]:
        """Yield batches that a thread makes ahead and that are copied while the device works."""
        batches: queue.Queue[Batch | BaseException | None] = queue.Queue(_AHEAD)
        stop = threading.Event()

        def put(value: Batch | BaseException | None) -> None:
            while not stop.is_set():
                with contextlib.suppress(queue.Full):
                    batches.put(value, timeout=0.1)
                    return

        def work() -> None:
            try:
                for number in range(first, len(self)):
                    if stop.is_set():
                        return
                    batch = self._source.batch(number)
                    put(batch.pin_memory() if self.device.type == "cuda" else batch)
                put(None)
            except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits for the batch
                put(error)

        worker = threading.Thread(target=work, name="seqsmooth batches", daemon=True)
        worker.start()
        try:
            while (batch := batches.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield self._finish(batch.to(self.device, non_blocking=True))
        finally:
            stop.set()
            worker.join()


def _free(device: torch.device) -> int:
    """Return how many bytes a corpus may take on a device; 0 on the host, whose page cache has it anyway."""
    return int(RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0


def _cut(lengths: NDArray[np.int32], max_words: int | None) -> NDArray[np.int32]:
    if max_words is None:
        return lengths
    return np.minimum(lengths, checks.at_least("max_words", max_words, 1) + 1)
