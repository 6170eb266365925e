"""Run tests of the kernels under compute-sanitizer on a GPU: `python tests/sanitized.py --tool racecheck`.

It makes a kernel ten to a hundred times as slow, so by default every fifteenth test runs, in processes side by side.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = "SEQSMOOTH_SANITIZED"  # "K/N": of the tests the K-th, the K+N-th and so on


def pytest_collection_modifyitems(config: object, items: list[object]) -> None:
    """As a plugin of pytest, in the processes that are watched: keep this process's tests."""
    first, step = map(int, os.environ[KEPT].split("/"))
    items[:] = items[first::step]


def main() -> int:
    """Watch all processes to their end, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="memcheck", help="memcheck (default), racecheck, initcheck, synccheck")
    parser.add_argument("--every", type=int, default=15, help="run every N-th test (default 15)")
    parser.add_argument("--jobs", type=int, default=5, help="processes side by side (default 5)")
    parser.add_argument("tests", nargs="*", default=["tests/kernels"], help="files or folders (default tests/kernels)")
    given = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        parser.error("compute-sanitizer must be on the PATH, which comes with CUDA's toolkit; it is not.")
    told = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    told |= {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # or else memory that was freed would still be the program's own
    watch = ["compute-sanitizer", "--tool", given.tool, "--target-processes", "all", "--error-exitcode", "9"]
    test = [sys.executable, "-m", "pytest", "-q", "-p", "sanitized", "-p", "no:cacheprovider", *given.tests]
    running = [
        subprocess.Popen(
            watch + test,
            cwd=ROOT,
            env=os.environ | told | {KEPT: f"{job * given.every}/{given.jobs * given.every}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for job in range(given.jobs)
    ]
    failed = False
    for process in running:
        said, _ = process.communicate()
        failed = failed or process.returncode != 0
        lines = [line for line in said.splitlines() if re.search(r"=========|passed|failed|error", line, re.IGNORECASE)]
        print("\n".join(lines[-8:] if process.returncode == 0 else said.splitlines()[-60:]), flush=True)
    print(f"{given.tool}: {'something was found' if failed else 'clean'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
