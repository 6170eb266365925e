"""Examples in docstrings that need an optional package are left out where it is not installed."""

from importlib.util import find_spec

NEEDS = {
    "efficientnet_lite_pytorch": ("models/captioner.py", "models/vision/efficientnet.py", "models/vision/encoder.py"),
    "sacrebleu": ("metrics/translation.py",),
    "sacremoses": ("text/tokenisers.py",),
}
collect_ignore = [
    f"seqsmooth/{file}" for package, files in NEEDS.items() if find_spec(package) is None for file in files
]
