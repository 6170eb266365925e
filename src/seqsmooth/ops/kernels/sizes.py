"""Sizes of grids and tiles. `triton.cdiv` and `triton.next_power_of_2` give the same, a hundred times as slowly."""

from __future__ import annotations


def blocks(size: int, block: int) -> int:
    """How many blocks hold so many."""
    return -(-size // block)


def power_of_2(size: int, least: int = 1) -> int:
    """The least power of 2 that is neither below `size` nor below `least`, itself one."""
    return 1 << (max(size, least) - 1).bit_length()
