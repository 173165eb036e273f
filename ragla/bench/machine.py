"""What the machine calls itself and how busy it is; it knows no model and loads nothing."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time, sleep

STAT = Path("/proc/stat")
WAITING = (3, 4)  # columns of the first line of /proc/stat, behind its name, that count cores without work
COLUMNS = 8  # those behind them count the time of guests once more


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name where Linux tells it, else what Python knows of it."""
    if sys.platform == "linux":
        try:
            lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if names and names[0]:
            return names[0]
    return platform.processor() or platform.machine()


def usable_cores(root: Path = Path("/")) -> float:
    """Cores that this process may use: those it is bound to, or a control group's share if that is less."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    groups = root / "sys/fs/cgroup"
    shares = (
        _share(groups / "cpu.max"),
        _share(groups / "cpu/cpu.cfs_quota_us", groups / "cpu/cpu.cfs_period_us"),
    )
    return min([float(bound), *(share for share in shares if share is not None)])


def _share(*files: Path) -> float | None:
    """Cores that a quota, which comes before its period, allows; None where there is no quota."""
    try:
        quota, period = (int(word) for path in files for word in path.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # "max": none
        return None
    return quota / period if quota > 0 and period > 0 else None


def load_average() -> float | None:
    """Processes that wanted a core in the last minute, on average; None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


@dataclass(frozen=True)
class CoreClock:
    """Core-seconds that all programs and this one had used at a moment; ``all_s`` None where none tells."""

    all_s: float | None
    own_s: float
    at_s: float

    @classmethod
    def now(cls) -> CoreClock:
        """This moment."""
        return cls(used_core_seconds(), process_time(), monotonic())

    def others_since(self) -> float | None:
        """How many cores other programs have used since then, on average; also those of other guests."""
        now = CoreClock.now()
        if self.all_s is None or now.all_s is None or now.at_s <= self.at_s:
            return None
        used = (now.all_s - self.all_s) - (now.own_s - self.own_s)
        return round(max(0.0, used / (now.at_s - self.at_s)), 2)


def others_since_at_least(clock: CoreClock, seconds: float) -> float | None:
    """What others have used since then, looked at when so long has passed: the clock's ticks are coarse."""
    sleep(max(0.0, clock.at_s + seconds - monotonic()))
    return clock.others_since()


def used_core_seconds(stat: Path = STAT) -> float | None:
    """Core-seconds used since the machine was started, as Linux counts them; None elsewhere."""
    try:
        ticks = [int(word) for word in stat.read_text().splitlines()[0].split()[1:][:COLUMNS]]
        return sum(count for at, count in enumerate(ticks) if at not in WAITING) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
