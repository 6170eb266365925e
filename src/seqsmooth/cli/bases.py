"""What `seqsmooth train --list` prints: the bases of the package, or the losses and sweeps of one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from seqsmooth.training.bases import Base, open_base, packaged_bases

WIDTH = 80


def listing(path: str | None) -> str:
    """List the bases of the package, or the losses and the sweeps of one base.

    Args:
        path: of a base; None for all.
    """
    return _bases(packaged_bases()) if path is None else _base(open_base(path))


def _bases(bases: Iterable[Base]) -> str:
    lines = [("BASE", "LOSSES", "")]
    lines += [(base.name, str(len(base.losses) or "-"), base.summary) for base in bases]
    wide = max(len(name) for name, *_ in lines)
    texts = [_wrap(f"{name:<{wide}}  {losses:>6}  ", summary) for name, losses, summary in lines]
    return "\n".join([*texts, "", "`seqsmooth train BASE --list` lists the losses and sweeps of a base."])


def _base(base: Base) -> str:
    lines = [_wrap(f"{base.name}{': ' if base.summary else ''}", base.summary, hang=0), ""]
    if base.losses:
        rows = [("LOSS", "ROW"), *((loss, str(base.run(loss).get("row", ""))) for loss in base.losses)]
        wide = max(len(loss) for loss, _ in rows)
        lines += [*(f"{loss:<{wide}}  {row}".rstrip() for loss, row in rows), ""]
    if base.sweeps:
        from seqsmooth.training.sweep import plan_sweep

        wide = max(len("SWEEP"), *map(len, base.sweeps))
        lines += [f"{'SWEEP':<{wide}}  RUNS"]
        for name in base.sweeps:
            planned = plan_sweep(f"{base.file}/{name}", Path("runs"))
            losses, seeds = ({getattr(run, part) for run in planned} for part in ("loss", "seed"))
            points = len(planned) // len(losses) // len(seeds)
            factors = [_count_of(len(losses), "loss", "losses"), _count_of(len(seeds), "seed", "seeds")]
            factors += [f"{points} points"] if points > 1 else []
            lines.append(f"{name:<{wide}}  {len(planned):>4} = {' x '.join(factors)}")
        lines.append("")
    example = f" --loss {next(iter(base.losses))}" if base.losses else ""
    return "\n".join([*lines, "Every key with its value:", f"  seqsmooth train {base.name}{example} --print_config"])


def _count_of(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _wrap(start: str, text: str, hang: int | None = None) -> str:
    """Fill a text behind its start, with further lines below its first word."""
    indent = " " * (len(start) if hang is None else hang)
    return textwrap.fill(start + text, WIDTH, subsequent_indent=indent).rstrip()
