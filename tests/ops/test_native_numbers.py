"""The numbers of the C, `native/numbers.h`: exponentials to an ulp, types of 16 bits exactly, at each level."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import hatch_build
from seqsmooth.ops import native

DRIVER = """
#include <fenv.h>
#include "numbers.h"
#define EACH(NAME, FROM, INTO, DO) \\
    __attribute__((visibility("default"))) void NAME(const FROM *from, INTO *into, int64_t count, int mode) { \\
        int before = fegetround(); \\
        fesetround(mode); \\
        DO; \\
        fesetround(before); \\
    }
#define LOOP(CALL) for (int64_t i = 0; i < count; i++) into[i] = CALL(from[i])
EACH(powers, float, float, LOOP(exp_float))
EACH(wide_powers, double, double, LOOP(exp_double))
EACH(halves, float, uint16_t, write_half(into, from, count))
EACH(one_half, float, uint16_t, LOOP(to_half))
EACH(of_halves, uint16_t, float, read_half(into, from, count))
EACH(bfloats, float, uint16_t, write_bfloat16(into, from, count))
EACH(of_bfloats, uint16_t, float, read_bfloat16(into, from, count))
int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
__attribute__((visibility("default"))) int mode_of(int i) { return modes[i]; }
"""
MODES = range(4)
Driver = Callable[[str, np.ndarray, type, int], np.ndarray]


@pytest.fixture(scope="module", params=list(native.libraries.LEVELS))
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """Calls a function of the driver on an array, in a rounding mode."""
    levels = list(native.libraries.LEVELS)
    best = native.BEST.get(torch.backends.cpu.get_cpu_capability(), "baseline")
    if request.param not in hatch_build.levels() or levels.index(best) > levels.index(request.param):
        pytest.skip("not a level of this processor")
    try:
        compiler = hatch_build.compiler()
    except hatch_build.NotBuilt as why:
        pytest.skip(str(why))
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "driver.c").write_text(DRIVER)
    told = [*compiler, *native.libraries.FLAGS, *native.libraries.LEVELS[request.param], "-frounding-math"]
    told += ["-I", str(Path(native.__file__).parent), "-shared", "driver.c", "-lm", "-o", "driver.so"]
    subprocess.run(told, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "driver.so"))

    def call(name: str, given: np.ndarray, into: type, mode: int) -> np.ndarray:
        result = np.empty(len(given), into)
        addresses = (ctypes.c_void_p(array.ctypes.data) for array in (given, result))
        getattr(library, name)(*addresses, ctypes.c_int64(len(given)), library.mode_of(mode))
        return result

    return call


def in_ulps(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, in units of the last place of the type that was found."""
    error = np.abs(found.astype(expected.dtype) - expected)
    return float(np.max(error / np.spacing(expected.astype(found.dtype)).astype(expected.dtype)))


def negative_floats() -> np.ndarray:
    """200,000 of them between minus 0 and -87, as dense near 0 as anywhere."""
    last = int(np.array(-87, np.float32).view(np.uint32))
    return np.arange(0x80000000, last, 4999, np.int64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("mode", "most"), [(0, 1.5), (1, 200), (2, 200), (3, 200)])
def test_powers(driver: Driver, mode: int, most: float) -> None:
    given = negative_floats()
    assert in_ulps(driver("powers", given, np.float32, mode), np.exp(given.astype(np.float64))) < most


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no numbers wider than double")
@pytest.mark.parametrize(("mode", "most"), [(0, 1.5), (1, 200), (2, 200), (3, 200)])
def test_powers_in_double_precision(driver: Driver, mode: int, most: float) -> None:
    given = -np.concatenate([np.linspace(0, 708, 100_001), np.geomspace(1e-300, 708, 100_001)])
    found = driver("wide_powers", given, np.float64, mode)
    assert in_ulps(found, np.exp(given.astype(np.longdouble))) < most


@pytest.mark.parametrize("mode", MODES)
def test_powers_of_what_is_far_or_no_number(driver: Driver, mode: int) -> None:
    far = [-87.01, -88, -1e4, -3.4e38, -np.inf, -0.0, 0.0]
    expected = [0, 0, 0, 0, 0, 1, 1]
    assert driver("powers", np.array(far, np.float32), np.float32, mode).tolist() == expected
    assert np.isnan(driver("powers", np.full(16, np.nan, np.float32), np.float32, mode)).all()
    far = [-708.01, -745, -1e4, -1.7e308, -np.inf, -0.0, 0.0]
    assert driver("wide_powers", np.array(far), np.float64, mode).tolist() == expected
    assert np.isnan(driver("wide_powers", np.full(16, np.nan), np.float64, mode)).all()


def numbers_to_round(patterns: np.ndarray) -> np.ndarray:
    """Numbers of 16 bits, what is half way between neighbours, its own neighbours, and single precision at random."""
    finite = np.sort(patterns[np.isfinite(patterns)].astype(np.float64))
    between = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    beyond = np.array([65519.996, 65520, 65535, 65536, 3.4e38, 1e-45, 5.9e-8, np.inf, np.nan], np.float32)
    drawn = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    above, below = (np.nextafter(between, np.float32(end)) for end in (np.inf, -np.inf))
    return np.concatenate([patterns, between, above, below, beyond, -beyond, drawn])


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Bit by bit, but that a NaN may be any."""
    lost = np.isnan(expected)
    bits = np.dtype(f"u{expected.itemsize}")
    return bool((np.isnan(found) == lost).all() and (found.view(bits)[~lost] == expected.view(bits)[~lost]).all())


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_halves(driver: Driver, mode: int, flush: bool) -> None:
    every = np.arange(2**16, dtype=np.uint16)
    given = numbers_to_round(every.view(np.float16).astype(np.float32))
    if flush:  # single-precision numbers that are denormal are half-precision zeros in any case
        given = given[(np.abs(given) >= np.finfo(np.float32).tiny) | (given == 0) | np.isnan(given)]
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor knows denormal numbers only")
    try:
        read = driver("of_halves", every, np.float32, mode)
        written = [driver(name, given, np.uint16, mode).view(np.float16) for name in ("halves", "one_half")]
    finally:
        torch.set_flush_denormal(False)
    assert same(read, every.view(np.float16).astype(np.float32))
    with np.errstate(over="ignore"):
        expected = given.astype(np.float16)
    assert all(same(found, expected) for found in written)


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_bfloats(driver: Driver, mode: int, flush: bool) -> None:
    every = np.arange(2**16, dtype=np.uint16)
    values = (every.astype(np.uint32) << 16).view(np.float32)
    given = numbers_to_round(values)
    expected = torch.from_numpy(given).bfloat16().float().numpy()
    torch.set_flush_denormal(flush)
    try:
        read, written = driver("of_bfloats", every, np.float32, mode), driver("bfloats", given, np.uint16, mode)
    finally:
        torch.set_flush_denormal(False)
    assert same(read, values)
    assert same((written.astype(np.uint32) << 16).view(np.float32), expected)
