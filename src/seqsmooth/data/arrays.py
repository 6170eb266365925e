"""Arrays on disk that grow while they are written and are memory-mapped when they are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

_HEADER = 128  # bytes: enough for any shape, and a multiple of what numpy aligns to


class ArrayWriter:
    """An .npy file whose first dimension grows, block by block. It is a file of numpy only once it is closed.

    Args:
        path: the file, made anew.
        dtype: of the values; blocks are converted.
        shape: of one row; a number where empty.
    """

    def __init__(self, path: str | os.PathLike[str], dtype: DTypeLike, shape: Sequence[int] = ()) -> None:
        self.path = Path(path)
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.rows = 0
        self._file: BinaryIO = self.path.open("wb")
        self._file.write(b"\0" * _HEADER)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], dtype: DTypeLike, shape: Sequence[int] = ()) -> ArrayWriter:
        """Go on with a file that was not closed, after its last whole row; begin one where there is none."""
        path = Path(path)
        if not path.is_file() or path.stat().st_size < _HEADER:
            return cls(path, dtype, shape)
        writer = cls.__new__(cls)
        writer.path, writer.dtype, writer.shape = path, np.dtype(dtype), tuple(shape)
        size = int(np.prod(writer.shape)) * writer.dtype.itemsize
        writer.rows = (path.stat().st_size - _HEADER) // size
        writer._file = path.open("r+b")
        writer._file.seek(_HEADER + writer.rows * size)
        writer._file.truncate()
        return writer

    def append(self, block: NDArray[Any]) -> None:
        """Write some more rows."""
        block = np.ascontiguousarray(block, dtype=self.dtype)
        if block.shape[1:] != self.shape:
            raise ValueError(f"`block` must be of rows of shape {self.shape}; it is of {block.shape[1:]}.")
        self._file.write(block.data if block.size else b"")
        self.rows += len(block)

    def flush(self) -> None:
        """Hand what was written so far to the system, so that it outlives the process."""
        self._file.flush()

    def close(self) -> None:
        """Write numpy's header, and force the file to the disk."""
        described = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.shape)}
        text = repr(described).encode("latin1")
        magic = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(magic + text.ljust(_HEADER - 11) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is, unfinished; nothing happens where it is closed already."""
        self._file.close()

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def open_array(path: str | os.PathLike[str], *, dimensions: int | None = None) -> NDArray[Any]:
    """Map an .npy file into memory, to be read only; a file that is damaged or cut short is refused.

    Args:
        path: the file.
        dimensions: how many the array must have.
    """
    path = Path(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise ValueError(f"`{path}` must be a file that can be read; it is not: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        raise ValueError(f"`{path}` must be a whole .npy file; it is damaged or something else.") from error
    if not isinstance(array, np.ndarray) or (dimensions is not None and array.ndim != dimensions):
        wanted = "" if dimensions is None else f" of {dimensions} dimensions"
        raise ValueError(f"`{path}` must be one array{wanted}; it is something else.")
    # A plain array over the same memory: numpy's own subclass makes every look at it several times slower.
    return array.view(np.ndarray)
