"""What SQLite and the disk raise, as errors a user can act on."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from ragla.errors import IndexUnusable, RaglaError


def rebuild_hint(roots: Iterable[str] = ()) -> str:
    """The command that makes the index anew."""
    return "ragla index --rebuild " + (" ".join(roots) or "FOLDER")


@contextlib.contextmanager
def database_errors(database: Path) -> Iterator[None]:
    """Turn what SQLite raises into errors a user can act on."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise disk_full(database) from error
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise IndexUnusable(f"{database}: busy", hint="wait for `ragla index` to finish") from error
        raise IndexUnusable(f"{database}: {error}", hint=rebuild_hint()) from error
    except sqlite3.DatabaseError as error:
        raise IndexUnusable(f"{database}: damaged: {error}", hint=rebuild_hint()) from error


def disk_full(path: Path) -> RaglaError:
    """The error for a full disk."""
    return RaglaError(
        f"{path.parent}: the disk is full; what was indexed before is kept",
        hint="free some space and run the same `ragla index` again",
    )
