"""The states of all sources of randomness, so that a resumed run draws what it would have drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from seqsmooth.ops import checks


def gather(source: torch.Generator, device: torch.device, world: int) -> list[dict[str, Any]]:
    """Gather the generators of every process: torch's on the host and on the device, and the source of samples."""
    here: dict[str, Any] = {"host": torch.get_rng_state(), "samples": source.get_state()}
    if device.type == "cuda":
        here["device"] = torch.cuda.get_rng_state(device)
    if world == 1:
        return [here]
    every: list[Any] = [None] * world
    torch.distributed.all_gather_object(every, here)
    return every


def restore(states: Sequence[dict[str, Any]], source: torch.Generator, device: torch.device, rank: int) -> None:
    """Put back those of this process."""
    rule = f"of a run with at least {rank + 1} processes, as this one"
    checks.must(rank < len(states), "checkpoint", rule, f"of one with {len(states)}")
    here = states[rank]
    kind = "cuda" if "device" in here else "cpu"
    checks.must(kind == device.type, "trainer.device", f"{kind}, on which the run began", device.type)
    torch.set_rng_state(here["host"].cpu())
    source.set_state(here["samples"].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(here["device"].cpu(), device)
