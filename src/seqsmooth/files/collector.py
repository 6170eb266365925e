"""Python's search for garbage, out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Iterator[None]:
    """Make millions of objects that all stay, without a search for garbage: large JSON is read in a third of the time.

    Nothing leaks: whatever is garbage by then is found by the next search.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
