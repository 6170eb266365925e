"""Kernels compile for a GPU where there is none: the interpreter takes more than the compiler does."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import pytest

IDS, REALS, DOUBLES, BYTES = "*i64", "*fp32", "*fp64", "*u8"
TARGETS = {
    **dict.fromkeys(
        ("targets", "tokens", "inputs", "labels", "count", "slots", "pool", "sizes", "index", "samples"), IDS
    ),
    **dict.fromkeys(("weights", "whole", "ess", "background"), REALS),
    **dict.fromkeys(("points", "log_prob"), DOUBLES),
    **dict.fromkeys(("stride_item", "stride_step", "batch", "steps", "pool_stride", "drawn", "number"), "i32"),
    **dict.fromkeys(("ess_value", "strength_high", "strength_low", "alpha", "truth_weight", "sample_weight"), "fp32"),
    "mask": BYTES,
    "sample_mask": BYTES,
}
POOLS = {
    **dict.fromkeys(("listed", "ids", "sizes", "slots"), IDS),
    **dict.fromkeys(("stride_group", "stride_place", "stride", "length", "vocab_size"), "i32"),
    "shares": REALS,
    "keys": "*i32",
    "flags": "*i8",
}
IMPORTANCE = {
    **dict.fromkeys(("scores", "weights", "ess"), REALS),
    **dict.fromkeys(("stride_item", "stride_sample", "batch", "steps", "number"), "i32"),
    **dict.fromkeys(("scale_high", "scale_low", "alpha"), "fp32"),
    "log_prob": DOUBLES,
    "mask": BYTES,
}
RESCALED = {
    **dict.fromkeys(("first", "second", "third"), "*bf16"),
    **dict.fromkeys(("first_size", "second_size", "third_size"), "i32"),
    "upstream": REALS,
    "items": IDS,
    "factor": "fp32",
}


def variants() -> list[tuple[str, str, dict[str, str], dict[str, Any], int]]:
    """Module, kernel, types, constants and warps."""
    read = {"IGNORED_0": -100, "IGNORED_1": 0, "FILLER": 0, "BOS": 1, "COUNTED": 1024}
    read |= {f"{rule}_{i}": i for rule in ("FROZEN", "UNDRAWN") for i in range(4)}
    found: list[tuple[str, str, dict[str, str], dict[str, Any], int]] = []
    plain = {"LISTED": False, "GROUPED": False, "SEARCH": 0, "pool": None, "sizes": None}
    sought = [plain, *({"LISTED": True, "GROUPED": each, "SEARCH": 7} for each in (False, True))]
    truth = {"RATE": True, "SMOOTHED": False, "BLOCK": 128, "background": None, "index": None}
    for start in ({}, {"BOS": None, "inputs": None}):
        found.append(("targets", "target_kernel", TARGETS, read | plain | truth | start, 4))
    for pool, rate in itertools.product(sought, (False, True)):
        constants = read | pool | {"RATE": rate}
        found.append(("targets", "target_kernel", TARGETS, constants | {"SMOOTHED": True, "BLOCK": 128}, 4))
        found.append(("targets", "sample_kernel", TARGETS, constants | {"WIDE": 32, "TALL": 8}, 4))
    barred = dict(zip("ABCDE", (0, 1, 2, 3, -1), strict=True))
    for block, chunk, warps in ((1, 1, 4), (128, 128, 8), (512, 32, 8)):
        found.append(("pools", "paired_kernel", POOLS, barred | {"BLOCK": block, "CHUNK": chunk}, warps))
    found.append(("pools", "flagged_kernel", POOLS, barred | {"BLOCK": 8192}, 16))
    for literal, batchwise in ((False, False), (True, False), (False, True)):
        sizes = {"LITERAL": literal, "BATCHWISE": batchwise, "ITEMS": 64, "TALL": 8, "WIDE": 32, "REPEAT": 32}
        constants = sizes if literal else sizes | {"log_prob": None}
        found.append(("importance", "importance_kernel", IMPORTANCE, constants, 4))
    for number, folded in itertools.product((1, 2, 3), (False, True)):
        constants = {"COUNTED": True, "FOLD": folded, "NUMBER": number, "BLOCK": 4096}
        constants |= dict.fromkeys(("second", "third")[number - 1 :])
        found.append(("rows", "rescaled", RESCALED, constants, 8))
    return found


def compile_all() -> None:
    """In a process of its own, for the interpreter is chosen when a kernel is defined."""
    import importlib

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    target = GPUTarget("cuda", 90, 32)
    for module, name, types, constants, warps in variants():
        kernel = getattr(importlib.import_module(f"seqsmooth.ops.kernels.{module}"), name)
        signature = {given: "constexpr" if given in constants else types[given] for given in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        compiled = triton.compile(source, target=target, options={"num_warps": warps})
        assert "ptx" in compiled.asm
        sys.stdout.write(f"{name}\n")


def test_all_variants_compile() -> None:
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert len(run.stdout.split()) == len(variants())


if __name__ == "__main__":
    compile_all()
