"""How busy the machine is, beside this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ragla.bench import machine
from ragla.bench.machine import CoreClock, others_since_at_least, usable_cores, used_core_seconds

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


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "99900000 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": "?\n", "cpu/cpu.cfs_quota_us": "5\n"}, None),
    ],
)
def test_a_container_has_the_cores_that_its_share_leaves(
    tmp_path: Path, files: dict[str, str], cores: float | None
) -> None:
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    bound = float(len(os.sched_getaffinity(0)))
    assert usable_cores(tmp_path) == (bound if cores is None else min(bound, cores))


def test_what_others_use_is_looked_at_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(machine, "sleep", slept.append)
    clock = CoreClock(0.0, 0.0, machine.monotonic())
    others_since_at_least(clock, 5.0)
    others_since_at_least(CoreClock(0.0, 0.0, clock.at_s - 9.0), 5.0)
    assert 4.0 < slept[0] <= 5.0
    assert slept[1] == 0.0
