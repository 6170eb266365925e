from __future__ import annotations

import gc

import pytest

from seqsmooth.files.collector import pause_collector


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was(on: bool) -> None:
    try:
        (gc.enable if on else gc.disable)()
        with pause_collector():
            assert not gc.isenabled()
        assert gc.isenabled() == on
        with pytest.raises(KeyError), pause_collector():
            raise KeyError
        assert gc.isenabled() == on
    finally:
        gc.enable()
