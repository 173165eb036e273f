"""What of the folders changed since an index was made: which files are to be read, which are gone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from ragla.retrieve.read import NotIndexable
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.walk import FoundFile, Unreached

# Since the walk a file may have become a pipe, which is waited on for ever, or a link out of the folder.
_OPENING = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY", "O_CLOEXEC"):
    _OPENING |= getattr(os, _flag, 0)
# A file changed within a tick of its being read may look unchanged for ever after; such files are read again.
CLOCK_TICK_NS = 2_000_000_000


def looks_as_known(file: FoundFile, known: FileRecord | None, retry: bool) -> bool:
    """Whether a file looks as it did when it was read. ``retry``: one that was skipped is read again.

    One that could not even be read tells nothing of itself, and is tried in every run.
    """
    if known is None or known.sha256 is None or (known.status == "skipped" and retry):
        return False
    same = (known.size, known.mtime_ns, known.ctime_ns, known.inode) == (
        file.size, file.mtime_ns, file.ctime_ns, file.inode,
    )  # fmt: skip
    return same and max(file.mtime_ns, file.ctime_ns) < known.read_ns - CLOCK_TICK_NS


def gone(
    known: Mapping[str, FileRecord],
    folders: Iterable[Path],
    found: Iterable[FoundFile],
    unreached: Iterable[Unreached],
) -> list[str]:
    """Known files of the folders that are no longer there; below one that cannot be read nobody knows."""
    unreached, folders = list(unreached), list(folders)
    here = {str(file.absolute) for file in found} | {str(item.absolute) for item in unreached}
    closed = [item.absolute for item in unreached if item.is_folder]
    return [
        absolute
        for absolute in known
        if absolute not in here and below(absolute, folders) and not below(absolute, closed)
    ]


def file_bytes(file: FoundFile, max_bytes: int) -> bytes:
    """The content, of at most ``max_bytes`` even when the file grows meanwhile.

    Raises NotIndexable for a larger one or what is no regular file, OSError for one that cannot be read.
    """
    raw = b""
    if file.size <= max_bytes:
        descriptor = os.open(file.absolute, _OPENING)
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotIndexable("not a regular file")
            raw = opened.read(max_bytes + 1)
    size = max(file.size, len(raw))
    if size > max_bytes:
        raise NotIndexable(f"too large: {size:,} bytes, the limit is {max_bytes:,}")
    return raw


def unreadable(error: OSError) -> str:
    """Why a file cannot be read, in words."""
    vanished = isinstance(error, FileNotFoundError)
    return "vanished before it was read" if vanished else f"cannot be read: {error.strerror}"


def below(path: str | Path, folders: Iterable[Path]) -> bool:
    """Whether a path is one of the folders, or in one."""
    return any(Path(path).is_relative_to(folder) for folder in folders)
