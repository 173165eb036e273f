"""Files that are replaced whole: a crash leaves the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def write_durably(path: Path, payload: bytes) -> None:
    """Replace ``path`` by ``payload``; see ``replacing``."""
    with replacing(path) as file:
        file.write(payload)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of ``path`` so that a crash leaves the old or the new, whole.

    Raises OSError (a full disk among others); the old file is then untouched.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):  # renamed, or the disk that fails refuses this too
            temporary.unlink()
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Wait until what was written to ``path`` is on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk. Raises OSError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders; its rename is durable by itself
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
