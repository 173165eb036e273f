"""What the machine calls itself and how busy it is; it knows no model and loads nothing."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


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


def load_average() -> float | None:
    """Processes that wanted a core in the last minute, on average; None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None
