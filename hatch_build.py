"""Builds what a wheel needs beside the Python files: its description, and the native library.

The description is README.md with links that work where the repository is not. A package index shows the description
alone, so a relative link there leads nowhere. It becomes an absolute link below `Repository` of `[project.urls]` where
that is set; until the project has an address, it becomes the name of the file.

The native library is the C of `src/seqsmooth/ops/native`. Without a C compiler the wheel is one of Python alone, and
plain torch does the work. `python hatch_build.py` builds the library in a checkout, unless it is there already.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # `python hatch_build.py` needs nothing but Python
    BuildHookInterface = MetadataHookInterface = object

NATIVE = "src/seqsmooth/ops/native"
COMPILERS = ("cc", "gcc", "clang")
# What a user gets has no symbols for a debugger; and a function that is nowhere is an error now, not when it is called.
SHIPPED = ("-s", "-Wl,-z,defs") if platform.system() == "Linux" else ()
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<path>[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Makes `readme` of the project's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        home = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": describe(text, home)}


class CustomBuildHook(BuildHookInterface):
    """Compiles the native library into a wheel, or into the checkout where the installation is editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what kind of wheel this is."""
        source = Path(self.root) / NATIVE
        self.made = tempfile.TemporaryDirectory()
        folder = source if version == "editable" else Path(self.made.name)
        problem = build(source, folder)
        if problem:
            self.app.display_warning(warning(problem))
        if version == "editable":
            return
        inside = NATIVE.removeprefix("src/")
        build_data["force_include"] |= {str(path): f"{inside}/{path.name}" for path in sorted(folder.iterdir())}
        if not problem:
            # The library is loaded by its path and knows nothing of Python: it suits any, on this platform.
            system = self.build_config.builder.get_best_matching_tag().rsplit("-", 1)[1]
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{system}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Forget what was compiled: it is in the wheel."""
        self.made.cleanup()


def describe(readme: str, home: str | None) -> str:
    """The README for readers without the repository.

    Args:
        readme: the text of README.md.
        home: the address below which the files of the repository are shown, if the project has one.
    """

    def replace(link: re.Match[str]) -> str:
        image, text, path = link["image"], link["text"], link["path"]
        if home is not None:
            return f"{image}[{text}]({home.rstrip('/')}/{'raw' if image else 'blob'}/main/{path})"
        return "" if image else f"{text} (`{path}`)"

    where = "" if home is not None else "\nNames such as `docs/start.md` are files of the project's repository.\n"
    return LINK.sub(replace, readme) + where


class NotBuilt(Exception):
    """There will be no native library; the message says why."""


def build(source: Path, folder: Path) -> str:
    """Make the libraries of this machine where they are not there yet, and return why there are none, if so.

    Args:
        source: the folder of the C.
        folder: where the libraries go. What was made there before from other C is deleted.
    """
    libraries = names_of_libraries(source)
    of = libraries.digest(source)
    reason = folder / libraries.NOT_BUILT
    wanted = {level: folder / libraries.file_name(level, of) for level in levels()}
    try:
        if not all(path.is_file() for path in wanted.values()):
            compile_all(source, wanted, SHIPPED)
    except NotBuilt as why:
        with suppress(OSError):  # a folder that cannot be written to
            for path in wanted.values():
                path.unlink(missing_ok=True)
            reason.write_text(f"{why}\n", encoding="utf-8")
        return str(why)
    with suppress(OSError):
        for path in {reason, *folder.glob(libraries.file_name("*", "*"))} - set(wanted.values()):
            path.unlink(missing_ok=True)
    return ""


def compile_all(source: Path, wanted: dict[str, Path], extra: tuple[str, ...]) -> None:
    """Compile all C files into a library for each level.

    Args:
        source: the folder of the C.
        wanted: the levels, and the files to write.
        extra: what the compiler and the linker are told beside the usual.
    """
    libraries = names_of_libraries(source)
    command = [*compiler(), *libraries.FLAGS, *extra, "-shared"]
    # Names without a folder, so that no path of this machine gets into the library.
    files = [path.name for path in libraries.sources(source) if path.suffix == ".c"]

    def compile_one(level: str) -> None:
        path = wanted[level]
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".compiling-") as folder:
            out = Path(folder) / path.name
            told = [*command, *libraries.LEVELS[level], *files, "-lm", "-o", str(out.resolve())]
            done = subprocess.run(told, cwd=source, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode != 0 or not out.is_file():
                lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
                said = lines[0].strip() if lines else f"exit status {done.returncode}"
                raise NotBuilt(f"the C compiler {Path(command[0]).name} failed: {said}")
            out.replace(path)

    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, wanted))
    except OSError as error:
        raise NotBuilt(f"the C could not be compiled: {error.strerror or error}") from error


def compiler() -> list[str]:
    """The C compiler and what it is told first."""
    if platform.system() == "Windows":
        raise NotBuilt("the native library is not made for Windows")
    asked = shlex.split(os.environ.get("CC", ""))
    found = asked[:1] if asked else [name for name in COMPILERS if shutil.which(name)][:1]
    if not found:
        raise NotBuilt(f"no C compiler ({', '.join(COMPILERS)}) was found where seqsmooth was built")
    if shutil.which(found[0]) is None:
        raise NotBuilt("the C compiler that $CC names was not found where seqsmooth was built")
    # ARCHFLAGS names the processors to compile for on macOS, for hatchling's name of the wheel, too.
    architectures = shlex.split(os.environ.get("ARCHFLAGS", "")) if platform.system() == "Darwin" else []
    return [*(asked or found), *architectures]


def levels() -> list[str]:
    """The levels of instructions that a library is made for on this machine."""
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return ["avx512", "avx2", "baseline"]
    return ["baseline"]


def names_of_libraries(source: Path) -> ModuleType:
    """The module `seqsmooth.ops.native.libraries`, without the package around it, which would import torch."""
    spec = importlib.util.spec_from_file_location("libraries", source / "libraries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def warning(problem: str) -> str:
    """The line for who installs."""
    return f"seqsmooth goes without its native library, because {problem}; plain torch does the work on the CPU."


if __name__ == "__main__":
    here = Path(__file__).resolve().parent / NATIVE
    if problem := build(here, here):
        sys.stderr.write(f"{warning(problem)}\n")
