from __future__ import annotations

import gc

import pytest

from seqsmooth.ops.collector import collector_off


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was(on: bool) -> None:
    try:
        (gc.enable if on else gc.disable)()
        with collector_off():
            assert not gc.isenabled()
        assert gc.isenabled() == on
        with pytest.raises(KeyError), collector_off():
            raise KeyError
        assert gc.isenabled() == on
    finally:
        gc.enable()
