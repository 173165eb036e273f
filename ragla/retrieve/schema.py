"""The tables of an index and how its database is opened."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from ragla.retrieve.faults import database_errors
from ragla.retrieve.lexical import TOKENIZE

SCHEMA_VERSION = "2"
# What opening a database ends with where the file that its readers share cannot be made.
_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
_BUSY_SECONDS = 30.0

# The digests are those of ragla.retrieve.digests. They stand last, where a migration adds them.
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, digest BLOB NOT NULL DEFAULT x'') WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    absolute TEXT NOT NULL UNIQUE, root TEXT NOT NULL, path TEXT NOT NULL,
    size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, read_ns INTEGER,
    sha256 TEXT, status TEXT NOT NULL CHECK (status IN ('indexed', 'skipped')), reason TEXT,
    digest BLOB NOT NULL DEFAULT x''
);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY REFERENCES files(id) ON DELETE CASCADE, text TEXT NOT NULL,
    passages INTEGER NOT NULL DEFAULT 0, digest BLOB NOT NULL DEFAULT x''
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL,
    title TEXT NOT NULL, page INTEGER, vector BLOB NOT NULL,
    digest BLOB NOT NULL DEFAULT x'', vector_digest BLOB NOT NULL DEFAULT x'',
    words_digest BLOB NOT NULL DEFAULT x''
);
CREATE INDEX chunks_of_document ON chunks(document_id);
"""


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, within the caller's transaction."""
    for statement in SCHEMA.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    create_words(connection)


def create_words(connection: sqlite3.Connection) -> None:
    """Make the table of words, within the caller's transaction."""
    connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZE}')")


def has_schema(connection: sqlite3.Connection) -> bool:
    """Whether the tables were made."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is not None


def connect(database: Path, mode: str) -> sqlite3.Connection:
    """Open a database. ``mode``: one of SQLite's, ``ro``, ``rw``, ``rwc``; more URI parameters may follow."""
    with database_errors(database):
        return sqlite3.connect(
            f"{database.resolve().as_uri()}?mode={mode}",
            uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False,
        )  # fmt: skip


def connect_to_read(database: Path) -> sqlite3.Connection:
    """Open a database that nothing is to be written to, in a folder that cannot be written to as well.

    SQLite shares a WAL through a file beside it. Where that can be neither made nor opened nobody writes,
    and without a WAL the database is whole by itself.
    """
    connection = connect(database, "rw")
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        waiting = database.with_name(database.name + "-wal")
        if code not in _NO_ROOM or _has_content(waiting):
            raise
        connection = connect(database, "ro&immutable=1")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _has_content(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_size > 0
    return False
