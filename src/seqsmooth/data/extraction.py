"""Features of pictures by an encoder: hours of work that go on where they stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqsmooth.data.arrays import ArrayWriter
from seqsmooth.data.features import KIND, FeatureStore, Id, convert
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.paths import check_destination, check_folder
from seqsmooth.files.reading import read_record
from seqsmooth.ops import checks

PARTIAL = "seqsmooth features in the making 1"


def extract(
    images: Mapping[Id, str | os.PathLike[str]],
    encoder: Callable[[Tensor], Tensor],
    path: str | os.PathLike[str],
    *,
    read: Callable[[Sequence[Path]], Tensor],
    name: str,
    batch_size: int = 64,
    device: torch.device | str = "cpu",
    dtype: str = "float16",
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> FeatureStore:
    """Encode pictures and write their features as a store: PATH.npy and PATH.json.

    What is done so far is in PATH.npy.part. If the process dies, the next one with the same pictures, encoder and type
    has only the rest left to do. A store that is already there is never touched.

    Args:
        images: the file of each picture, by its id.
        encoder: any function from what `read` gives, on `device`, to features (n, F) or (n, R, D).
        path: the name that the files begin with.
        read: from files to a tensor (n, ...); it runs in a thread, while the encoder works on the batch before.
        name: of the encoder, with all that its features depend on: features of another are never gone on with.
        batch_size: pictures at a time.
        device: where the encoder is.
        dtype: of the features on disk.
        progress: called with how many pictures are done, of how many.
    """
    checks.at_least("batch_size", batch_size, 1)
    checks.must(len(images) > 0, "images", "one or more", "none")
    array, index, part, settings = (Path(f"{path}{ending}") for ending in (".npy", ".json", ".npy.part", ".part.json"))
    check_destination("features", array)
    if array.exists() and settings.exists() and not index.exists():
        array.replace(part)  # killed between the two
    for there in (array, index):
        if there.exists():
            raise ValueError(f"`features` must be files that are not there yet, but {there} is.")
    ids, files = list(images), [Path(picture) for picture in images.values()]
    checksum = hashlib.sha256(json.dumps(ids).encode()).hexdigest()
    wanted = {"kind": PARTIAL, "encoder": name, "dtype": dtype, "ids": checksum}
    shape = _unfinished_shape(settings, part, wanted)
    writer = None if shape is None else ArrayWriter.resume(part, dtype, shape)
    try:
        done = 0 if writer is None else writer.rows
        batches = [files[first : first + batch_size] for first in range(done, len(files), batch_size)]
        for batch, pictures in zip(batches, _read_ahead(read, batches), strict=True):
            with torch.no_grad():
                features = encoder(pictures.to(device, non_blocking=True))
            values = features.float().cpu().numpy()
            several = len(batch)
            rule = f"features of shape ({several}, F) or ({several}, R, D)"
            checks.must(values.ndim in (2, 3) and len(values) == several, "encoder", rule, values.shape)
            if writer is None:
                with atomic_write_text(settings) as file:
                    json.dump(wanted | {"shape": values.shape[1:]}, file)
                writer = ArrayWriter(part, dtype, values.shape[1:])
            writer.append(convert(values, writer.dtype))
            writer.flush()
            progress(writer.rows, len(files))
        assert writer is not None
        writer.close()
    except OSError as error:
        raise ValueError(f"`{part}` must be a file that can be written; it is not: {error.strerror}.") from error
    finally:
        if writer is not None:
            writer.abandon()
    part.replace(array)
    with atomic_write_text(index) as file:
        json.dump({"kind": KIND, "varying": False, "encoder": name, "ids": ids}, file)
    settings.unlink()
    return FeatureStore.open(index)


def _read_ahead(
    read: Callable[[Sequence[Path]], Tensor],  # of n files -> (n, ...)
    batches: Sequence[Sequence[Path]],
) -> Iterator[Tensor]:  # (n, ...)
    """Yield what `read` returns for each batch; a thread reads the next one while the caller works on this one."""
    coming: Future[Tensor] | None = None
    with ThreadPoolExecutor(1) as reader:
        for batch in batches:
            now, coming = coming, reader.submit(read, batch)
            if now is not None:
                yield now.result()
        if coming is not None:
            yield coming.result()


def _unfinished_shape(settings: Path, part: Path, wanted: Mapping[str, str]) -> tuple[int, ...] | None:
    """Read the shape of the features of a process that did not finish; None where none began."""
    if not (settings.is_file() and part.is_file()):
        return None

    def parse(value: dict[str, Any]) -> tuple[tuple[int, ...], dict[str, Any]]:
        return tuple(int(size) for size in value.pop("shape")), value

    shape, begun = read_record(settings, parse, "what an unfinished run left (delete it)")
    for key, value in wanted.items():
        rule = f"of the same {key} as now, {value!r}"
        checks.must(begun.get(key) == value, f"{part}", f"{rule} (or deleted)", f"of {begun.get(key)!r}")
    return shape


def picture_files(folder: str | os.PathLike[str]) -> dict[Id, Path]:
    """List the pictures of a folder and the folders below it, by the names of the files without suffix."""
    folder = check_folder("images", folder)
    known = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in known)
    checks.must(len(files) > 0, "images", "a folder with pictures", f"{folder}, which has none")
    pictures: dict[Id, Path] = {file.stem: file for file in files}
    checks.must(len(pictures) == len(files), "images", "pictures of different names", "the same name in two folders")
    return pictures
