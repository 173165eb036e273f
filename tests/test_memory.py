"""Free memory as several kinds of machines tell it, and the share of it that a trie may take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragla import memory
from ragla.memory import cap_mebibytes, free_mebibytes

GIB = 1 << 30


def machine(root: Path, available: int | None = None, groups: dict[str, str] | None = None) -> Path:
    """The files of a Linux machine with so many bytes available."""
    (root / "proc").mkdir()
    if available is not None:
        text = f"MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:  {available // 1024} kB\n"
        (root / "proc/meminfo").write_text(text)
    for name, content in (groups or {}).items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_what_linux_says_is_available(tmp_path: Path) -> None:
    assert free_mebibytes(machine(tmp_path, 3 * GIB)) == 3 * 1024


GROUPS = {
    "version 2": ({"memory.max": f"{GIB}\n", "memory.current": f"{GIB // 4}\n"}, 768),
    "with page cache": (
        {
            "memory.max": f"{GIB}",
            "memory.current": f"{GIB // 2}",
            "memory.stat": f"anon 5\nfile 7\ninactive_file {GIB // 4}\n",
        },
        768,
    ),
    "without limit": ({"memory.max": "max\n", "memory.current": "123\n"}, 3 * 1024),
    "a limit beyond the machine": ({"memory.max": f"{99 * GIB}", "memory.current": "0"}, 3 * 1024),
    "overdrawn": ({"memory.max": f"{GIB}", "memory.current": f"{2 * GIB}"}, 0),
    "version 1": (
        {
            "memory/memory.limit_in_bytes": f"{GIB}",
            "memory/memory.usage_in_bytes": f"{GIB // 2}",
            "memory/memory.stat": f"total_inactive_file {GIB // 4}\n",
        },
        768,
    ),
    "unreadable": ({"memory.max": "\xff?", "memory.current": ""}, 3 * 1024),
}


@pytest.mark.parametrize(("files", "expected"), GROUPS.values(), ids=GROUPS)
def test_a_container_has_what_its_limit_leaves(
    tmp_path: Path, files: dict[str, str], expected: float
) -> None:
    assert free_mebibytes(machine(tmp_path, 3 * GIB, files)) == expected


@pytest.mark.parametrize("meminfo", ["", "MemAvailable:\n", "MemAvailable: many kB\n"])
def test_elsewhere_a_quarter_of_the_memory_counts_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meminfo: str
) -> None:
    (machine(tmp_path) / "proc/meminfo").write_text(meminfo)
    sizes = {"SC_PHYS_PAGES": 8 * GIB // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert free_mebibytes(tmp_path) == 2 * 1024


def test_a_machine_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert free_mebibytes(tmp_path) == 4096


def test_this_machine_has_memory() -> None:
    assert 1 < free_mebibytes() < 1 << 30


@pytest.mark.parametrize(
    ("free", "cap"), [(0, 16), (100, 16), (1000, 20), (8192, 163.84), (25_600, 512), (1 << 20, 512)]
)
def test_the_automatic_cap_is_a_share_within_bounds(
    monkeypatch: pytest.MonkeyPatch, free: float, cap: float
) -> None:
    monkeypatch.setattr(memory, "free_mebibytes", lambda: free)
    assert cap_mebibytes("auto") == pytest.approx(cap)


def test_a_cap_that_is_set_is_taken() -> None:
    assert cap_mebibytes(3.5) == 3.5
