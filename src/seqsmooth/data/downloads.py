"""Downloads that go on where they stopped, and are checked when they are whole."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 1 << 20
_SECONDS = 30.0  # without a byte, after which the connection counts as lost


@dataclass(frozen=True)
class Remote:
    """A file that others publish.

    Attributes:
        url: where.
        checksum: "md5:..." or "sha256:..."; empty where nobody published one.
    """

    url: str
    checksum: str = ""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rsplit("/", 1)[-1]


def fetch(
    remote: Remote, folder: Path, way_out: str, progress: Callable[[str, int, int], None] = lambda name, done, of: None
) -> Path:
    """The file in a folder, downloaded unless it is there.

    What a download that was interrupted left behind is gone on with, where the server allows it. A file gets its name
    only when it is whole and its checksum is right; where none was published, the checksum of the first download is
    kept beside the file, and later ones must agree.

    Args:
        remote: the file.
        folder: where it goes.
        way_out: what to do instead, said where it cannot be had.
        progress: called with the name, the bytes that are there and those of all, 0 where that is not known.
    """
    whole = folder / remote.name
    if whole.is_file():
        _check(whole, whole, remote)
        return whole
    part = folder / f"{remote.name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _download(remote, part, progress)
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ValueError(f"`{remote.url}` must be within reach; it is not: {reason} ({way_out}).") from error
    except OSError as error:
        raise ValueError(f"`{folder}` must be a folder that can be written; it is not: {error.strerror}.") from error
    _check(part, whole, remote)
    part.replace(whole)
    return whole


def _download(remote: Remote, part: Path, progress: Callable[[str, int, int], None]) -> None:
    done = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        answer = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing is left to send
            return
        raise
    with answer:
        if done and answer.status != 206:  # the server sends all of it again
            done = 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else 0
        with part.open("ab" if done else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                done += len(block)
                progress(remote.name, done, total)
    if total and done < total:
        raise ConnectionError(f"it ended after {done} of {total} bytes; run it again to go on")


def _check(file: Path, whole: Path, remote: Remote) -> None:
    known = whole.with_name(f"{whole.name}.sha256")
    kind, _, wanted = remote.checksum.partition(":")
    if not wanted:
        kind = "sha256"
        wanted = known.read_text(encoding="utf-8").strip() if known.is_file() else ""
    with file.open("rb") as opened:
        actual = hashlib.file_digest(opened, kind).hexdigest()
    if not wanted:
        known.write_text(actual + "\n", encoding="utf-8")
        return
    if actual != wanted:
        if file != whole:
            file.unlink()  # to go on with it would never make it right
        raise ValueError(f"`{file}` must have the {kind} {wanted}, but has {actual} instead; delete it and try again.")


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a .tgz, .tar.gz, .tar or .zip beside others, once; a folder that is there is whole."""
    there = folder / archive.name.split(".")[0]
    if there.is_dir():
        return there
    unfinished = there.with_name(f".{there.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        shutil.unpack_archive(archive, unfinished, filter=None if archive.suffix == ".zip" else "data")
    except (shutil.ReadError, OSError, EOFError, ValueError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ValueError(f"`{archive}` must be a whole archive; it is damaged or something else.") from error
    unfinished.rename(there)
    return there
