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
        ("targets", "tokens", "inputs", "labels", "count", "slots", "pool", "sizes", "index", "samples", "state"), IDS
    ),
    **dict.fromkeys(("weights", "whole", "ess", "background"), REALS),
    **dict.fromkeys(("points", "log_prob"), DOUBLES),
    **dict.fromkeys(("stride_item", "stride_step", "batch", "steps", "pool_stride", "drawn", "number"), "i32"),
    **dict.fromkeys(("law_0", "law_1", "law_2"), "i64"),
    **dict.fromkeys(("ess_value", "alpha", "truth_weight", "sample_weight"), "fp32"),
    "vocab_size": "i32",
    "places": "*i32",
    "mask": BYTES,
    "sample_mask": BYTES,
}
POOLS = {
    **dict.fromkeys(("listed", "ids", "sizes", "slots"), IDS),
    **dict.fromkeys(("stride_group", "stride_place", "length", "limit", "vocab_size", "width"), "i32"),
    **dict.fromkeys(("shares", "masses"), REALS),
    **dict.fromkeys(("places", "words"), "*i32"),
    "flags": "*i8",
    "eights": IDS,
    "bits": BYTES,
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
    read = {"IGNORED_0": -100, "IGNORED_1": 0, "FILLER": 0, "BOS": 1, "MANY": 64, "LONG": 32}
    read |= {f"{rule}_{i}": i for rule in ("FROZEN", "UNDRAWN") for i in range(4)}
    found: list[tuple[str, str, dict[str, str], dict[str, Any], int]] = []
    plain = {"LISTED": False, "PLACED": False, "GROUPED": False, "SEARCH": 0} | dict.fromkeys(("pool", "places"))
    plain |= {"SIZED": False, "sizes": None}
    listed = {"SIZED": True, "LISTED": True}
    placed = listed | {"PLACED": True, "GROUPED": False, "SEARCH": 12}
    sought = [listed | {"PLACED": False, "GROUPED": each, "SEARCH": 7, "places": None} for each in (False, True)]
    truth = {"RATE": True, "SMOOTHED": False, "SETS": False, "BLOCK": 128, "background": None, "index": None}
    for start in ({}, {"BOS": None, "inputs": None}):
        found.append(("target_kernels", "target_kernel", TARGETS, read | plain | truth | start, 4))
    apart = {name: value for name, value in truth.items() if name != "background"}
    found.append(("target_kernels", "target_kernel", TARGETS, read | plain | apart, 4))
    tile = {"WIDE": 32, "TALL": 8, "GIVEN": True, "state": None}
    counting = {"WIDE": 32, "TALL": 8, "GIVEN": False, "points": None}
    for pool, rate in itertools.product([plain, placed, *sought], (False, True)):
        constants = read | pool | {"RATE": rate}
        closed = {"SMOOTHED": True, "SETS": rate, "BLOCK": 128}
        found.append(("target_kernels", "target_kernel", TARGETS, constants | closed, 4))
        sizes = tile | {"DRAWN": rate} | ({} if rate else dict.fromkeys(("samples", "sample_mask", "log_prob")))
        found.append(("target_kernels", "sample_kernel", TARGETS, constants | sizes, 4))
    for way in (tile, counting):
        constants = read | plain | {"RATE": False, "DRAWN": True} | way
        found.append(("target_kernels", "sample_kernel", TARGETS, constants, 4))
        found.append(("target_kernels", "sample_kernel", TARGETS, constants | {"MANY": 8, "TALL": 2}, 1))
    found.append(("philox", "uniform_kernel", {"state": IDS, "made": DOUBLES, "count": "i32"}, {"BLOCK": 1024}, 4))
    barred = dict(zip("ABCDE", (0, 1, 2, 3, -1), strict=True))
    for block, narrow, warps in ((16, True, 1), (128, False, 2), (256, True, 4), (512, True, 8)):
        found.append(("pools", "sorted_kernel", POOLS, barred | {"BLOCK": block, "NARROW": narrow}, warps))
    for blocks, part in ((1, 1024), (2, 1024), (8, 4096)):
        flags = barred | {"WORDS": 4096, "CHUNK": 1024, "BLOCKS": blocks}
        found.append(("pools", "flagged_kernel", POOLS, flags | {"PART": part}, 16))
        for rate in (False, True):
            constants = read | flags | {"RATE": rate, "PART": part // 4, "BLOCK": 128}
            found.append(("target_kernels", "batch_kernel", TARGETS | POOLS, constants, 8))
    for literal, batchwise in ((False, False), (True, False), (False, True)):
        sizes = {"LITERAL": literal, "BATCHWISE": batchwise, "ITEMS": 64, "TALL": 8, "WIDE": 32, "REPEAT": 32}
        constants = sizes if literal else sizes | {"log_prob": None}
        found.append(("importance", "importance_kernel", IMPORTANCE, constants, 4))
    for number, folded in itertools.product((1, 2, 3), (False, True)):
        constants = {"COUNTED": True, "FOLD": folded, "NUMBER": number, "BLOCK": 4096}
        constants |= dict.fromkeys(("second", "third")[number - 1 :])
        found.append(("finishing", "rescaled", RESCALED, constants, 8))
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
        if "state" in kernel.arg_names and "state" not in constants:
            # No warp may still be about to read how many draws there were when its program says that it is done.
            before, _ = compiled.asm["ptx"].split("atom.", 1)
            assert "bar.sync" in before[before.rindex("ld.global") :], name
        sys.stdout.write(f"{name}\n")


@pytest.mark.slow
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
