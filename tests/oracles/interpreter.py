"""Triton's interpreter, made quicker: what it looks up in every call of a function is looked up once.

At each call it walks over all members of `triton.language` to replace those that are builtin, and for each number it
builds the table of dtypes anew: a third of the time of a test. What is computed stays the same.
"""

from __future__ import annotations

import importlib.util
import inspect
from functools import cache
from typing import Any


@cache
def quicken() -> None:
    """Replace two functions of the interpreter of Triton 3.6; in another version, those that are there."""
    if importlib.util.find_spec("triton") is None:
        return
    import triton.language as tl
    from triton.runtime import interpreter

    names: dict[Any, list[str]] = {}
    dtypes: dict[str, Any] = {}
    look_up = interpreter._get_np_dtype

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        if package not in names:  # before anything of it was replaced, for the first call is an outermost one
            names[package] = [name for name, member in inspect.getmembers(package) if tl.core.is_builtin(member)]
        for name in names[package]:
            member = getattr(package, name)
            if tl.core.is_builtin(member):  # in a call from a call it is replaced already
                interpreter._patch_attr(package, name, member, builder, scope)

    def np_dtype(dtype: Any) -> Any:
        scalar = dtype.element_ty if isinstance(dtype, tl.block_type) else dtype
        if isinstance(scalar, tl.pointer_type):
            return look_up(scalar)
        if scalar.name not in dtypes:
            dtypes[scalar.name] = look_up(scalar)
        return dtypes[scalar.name]

    for name, quicker in (("_patch_builtin", patch_builtin), ("_get_np_dtype", np_dtype)):
        if hasattr(interpreter, name):
            setattr(interpreter, name, quicker)
