from __future__ import annotations

import importlib.util
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from hypothesis import settings

import hatch_build
from oracles.interpreter import quicken

torch.set_num_threads(1)
# Read when a kernel is defined: where there is no GPU, tests of the kernels run them in Triton's interpreter.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
os.environ["SEQSMOOTH_CACHE"] = ""  # a file of an earlier run must not make a test pass
# As in a terminal: `nohup`, or a script that starts the tests in the background, has these ignored in all processes.
for ignored, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, default)
# The same examples in every run: a change is judged, not its luck.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


TESTS = Path(__file__).resolve().parent
UNMEASURED = (
    "kernels",
    "benchmarks",
    "conformance/test_known.py",
    "integrations/test_compiled.py",
    "models/test_loops.py",
    "smoothing/test_edit_error.py",
    "training/test_config_hashes.py",
    "training/test_configs.py",
)
"""Tests whose coverage is not measured: that would make them twice as slow, and other tests pass the same lines."""
# Examples in docstrings that need an optional package, which are skipped where it is not installed.
OPTIONAL = {
    "seqsmooth.metrics.translation.": "sacrebleu",
    "seqsmooth.models.captioner.parameter_groups": "efficientnet_lite_pytorch",
    "seqsmooth.models.vision.": "efficientnet_lite_pytorch",
    "seqsmooth.text.tokenisers.MosesTokeniser": "sacremoses",
}


STARTED = time.monotonic()
NO_TIME = "no time left"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, help="start no test after so many seconds, as `make quick` asks for")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the C where it changed: what is tested is what is here."""
    if not hasattr(config, "workerinput"):  # once, not in every process of pytest-xdist
        hatch_build.build(TESTS.parent / hatch_build.NATIVE, TESTS.parent / hatch_build.NATIVE)


def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("seconds")
    if seconds is not None and time.monotonic() - STARTED > seconds:
        pytest.skip(NO_TIME)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left = sum(NO_TIME in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    if left:
        terminalreporter.write_line(f"The time was over before {left} of the chosen tests; `make test` runs them all.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    unmeasured = {TESTS / name for name in UNMEASURED}
    assert all(path.exists() for path in unmeasured), "a path of UNMEASURED is gone"
    for item in items:
        # Processes of pytest-xdist must agree on the names.
        assert " at 0x" not in item.nodeid, f"{item.nodeid} is named by an address: give its parameters ids"
        if unmeasured & {item.path, *item.path.parents}:
            item.add_marker(pytest.mark.no_cover)
        for place, package in OPTIONAL.items() if isinstance(item, pytest.DoctestItem) else ():
            if item.name.startswith(place) and importlib.util.find_spec(package) is None:
                item.add_marker(pytest.mark.skip(reason=f"needs {package}: pip install 'seqsmooth[dev]'"))


@pytest.fixture(autouse=True)
def memory_as_it_was(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks keep freed memory; other tests in this process ask what is given back."""
    if request.path.parent.name == "benchmarks":
        monkeypatch.setattr("benchmarks.run.keep_memory", lambda: True)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Make the kernels run, and say where: on the GPU, or on the CPU in Triton's interpreter."""
    pytest.importorskip("triton")
    quicken()
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "triton")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def coco_data() -> Path:
    """The folder of real data: $SEQSMOOTH_DATA, or `data` beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "data"
    root = Path(os.environ.get("SEQSMOOTH_DATA", beside))
    if not (root / "coco" / "dataset.json").is_file():
        pytest.skip("no COCO captions: set SEQSMOOTH_DATA to the folder that holds coco/dataset.json")
    return root
