"""Where a command computes, and what follows from it for the process."""

from __future__ import annotations


def keep_memory_on(device: str) -> None:
    """Let the process keep its memory where it computes on the CPU.

    Args:
        device: "cpu", "cuda", or "auto" for a GPU where there is one.
    """
    import torch

    from seqsmooth.memory import keep_memory

    if device == "cpu" or not torch.cuda.is_available():
        keep_memory()
