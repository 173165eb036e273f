"""Makes the k-th call that changes an index fail: SQL, fsync, rename, unlink, opening; all from Python."""

from __future__ import annotations

import errno
import io
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Calls:
    """What was called so far below a folder; number ``failing``, from 1, fails."""

    index_dir: Path
    failing: int = 0
    number: int = errno.EIO
    names: list[str] = field(default_factory=list)

    def made(self, name: str) -> bool:
        """Count a call; whether it is to fail."""
        self.names.append(name)
        return len(self.names) == self.failing

    def concerns(self, path: object) -> bool:
        return not isinstance(path, int) and str(path).startswith(str(self.index_dir))

    def os_error(self) -> OSError:
        return OSError(self.number, os.strerror(self.number))

    def sqlite_error(self) -> sqlite3.OperationalError:
        full = self.number == errno.ENOSPC
        error = sqlite3.OperationalError("database or disk is full" if full else "disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR
        return error


@contextmanager
def failing(calls: Calls) -> Iterator[Calls]:
    """Count, and fail where ``calls`` says so, while the block runs."""

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if calls.made(sql.split()[0]):
                raise calls.sqlite_error()
            return super().execute(sql, *parameters)

        def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if calls.made(sql.split()[0]):
                raise calls.sqlite_error()
            return super().executemany(sql, *parameters)

    connect, real_open = sqlite3.connect, io.open

    def opened(path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        if calls.concerns(path) and set(mode) & set("wax+") and calls.made("open"):
            raise calls.os_error()
        return real_open(path, mode, *more, **options)

    def on_path(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(path: Any, *more: Any, **options: Any) -> Any:
            if (name == "fsync" or calls.concerns(path)) and calls.made(name):
                raise calls.os_error()
            return real(path, *more, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, **{"factory": Connection} | o))
        patch.setattr(io, "open", opened)
        for name in ("fsync", "replace", "rename", "unlink"):
            patch.setattr(os, name, on_path(name))
        yield calls
