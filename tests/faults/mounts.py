"""Folders of a given size, and folders that are only to be read; skipped where the system does not let us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _run(*words: str) -> bool:
    try:
        return subprocess.run(words, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A disk of ``size`` bytes in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    if not _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        pytest.skip("a disk can only be mounted by root")
    try:
        yield folder
    finally:
        assert _run("umount", str(folder))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody writes in ``folder`` meanwhile; modes do not stop root, a mount does."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        place = str(folder)
        if not _run("mount", "--bind", place, place):
            pytest.skip("this system mounts nothing")
        try:
            if not _run("mount", "-o", "remount,ro,bind", place):
                pytest.skip("this system mounts nothing for reading only")
            yield
        finally:
            assert _run("umount", place)
        return
    paths = [folder, *folder.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def free_bytes(folder: Path) -> int:
    """What still fits."""
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize


def fill_up(folder: Path, left: int) -> Path:
    """Fill a disk but for ``left`` bytes; delete the file to have the room back."""
    ballast = folder / "ballast"
    room = free_bytes(folder) - left
    with ballast.open("wb") as file:
        for _ in range(max(0, room) // 4096):
            file.write(b"\0" * 4096)
    return ballast
