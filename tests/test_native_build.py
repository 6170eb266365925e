"""The native library: how it is compiled, found, refused when it is stale, and done without."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import hatch_build
import sanitized
from seqsmooth.cli import surroundings
from seqsmooth.ops import dispatch, native

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(native.__file__).parent
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))) or sys.platform == "win32", reason="no C compiler"
)


C = """
#include "answer.h"
__attribute__((visibility("default"))) int answer(void) { return ANSWER; }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a little C, and nothing built, where the library is looked for as in a process that begins."""
    here = tmp_path / "native"
    here.mkdir()
    (here / "some.c").write_text(C)
    (here / "answer.h").write_text("#define ANSWER 42\n")
    shutil.copy(HERE / "libraries.py", here)
    monkeypatch.setattr(native, "FOLDER", here)
    monkeypatch.setattr(native, "_found", None)
    return here


def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)


@needs_compiler
def test_it_is_built_once_and_loaded(folder: Path) -> None:
    assert hatch_build.build(folder, folder) == ""
    made = sorted(folder.glob("*.so"))
    assert len(made) == len(hatch_build.levels())
    times = [path.stat().st_mtime_ns for path in made]
    assert hatch_build.build(folder, folder) == ""
    assert [path.stat().st_mtime_ns for path in made] == times
    library = native.library()
    assert isinstance(library, ctypes.CDLL)
    assert library.answer() == 42
    assert native.library() is library
    assert native.absence() == ""
    best = {"AVX512": "avx512", "AVX2": "avx2"}.get(torch.backends.cpu.get_cpu_capability(), "baseline")
    assert native.level() == best
    assert not list(folder.glob(".compiling-*"))
    assert not (folder / "not-built.txt").exists()


@needs_compiler
def test_threads_that_are_first_at_once_find_the_same(folder: Path) -> None:
    hatch_build.build(folder, folder)
    together = threading.Barrier(8)

    def look(_: int) -> ctypes.CDLL | None:
        together.wait(timeout=60)
        return native.library()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(look, range(8)))
    assert len(found) == 1
    assert None not in found


@needs_compiler
def test_a_lower_level_serves_where_the_best_is_missing(folder: Path) -> None:
    hatch_build.build(folder, folder)
    for path in folder.glob("*.so"):
        if "baseline" not in path.name:
            path.unlink()
    assert native.level() == "baseline"


@needs_compiler
def test_a_library_of_other_c_is_stale(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hatch_build.build(folder, folder)
    before = set(folder.glob("*.so"))
    (folder / "answer.h").write_text("#define ANSWER 43\n")
    assert native.library() is None
    assert native.absence() == "the native library was built from other C than is here now"
    assert hatch_build.build(folder, folder) == ""
    assert before.isdisjoint(folder.glob("*.so"))  # and what is stale is gone
    monkeypatch.setattr(native, "_found", None)
    library = native.library()
    assert library is not None
    assert library.answer() == 43


@needs_compiler
def test_it_holds_nothing_of_the_machine_and_is_made_the_same_again(folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        assert hatch_build.build(folder, tmp_path / name) == ""
    for path in (tmp_path / "first").iterdir():
        made = path.read_bytes()
        assert made == (tmp_path / "second" / path.name).read_bytes()
        assert os.fsencode(tmp_path) not in made
        assert b"some.c" not in made  # stripped


def test_without_a_compiler(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (native.library(), native.level()) == (None, None)
    assert native.absence() == "the native library was not built"
    empty_path(tmp_path, monkeypatch)
    why = "no C compiler (cc, gcc, clang) was found where seqsmooth was built"
    assert hatch_build.build(folder, folder) == why
    assert not list(folder.glob("*.so"))
    monkeypatch.setattr(native, "_found", None)
    assert native.library() is None
    assert native.absence() == why


@needs_compiler
def test_c_that_does_not_compile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "wrong.c").write_text("int wrong(void) { return nothing; }\n")
    assert "wrong.c:1" in hatch_build.build(folder, folder)
    assert not list(folder.glob("*.so"))
    assert "wrong.c:1" in native.absence()
    (folder / "wrong.c").write_text("int missing(void); int wrong(void) { return missing(); }\n")
    assert "failed" in hatch_build.build(folder, folder)  # found when it is linked, not when it is used


def test_a_compiler_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    assert hatch_build.build(folder, folder) == "the C compiler that $CC names was not found where seqsmooth was built"


@needs_compiler
def test_a_folder_that_cannot_be_written_to(folder: Path, tmp_path: Path) -> None:
    assert "could not be compiled" in hatch_build.build(folder, tmp_path / "nowhere")


def test_a_file_that_is_no_library(folder: Path) -> None:
    libraries = native.libraries
    (folder / libraries.file_name("baseline", libraries.digest(folder))).write_bytes(b"\x7fELF and no more")
    assert native.library() is None
    assert native.absence().startswith("the native library cannot be loaded: ")


def test_native_is_an_error_where_it_is_absent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    assert dispatch.path("cpu") == "torch"
    monkeypatch.setenv(dispatch.VARIABLE, "native")
    why = "the native library was not built"
    for values in (torch.zeros(2), torch.zeros(2, dtype=torch.float64)):
        with pytest.raises(ValueError, match=rf"^`SEQSMOOTH_KERNELS` must be 'auto' or 'torch' here, because {why}; "):
            dispatch.engine(values)


@needs_compiler
def test_what_is_said_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hatch_build.build(folder, folder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for asked, cpu, said in (
        ("auto", "native", f"native arithmetic ({native.level()})"),
        ("native", "native", f"native arithmetic ({native.level()})"),
        ("torch", "torch", "plain torch (SEQSMOOTH_KERNELS=torch)"),
    ):
        monkeypatch.setenv(dispatch.VARIABLE, asked)
        assert (dispatch.path("cpu"), dispatch.path("cuda"), dispatch.path()) == (cpu, "torch", cpu)
        assert surroundings.describe_cpu() == said
        assert not dispatch.uses_kernels(torch.zeros(2))


def test_the_builder_runs_by_hand(tmp_path: Path) -> None:
    """Where nothing is to be done, as after an installation, it says nothing."""
    for name in ("hatch_build.py", "src/seqsmooth/ops/native/libraries.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-S", str(tmp_path / "hatch_build.py")]
    told = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert told.stderr.splitlines() == [
        "seqsmooth goes without its native library, because no C compiler (cc, gcc, clang) was found where seqsmooth "
        "was built; plain torch does the work on the CPU."
    ]


FAULTS = """
#include <pthread.h>
#include <stdlib.h>
#define FAULT __attribute__((visibility("default"))) int
static int shared;
static void *count(void *size) { for (int i = 0; i < *(int *)size; i++) shared++; return NULL; }
FAULT beyond(int size) { volatile char *made = calloc(size, 1); return made[size]; }
FAULT overflow(int size) { return (1 << 30) * size; }
FAULT race(int size) {
    pthread_t other;
    pthread_create(&other, NULL, count, &size);
    count(&size);
    pthread_join(other, NULL);
    return shared;
}
"""


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="loads gcc's sanitizers")
@pytest.mark.parametrize(
    ("tool", "call", "found"),
    [
        ("address", "beyond(7)", "heap-buffer-overflow"),
        ("address", "overflow(4)", "signed integer overflow"),
        ("address", "overflow(1)", None),
        ("thread", "race(100000)", "data race"),
        ("thread", "race(0)", None),
    ],
)
def test_sanitizers_find_faults(tool: str, call: str, found: str | None, folder: Path, tmp_path: Path) -> None:
    """What `python tests/sanitized.py --tool address` and `--tool thread` rest on."""
    (folder / "faults.c").write_text(FAULTS)
    (tmp_path / "watched").mkdir()
    told = sanitized.compile_watched(tool, folder, tmp_path / "watched")
    library = str(next((tmp_path / "watched").glob("*-baseline-*.so")))
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({library!r}).{call}"]
    done = subprocess.run(command, env=os.environ | told, capture_output=True, text=True)
    assert (done.returncode == 0) == (found is None), done.stderr
    assert found is None or (found in done.stderr and "faults.c" in done.stderr), done.stderr


def wheel(folder: Path, **environment: str) -> zipfile.ZipFile:
    """A wheel of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, check=True)
    (made,) = folder.iterdir()
    return zipfile.ZipFile(made)


def libraries_in(built: zipfile.ZipFile) -> list[str]:
    return [name for name in built.namelist() if name.endswith(".so")]


@pytest.mark.slow
@needs_compiler
def test_a_wheel_has_the_library_and_suits_any_python_here(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    built = wheel(tmp_path)
    wanted = native.libraries.digest(HERE)
    assert libraries_in(built) == [
        f"seqsmooth/ops/native/{native.libraries.file_name(level, wanted)}" for level in sorted(hatch_build.levels())
    ]
    assert re.fullmatch(r"seqsmooth-[^-]+-py3-none-(linux|macosx)_\w+\.whl", Path(str(built.filename)).name)
    for library in libraries_in(built):
        assert not re.search(rb"/(work|home|tmp|root|Users)/|" + re.escape(os.fsencode(ROOT)), built.read(library))
    assert "seqsmooth/ops/native/not-built.txt" not in built.namelist()


def test_a_wheel_without_a_compiler_is_one_of_python_alone(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    built = wheel(tmp_path, PATH="", CC="")
    assert Path(str(built.filename)).name.endswith("-py3-none-any.whl")
    assert libraries_in(built) == []
    assert built.read("seqsmooth/ops/native/not-built.txt").startswith(b"no C compiler")


def test_the_source_distribution_can_be_compiled(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (made,) = tmp_path.iterdir()
    with tarfile.open(made) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    sources = [str(path.relative_to(ROOT)) for path in native.libraries.sources(HERE)]
    assert {"hatch_build.py", "src/seqsmooth/ops/native/libraries.py", *sources} <= inside
    assert not [name for name in inside if name.endswith((".so", "not-built.txt"))]
