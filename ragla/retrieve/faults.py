"""What SQLite and the disk raise, as errors a user can act on."""

from __future__ import annotations

import contextlib
import errno
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from ragla.errors import IndexUnusable, RaglaError

MAKE_ROOM = "free some space and run the same `ragla index` again"
_WRITABLE = "make the index folder writable, or name another: --index FOLDER"
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)
# SQLite calls a full disk by its name only where it writes pages, not where it makes its own small files.
_SMALL_FILE = 65536


def rebuild_hint(roots: Iterable[str] = ()) -> str:
    """The command that makes the index anew."""
    return "ragla index --rebuild " + (" ".join(roots) or "FOLDER")


def damaged(database: Path, what: str) -> IndexUnusable:
    """The error for an index that is not as it was written."""
    return IndexUnusable(f"{database}: damaged: {what}", hint=f"ragla doctor --repair, or {rebuild_hint()}")


@contextlib.contextmanager
def database_errors(database: Path) -> Iterator[None]:
    """Turn what SQLite raises into errors a user can act on."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise _of_operation(database, error) from error
    except sqlite3.DatabaseError as error:
        raise damaged(database, _line(error)) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged schema in its message
        raise damaged(database, "its schema is no text") from error


def _of_operation(database: Path, error: sqlite3.OperationalError) -> RaglaError:
    # The low byte is the kind; the rest says in which of SQLite's calls.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(database)):
        return disk_full(database)
    if code == sqlite3.SQLITE_BUSY:
        return IndexUnusable(f"{database}: busy", hint="wait for `ragla index` to finish")
    if code == sqlite3.SQLITE_IOERR:  # of the disk, not of the index: nothing says that it is damaged
        return RaglaError(
            f"{database}: {_line(error)}",
            hint="see that the disk is not broken, and run the same command again",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return RaglaError(f"{database}: {_line(error)}", hint=_WRITABLE)
    return IndexUnusable(f"{database}: {_line(error)}", hint=rebuild_hint())


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn what the system raises while ``path`` is written into errors a user can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path) from error
        closed = error.errno in _CLOSED
        raise RaglaError(
            f"{path}: cannot be written: {error.strerror or error}",
            hint=_WRITABLE if closed else "run the same command again",
        ) from error


def _is_full(database: Path) -> bool:
    try:
        return shutil.disk_usage(database.parent).free < _SMALL_FILE
    except OSError:
        return False


def _line(error: Exception) -> str:
    """What SQLite says; of a damaged database it may quote anything."""
    return " ".join(str(error).split())


def disk_full(path: Path) -> RaglaError:
    """The error for a full disk."""
    return RaglaError(
        f"{path.parent}: the disk is full; what was indexed before is kept",
        hint=MAKE_ROOM,
    )
