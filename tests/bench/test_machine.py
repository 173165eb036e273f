"""How busy the machine is, beside this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ragla.bench import machine
from ragla.bench.machine import CoreClock, used_core_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc/stat")


def test_core_seconds_are_what_was_used_and_not_waited(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat.write_text(f"cpu  {3 * tick} {tick} {2 * tick} 99999 88888 0 0 {4 * tick} {7 * tick} 0\ncpu0 1 2\n")
    assert used_core_seconds(stat) == 10.0
    for content in ("", "cpu a b", "\n"):
        stat.write_text(content)
        assert not used_core_seconds(stat)
    assert used_core_seconds(tmp_path / "absent") is None


def test_what_others_used_is_all_without_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(all_s: float | None, own_s: float, at_s: float) -> None:
        monkeypatch.setattr(machine, "used_core_seconds", lambda: all_s)
        monkeypatch.setattr(machine, "process_time", lambda: own_s)
        monkeypatch.setattr(machine, "monotonic", lambda: at_s)

    at(100.0, 5.0, 50.0)
    clock = CoreClock.now()
    at(120.0, 20.0, 60.0)
    assert clock.others_since() == 0.5  # 20 core-seconds, 15 of them ours, in 10 s
    at(101.0, 7.0, 60.0)
    assert clock.others_since() == 0.0  # clocks of different grain
    at(None, 7.0, 60.0)
    assert clock.others_since() is None
    at(120.0, 7.0, 50.0)
    assert clock.others_since() is None


def test_this_machine_tells() -> None:
    used = used_core_seconds()
    assert used is not None
    assert used > 0
