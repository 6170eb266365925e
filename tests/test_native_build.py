"""The native library: how it is compiled, found, refused when it is stale, and done without."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from seqsmooth.cli import surroundings
from seqsmooth.ops import dispatch, native

ROOT = Path(__file__).resolve().parents[1]
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))) or sys.platform == "win32", reason="no C compiler"
)


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """hatch_build.py, which needs nothing but Python where it is not run by hatchling."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the C, and nothing built, where the library is looked for as in a process that begins."""
    sources = (*native.libraries.sources(native.FOLDER), native.FOLDER / "libraries.py")
    here = tmp_path / "native"
    here.mkdir()
    for path in sources:
        shutil.copy(path, here)
    monkeypatch.setattr(native, "FOLDER", here)
    monkeypatch.setattr(native, "_found", None)
    return here


def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)


@needs_compiler
def test_it_is_built_once_and_loaded(builder: ModuleType, folder: Path) -> None:
    assert builder.build(folder, folder) == ""
    made = sorted(folder.glob("*.so"))
    assert len(made) == len(builder.levels())
    times = [path.stat().st_mtime_ns for path in made]
    assert builder.build(folder, folder) == ""
    assert [path.stat().st_mtime_ns for path in made] == times
    assert isinstance(native.library(), ctypes.CDLL)
    assert native.library() is native.library()
    assert native.absence() == ""
    best = {"AVX512": "avx512", "AVX2": "avx2"}.get(torch.backends.cpu.get_cpu_capability(), "baseline")
    assert native.level() == best
    assert not list(folder.glob(".compiling-*"))
    assert not (folder / "not-built.txt").exists()


@needs_compiler
def test_a_lower_level_serves_where_the_best_is_missing(builder: ModuleType, folder: Path) -> None:
    builder.build(folder, folder)
    for path in folder.glob("*.so"):
        if "baseline" not in path.name:
            path.unlink()
    assert native.level() == "baseline"


@needs_compiler
def test_a_library_of_other_c_is_stale(builder: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.build(folder, folder)
    before = set(folder.glob("*.so"))
    with (folder / "rows.c").open("a") as file:
        file.write("\n/* changed */\n")
    assert native.library() is None
    assert native.absence() == "it was built from other C than is here now"
    assert builder.build(folder, folder) == ""
    assert before.isdisjoint(folder.glob("*.so"))  # and what is stale is gone
    monkeypatch.setattr(native, "_found", None)
    assert native.library() is not None


def test_without_a_compiler(builder: ModuleType, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (native.library(), native.level()) == (None, None)
    assert native.absence() == "it was not built"
    empty_path(tmp_path, monkeypatch)
    why = "no C compiler (cc, gcc, clang) was found where seqsmooth was built"
    assert builder.build(folder, folder) == why
    assert not list(folder.glob("*.so"))
    monkeypatch.setattr(native, "_found", None)
    assert native.library() is None
    assert native.absence() == why


@needs_compiler
def test_c_that_does_not_compile(builder: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "wrong.c").write_text("int wrong(void) { return nothing; }\n")
    assert "wrong.c:1" in builder.build(folder, folder)
    assert not list(folder.glob("*.so"))
    assert "wrong.c:1" in native.absence()
    (folder / "wrong.c").write_text("int missing(void); int wrong(void) { return missing(); }\n")
    assert "failed" in builder.build(folder, folder)  # found when it is linked, not when it is used


def test_a_compiler_that_is_not_there(builder: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    assert builder.build(folder, folder) == "the C compiler that $CC names was not found where seqsmooth was built"


def test_a_file_that_is_no_library(builder: ModuleType, folder: Path) -> None:
    libraries = native.libraries
    (folder / libraries.file_name("baseline", libraries.digest(folder))).write_bytes(b"\x7fELF and no more")
    assert native.library() is None
    assert native.absence().startswith("it cannot be loaded: ")


def test_native_is_an_error_where_it_is_absent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    assert dispatch.path("cpu") == "torch"
    monkeypatch.setenv(dispatch.VARIABLE, "native")
    with pytest.raises(ValueError, match=r"^`SEQSMOOTH_KERNELS` must be .* library, which is absent because"):
        dispatch.uses_kernels(torch.zeros(2))


@needs_compiler
def test_what_is_said_of_it(builder: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.build(folder, folder)
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
