"""Kernels become machine code for a GPU, which the interpreter does not show; no GPU is needed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from seqsmooth.ops.kernels import attention, gru, lstm

POINTERS = {"weights": "*fp32", "energy_grad": "*fp32", "score_grad": "*fp32", "mask": "*u8"}
POINTERS |= {name: "*fp32" for name in ("cell", "cell_before", "cell_grad")}
BLOCKS = {"R": 36, "A": 512, "D": 512, "BLOCK_R": 64, "BLOCK_A": 128, "BLOCK_D": 128, "STEPS": 17}
BLOCKS |= {"H": 512, "HAS_COPY": True, "BLOCK": 256}
for kernel in (attention._forward, attention._backward, attention._keys_backward, lstm._forward, lstm._backward,
               gru._forward, gru._backward):
    for real in ("*fp32", "*bf16"):
        constants = {name: BLOCKS[name] for name in kernel.arg_names if name in BLOCKS}
        signature = {
            name: "constexpr" if name in constants
            else "i32" if name == "count" or name.endswith("stride")
            else POINTERS.get(name, real)
            for name in kernel.arg_names
        }
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
        assert "ptx" in compiled.asm
print("compiled")
"""


@pytest.mark.slow
def test_recurrent_kernels_compile() -> None:
    pytest.importorskip("triton")
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=plain, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "compiled", done.stderr
