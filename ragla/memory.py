"""How much memory is free, how much of it a trie may take, and which errors say that it ran out.

It allocates nothing and does not load torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

ROOT = Path("/")
SHARE = 0.02
LEAST_MIB, MOST_MIB = 16.0, 512.0
UNKNOWN_MIB = 4096.0  # assumed of a machine that does not say
# how torch says it where the error has no type of its own: its CPU allocator, Metal, cuBLAS
SHORT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a device or on the host."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in SHORT_OF_MEMORY)


def cap_mebibytes(setting: float | Literal["auto"]) -> float:
    """A cap as it is set, MiB; ``auto``: 2 % of the free memory, at least 16 MiB and at most 512 MiB.

    An answer of 100 tokens takes about 1000 nodes, so the least holds some hundred answers or a prompt of
    some thousand tokens, and beyond the most a longer memory hardly drafts better.
    """
    if setting != "auto":
        return setting
    return min(max(SHARE * free_mebibytes(), LEAST_MIB), MOST_MIB)


def free_mebibytes(root: Path = ROOT) -> float:
    """Memory that can still be had, MiB.

    On Linux that is MemAvailable of /proc/meminfo, or what the control group (version 2 or 1, as mounted
    in a container) leaves of its limit where that is less; page cache counts as free in both. Elsewhere
    it is a quarter of the machine's memory, and of a machine that does not say 4 GiB.
    """
    free = [bytes_ for bytes_ in (_available(root), *_left_in_groups(root)) if bytes_ is not None]
    if free:
        return max(0.0, min(free) / 2**20)
    total = _total()
    return UNKNOWN_MIB if total is None else total / 4 / 2**20


def total_mebibytes(root: Path = ROOT) -> float | None:
    """All memory that this process may ever have, MiB: the machine's, or a control group's limit."""
    groups = root / "sys/fs/cgroup"
    limits = (_number(groups / "memory.max"), _number(groups / "memory" / "memory.limit_in_bytes"))
    whole = _field(root / "proc/meminfo", "MemTotal:", 1024) or _total()
    known = [bytes_ for bytes_ in (whole, *limits) if bytes_ is not None]
    return min(known) / 2**20 if known else None


def swap_mebibytes(root: Path = ROOT) -> float | None:
    """Swap space that is free, MiB; None where the system does not tell."""
    free = _field(root / "proc/meminfo", "SwapFree:", 1024)
    return None if free is None else free / 2**20


def _available(root: Path) -> int | None:
    return _field(root / "proc/meminfo", "MemAvailable:", 1024)


def _left_in_groups(root: Path) -> Iterator[int | None]:
    groups = root / "sys/fs/cgroup"
    yield _left(groups, "memory.max", "memory.current", "inactive_file")
    yield _left(groups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left(group: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    most, used = _number(group / limit), _number(group / usage)
    if most is None or used is None:
        return None
    return most - used + (_field(group / "memory.stat", reclaimable, 1) or 0)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": no limit
        return None


def _field(path: Path, name: str, unit: int) -> int | None:
    """The number after ``name`` at the beginning of a line, in bytes."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * unit for line in lines if line.split()[:1] == [name])
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _total() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
