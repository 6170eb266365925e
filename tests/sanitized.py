"""Run tests under a sanitizer: of the kernels on a GPU, `python tests/sanitized.py --tool racecheck`, or of the C.

compute-sanitizer, for the kernels, makes them ten to a hundred times as slow, so every fifteenth test runs, in
processes side by side. `--tool address` and `--tool thread` compile the C of the native library with gcc's sanitizers
of memory and undefined behaviour, or of races between threads, into a folder of its own, and run all tests of it.
ATEN_CPU_CAPABILITY=avx2 or =default takes the library for another processor than this one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src" / "seqsmooth" / "ops" / "native"
KEPT = "SEQSMOOTH_SANITIZED"  # "K/N": of the tests the K-th, the K+N-th and so on
LIBRARIES = "SEQSMOOTH_SANITIZED_LIBRARIES"  # the folder of the libraries under a sanitizer
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
# Python leaks what it has at its end, and torch's threads are not compiled to be watched.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=9",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:report_signal_unsafe=0:exitcode=9",
}


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin of pytest, in the processes that are watched: take the libraries under a sanitizer, if they are."""
    if LIBRARIES in os.environ:
        from seqsmooth.ops import native
        from seqsmooth.ops.native import threads

        native.FOLDER = Path(os.environ[LIBRARIES])
        threads.parallel = lambda: None  # torch's are not compiled to be watched
        if native.library() is None:
            raise pytest.UsageError(f"There is no library to watch, because {native.absence()}.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep this process's tests."""
    first, step = map(int, os.environ[KEPT].split("/"))
    items[:] = items[first::step]


def compile_watched(tool: str, source: Path, folder: Path) -> dict[str, str]:
    """Compile the C with a sanitizer, and return what the environment must be for a Python that loads it.

    Args:
        tool: one of `SANITIZERS`.
        source: the folder of the C.
        folder: the folder for the libraries and a copy of the C.
    """
    import hatch_build

    libraries = hatch_build.names_of_libraries(source)
    for path in libraries.sources(source):
        shutil.copy(path, folder)
    wanted = {level: folder / libraries.file_name(level, libraries.digest(source)) for level in hatch_build.levels()}
    watched = (f"-fsanitize={SANITIZERS[tool]}", "-fno-sanitize-recover=all", "-g", "-fno-omit-frame-pointer")
    hatch_build.compile_all(source, wanted, watched)
    # Python itself is not compiled with the sanitizer, which must come first, with what C++ throws exceptions by.
    runtimes = [f"lib{tool[0]}san.so", "libstdc++.so.6"]
    compiler = hatch_build.compiler()
    found = [
        subprocess.run([*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
        for name in runtimes
    ]
    return OPTIONS | {LIBRARIES: str(folder), "LD_PRELOAD": " ".join(map(str.strip, found))}


def main() -> int:
    """Watch all processes to their end, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tools = "memcheck (default), racecheck, initcheck, synccheck; address, thread"
    parser.add_argument("--tool", default="memcheck", help=tools)
    parser.add_argument("--every", type=int, help="run every N-th test (default 15, of the C every one)")
    parser.add_argument("--jobs", type=int, help="processes side by side (default 5, of the C one)")
    parser.add_argument("tests", nargs="*", help="files or folders (default tests/kernels, of the C tests/ops)")
    given = parser.parse_args()
    told = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory() as folder:
        if given.tool in SANITIZERS:
            sys.path.insert(0, str(ROOT))  # of hatch_build
            told |= compile_watched(given.tool, NATIVE, Path(folder))
            watch, every, jobs, tests = [], 1, 1, ["tests/ops"]
            left_out = "not where_they_are_gnus"  # that asks for torch's threads
            if given.tool == "thread":  # which watches no thread of a process that was forked
                left_out += " and not after_a_fork"
            given.tests = [*(given.tests or tests), "-k", left_out]
        else:
            if shutil.which("compute-sanitizer") is None:
                parser.error("compute-sanitizer must be on the PATH, which comes with CUDA's toolkit; it is not.")
            told |= {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # or else memory that was freed would still be ours
            watch = ["compute-sanitizer", "--tool", given.tool, "--target-processes", "all", "--error-exitcode", "9"]
            every, jobs, tests = 15, 5, ["tests/kernels"]
        failed = run(watch, given.tests or tests, told, given.every or every, given.jobs or jobs)
    print(f"{given.tool}: {'something was found' if failed else 'clean'}")
    return int(failed)


def run(watch: list[str], tests: list[str], told: dict[str, str], every: int, jobs: int) -> bool:
    """Run tests, print what matters of what they say, and return whether anything was found.

    Args:
        watch: the program that watches, and its arguments.
        tests: files or folders.
        told: what the environment is told.
        every: run every so many-th test.
        jobs: so many processes side by side.
    """
    test = [sys.executable, "-m", "pytest", "-q", "-p", "sanitized", "-p", "no:cacheprovider", *tests]
    running = [
        subprocess.Popen(
            watch + test,
            cwd=ROOT,
            env=os.environ | told | {KEPT: f"{job * every}/{jobs * every}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for job in range(jobs)
    ]
    failed = False
    for process in running:
        said, _ = process.communicate()
        failed = failed or process.returncode != 0
        lines = [line for line in said.splitlines() if re.search(r"=========|passed|failed|error", line, re.IGNORECASE)]
        print("\n".join(lines[-8:] if process.returncode == 0 else said.splitlines()[-60:]), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
