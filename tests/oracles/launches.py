"""How many kernels a piece of code would launch on a GPU, counted on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

FREE = ("empty", "new_empty", "resize", "detach", "lift_fresh", "_assert")


class Launches(TorchDispatchMode):
    """Lists the operations that compute something: all but views and bare allocations. One is at least one launch."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.__name__
        views = any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)
        if not views and not name.startswith(FREE):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def counted() -> Iterator[list[str]]:
    """The launches inside the block: operations of torch, and kernels of ours in Triton's interpreter."""
    mode = Launches()
    with pytest.MonkeyPatch.context() as patch:
        try:
            from triton.runtime.interpreter import GridExecutor
        except ImportError:
            pass
        else:
            run = GridExecutor.__call__

            def launch(self, *args, **kwargs):  # type: ignore[no-untyped-def]
                mode.names.append(self.fn.__name__)
                with _disable_current_modes():  # the interpreter computes with torch itself
                    return run(self, *args, **kwargs)

            patch.setattr(GridExecutor, "__call__", launch)
        with mode:
            yield mode.names
