"""How the compiled libraries are called: by their level of instructions, and by a hash of the C they were made of.

So a library whose C has changed since does not count. `hatch_build.py` makes the libraries and reads this file by its
path, where torch is not installed: only the standard library is imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

LEVELS: dict[str, tuple[str, ...]] = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512")
    + (AVX2 := ("-mavx2", "-mfma", "-mf16c")),
    "avx2": AVX2,
    "baseline": (),
}
"""The levels, best first, and what a compiler is told for each."""

# No -ffast-math: it would switch off denormal numbers in the process of the user.
FLAGS = (
    *("-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-pthread"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp-simd"),
)
"""What a compiler is told for every level."""

NOT_BUILT = "not-built.txt"
"""The file that says why there is no library, where one could not be made."""


def sources(folder: Path) -> list[Path]:
    """The C files of a folder, and their headers."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h"))


def digest(folder: Path) -> str:
    """A hash of the C of a folder and of what the compiler is told."""
    told = hashlib.sha256(repr((FLAGS, LEVELS)).encode())
    for path in sources(folder):
        told.update(f"{path.name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()[:12]


def file_name(level: str, of: str) -> str:
    """The name of the library of a level, made of the C with this hash."""
    return f"seqsmooth-{level}-{of}.so"
