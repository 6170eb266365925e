"""Run `ss.tok_seq(...)(logits, targets)` on the CPU and print, as JSON, what of seqsmooth it passed.

Run this file by its path with `PYTHONPATH=CHECKOUT/src`: it imports nothing of this package, so it traces any version.
`files` maps each file of seqsmooth to the functions that ran in it during the call. `records` maps each class of
records to the number of instances that the call made; records are dataclasses, frozen or not, and named tuples. Making
the objective, imports and the backward pass are not part of the call.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import seqsmooth as ss

ROOT = Path(ss.__file__).resolve().parent


def is_record(kind: type) -> bool:
    """Return whether a class of seqsmooth is a dataclass or a named tuple."""
    ours = kind.__module__.split(".")[0] == "seqsmooth"
    return ours and (dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))


class CallTrace:
    """The functions that ran and the records that were made while the profiler was on."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}
        self.records: dict[type, dict[int, Any]] = {}  # instances are kept, so that no id is given twice
        self._before = {id(value) for value in gc.get_objects() if is_record(type(value))}

    def profile(self, frame: FrameType, event: str, value: Any) -> None:
        """Take note of one event of `sys.setprofile`."""
        code = frame.f_code
        if event == "call" and ROOT in Path(code.co_filename).parents and code.co_name != "<module>":
            self.files.setdefault(str(Path(code.co_filename).relative_to(ROOT)), set()).add(code.co_qualname)
        if event == "return":
            self._note(value)  # covers named tuples, whose constructor returns them
            if code.co_name == "__init__":
                self._note(frame.f_locals.get("self"))

    def _note(self, value: Any) -> None:
        if is_record(type(value)) and id(value) not in self._before:
            self.records.setdefault(type(value), {})[id(value)] = value


def main() -> None:
    """Trace the call of the README, the second time, when nothing is made for the first time any more."""
    torch.manual_seed(0)
    objective = ss.tok_seq(torch.randn(1000, 32), token_tau=0.2, token_alpha=0.3, tau=0.1, alpha=0.4)
    logits, targets = torch.randn(8, 12, 1000, requires_grad=True), torch.randint(1, 1000, (8, 12))
    objective(logits, targets)
    trace = CallTrace()
    sys.setprofile(trace.profile)
    objective(logits, targets)
    sys.setprofile(None)
    records = {f"{kind.__module__}.{kind.__qualname__}": len(made) for kind, made in trace.records.items()}
    files = {name: sorted(functions) for name, functions in trace.files.items()}
    print(json.dumps({"files": files, "records": records}))


if __name__ == "__main__":
    main()
