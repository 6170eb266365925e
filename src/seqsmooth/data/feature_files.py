"""Features of images as others keep them: one array and a list of ids, a file an image, HDF5."""

from __future__ import annotations

import os
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth import checks
from seqsmooth.data.arrays import open_array
from seqsmooth.data.features import FeatureSource, FeatureStore, Id
from seqsmooth.files.reading import read_lines
from seqsmooth.packages import import_package
from seqsmooth.text.captions import CaptionedImage

_FORMS = "a store's .json, an .npy with its ids, a folder of .npy or .npz files, or an .h5 file"


def read_features(
    path: str | os.PathLike[str], ids: str | os.PathLike[str] | None = None, key: str | None = None
) -> FeatureSource:
    """Open features in any of the forms of this module; nothing is read yet but shapes.

    Args:
        path: a store's .json; an .npy of all images; a folder with one .npy or .npz an image, named by its id; an .h5
            with one dataset of all images, or one an image.
        ids: for an .npy or one dataset: a file with the id of each row on its line. By default NAME.ids.txt beside
            NAME.npy, or the dataset "ids".
        key: the array to take of an .npz or .h5 with several; by default "feat", "features" or the only one.
    """
    path = check_features(path)
    if path.is_dir():
        checks.must(ids is None, "ids", "left out for a folder, whose files are named by them", ids)
        return Folder(path, key)
    if path.suffix == ".json":
        return FeatureStore.open(path)
    if path.suffix == ".npy":
        beside = path.with_suffix(".ids.txt") if ids is None else Path(ids)
        rule = f"given, or in {beside.name} beside the features"
        checks.must(beside.is_file(), "feature ids", rule, f"{beside}, which is not there")
        array = open_array(path)
        if array.ndim == 4:  # a grid (N, H, W, D)
            array = array.reshape(len(array), -1, array.shape[-1])
        return FeatureStore(_ids(list(read_lines(beside, "feature ids"))), array)
    if path.suffix in (".h5", ".hdf5"):
        return Hdf5(path, ids, key)
    raise ValueError(f"`features` must be {_FORMS}; it is {path}.")


def check_features(path: str | os.PathLike[str]) -> Path:
    """Check that there are features to read."""
    path = Path(path)
    checks.must(path.is_dir() or path.is_file(), "features", _FORMS, f"{path}, which is not there")
    return path


class _Listed(FeatureSource):
    """Features whose shapes are known before the values are read: a file an image, or HDF5."""

    def values(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The values of a few rows."""
        values = [self._value(int(row)) for row in rows]
        return np.stack(values) if self.counts is None else np.concatenate(values)

    @abstractmethod
    def _value(self, row: int) -> NDArray[Any]:
        """The value of one row."""

    def _set_shapes(self, shapes: Sequence[tuple[int, ...]], path: Path) -> None:
        """Set the shapes of the images, which may differ in the number of regions."""
        distinct = set(shapes)
        checks.must(len(self.ids) > 0, "features", "of one image or more", f"{path}, which has none")
        alike = len({shape[1:] for shape in distinct}) == 1 and len({len(shape) for shape in distinct}) == 1
        same = alike and (len(distinct) == 1 or len(shapes[0]) == 2)
        sizes = " and ".join(str(shape) for shape in sorted(distinct)[:2])
        checks.must(same, "features", "of one size for all images, but for the number of regions", f"of {sizes}")
        self.row_shape = self.shape = max(distinct)
        if len(distinct) > 1:
            self.row_shape = self.shape[1:]
            self.counts = np.array([shape[0] for shape in shapes], dtype=np.int64)


class Folder(_Listed):
    """One file an image: (F,), (R, D), or (H, W, D), which is H x W regions.

    Args:
        path: the folder; what the files are called before .npy or .npz is the id.
        key: the array to take of an .npz.
    """

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path = path
        self.key = key
        self.files = sorted(file for file in path.iterdir() if file.suffix in (".npy", ".npz"))
        self.ids = _ids([file.stem for file in self.files])
        headers = [self._look(file) for file in self.files]
        self._set_shapes([_flat(shape) for shape, _ in headers], path)
        self.dtype = np.result_type(*{dtype for _, dtype in headers})

    def _look(self, file: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if file.suffix == ".npz":
            return _member_header(file, self.key)
        array = open_array(file)
        return array.shape, array.dtype

    def _value(self, row: int) -> NDArray[Any]:
        file = self.files[row]
        array = open_array(file) if file.suffix == ".npy" else _member(file, self.key)
        return np.asarray(array).reshape(_flat(array.shape))


class Hdf5(_Listed):
    """One dataset of all images with their ids, or one dataset an image, named by its id.

    Args:
        path: the file.
        ids: a file with the id of each row on its line; the dataset "ids" by default.
        key: the dataset, or the group that holds the datasets.
    """

    def __init__(self, path: Path, ids: str | os.PathLike[str] | None = None, key: str | None = None) -> None:
        h5py = import_package("h5py", str(path), "hdf5")
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise ValueError(
                f"`features` must be a whole HDF5 file, but {path} is damaged or something else."
            ) from error
        group: Any = self._file if key is None else self._file.get(key)
        checks.must(group is not None, "key", f"one of {', '.join(self._file)}", repr(key))
        single = group if isinstance(group, h5py.Dataset) else None
        if single is None and key is None:
            name = next((name for name in ("features", "feat") if isinstance(group.get(name), h5py.Dataset)), None)
            single = None if name is None else group[name]
        if single is not None:
            self._all, self._each = single, None
            self.ids = self._row_ids(path, ids)
            rule = f"one for each of the {len(single)} rows of features"
            checks.must(len(self.ids) == len(single), "feature ids", rule, f"{len(self.ids)} of them")
            shapes = [_flat(single.shape[1:])] * len(single)
            self.dtype = single.dtype
        else:
            self._all, self._each = None, group
            names = [name for name in group if isinstance(group[name], h5py.Dataset)]
            self.names, self.ids = names, _ids(names)
            shapes = [_flat(group[name].shape) for name in names]
            self.dtype = np.result_type(*{group[name].dtype for name in names}) if names else np.dtype("f4")
        self._set_shapes(shapes, path)

    def values(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The values of a few rows."""
        if self._all is None:
            return super().values(rows)
        some, inverse = np.unique(rows, return_inverse=True)  # HDF5 reads rows in ascending order only
        block: NDArray[Any] = self._all[some][inverse]
        return block.reshape(len(block), *self.shape)

    def _value(self, row: int) -> NDArray[Any]:
        assert self._each is not None
        value = np.asarray(self._each[self.names[row]])
        return value.reshape(_flat(value.shape))

    def _row_ids(self, path: Path, ids: str | os.PathLike[str] | None) -> list[Id]:
        if ids is not None:
            return _ids(list(read_lines(ids, "feature ids")))
        there = next((name for name in ("ids", "image_ids", "image_id") if name in self._file), None)
        checks.must(there is not None, "feature ids", "given, or the dataset 'ids' of the file", f"in neither ({path})")
        values = self._file[there][:].tolist()
        return _ids([value.decode() if isinstance(value, bytes) else str(value) for value in values])


def rename_features(features: FeatureSource, images: Sequence[CaptionedImage]) -> FeatureSource:
    """Give features the ids of their images, whatever they are called.

    They may be called by COCO's number, by the file with or without its suffix, or by the number in Karpathy's json.
    The kind of name that finds the most images is the one.
    """
    best: dict[Id, int] = {}
    for kind in ("cocoid", "filename", "stem", "imgid"):
        rows = {
            image.id: features.places[image.names[kind]]
            for image in images
            if kind in image.names and image.names[kind] in features.places
        }
        if len(rows) > len(best):
            best = rows
    ids = list(features.ids)
    for name, row in best.items():
        ids[row] = name
    renamed = copy(features)
    renamed.ids, renamed.places = ids, best
    return renamed


def _ids(names: list[str]) -> list[Id]:
    whole = all(name.isdecimal() for name in names)
    return [int(name) for name in names] if whole else list(names)


def _flat(shape: Sequence[int]) -> tuple[int, ...]:
    return (int(shape[0]) * int(shape[1]), int(shape[2])) if len(shape) == 3 else tuple(int(size) for size in shape)


def _choose(file: Path, names: Sequence[str], key: str | None) -> str:
    likely = [name for name in ("feat", "features", "x") if name in names]
    chosen = key or (likely[0] if likely else names[0] if len(names) == 1 else None)
    if chosen is None or chosen not in names:
        raise checks.wrong("key", f"one of {', '.join(names)}, which {file} holds", chosen)
    return chosen


def _member_header(file: Path, key: str | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with _reading(file), zipfile.ZipFile(file) as archive:
        name = _choose(file, [name.removesuffix(".npy") for name in archive.namelist()], key)
        with archive.open(f"{name}.npy") as member:
            numpy_format: Any = np.lib.format  # has no types
            first = numpy_format.read_magic(member) == (1, 0)
            read = numpy_format.read_array_header_1_0 if first else numpy_format.read_array_header_2_0
            shape, _, dtype = read(member)
    return shape, dtype


def _member(file: Path, key: str | None) -> NDArray[Any]:
    with _reading(file), np.load(file, allow_pickle=False) as archive:
        array: NDArray[Any] = archive[_choose(file, list(archive), key)]
        return array


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if str(error).startswith("`key`"):
            raise
        raise ValueError(f"`{file}` must be a whole .npz file; it is damaged or something else.") from error
