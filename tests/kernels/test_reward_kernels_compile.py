from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from seqsmooth.ops.kernels import bleu, cider, compaction

TYPES = {"tokens": "*i64", "mask": "*u8", "moved": "*i64", "candidates": "*i64", "references": "*i64", "table": "*i64"}
TYPES |= {"scores": "*fp32", "rarest": "fp32", "narrowness": "fp32", "value": "fp32"}


def build(kernel, warps, **constants):
    types = {name: "constexpr" if name in constants else TYPES.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=types, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": 1})
    assert made.asm["cubin"]


tile = {"REFERENCES": 5, "WIDTH": 32, "STEPS": 20, "THEIR_STEPS": 20}
build(cider._cider, 4, ORDER=4, GROUP=3, COLUMNS=8, **tile)
build(cider._cider, 4, ORDER=2, GROUP=1, COLUMNS=8, L=1, programs=1, S=1, buckets=1, **tile)
for name in ("add-k", "exp", "coco", "method0", "method4"):
    stops = name == "exp"
    build(bleu._bleu, 1, ORDER=4, SMOOTHING=name, STOPS=stops, EFFECTIVE=stops, GROUP=1, COLUMNS=1, **tile)
build(compaction._compact, 4, DROPPED=3, ROWS=32, WIDTH=32)
"""


@pytest.mark.slow
def test_they_compile_for_a_gpu_that_is_not_there():
    # The interpreter forgives what the compiler does not; a process of its own, for the interpreter is on in this one.
    pytest.importorskip("triton.backends.nvidia")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
