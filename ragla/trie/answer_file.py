"""The SQLite file that earlier answers are kept in: opened, made, refused, wiped.

All in it can be learned again, so a file that cannot be trusted is deleted and made anew: one that is
damaged, that another program wrote, or that has another schema.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

FILE_NAME = "answers.sqlite"
APPLICATION = 0x7261676C  # "ragl", in the file's header
SCHEMA_VERSION = 1
RETRY_S = 0.02

# WAL lets readers go on while one process writes. With synchronous = NORMAL a killed process loses
# nothing and a power cut at most the last answers, which is what an fsync for each answer would buy.
# Deleted rows are overwritten, so that a deleted document's words do not stay in the file.
SETTINGS = ("synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON", "temp_store = MEMORY")
TABLES = (
    "CREATE TABLE answers (id INTEGER PRIMARY KEY, tokenizer TEXT NOT NULL, name TEXT NOT NULL,"
    " token_ids BLOB NOT NULL, checksum BLOB NOT NULL, uses INTEGER NOT NULL, last_used REAL NOT NULL,"
    " UNIQUE (tokenizer, name))",
    "CREATE TABLE made_from (answer INTEGER NOT NULL REFERENCES answers(id) ON DELETE CASCADE,"
    " path TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (answer, path, sha256)) WITHOUT ROWID",
    "CREATE TABLE beliefs (model TEXT NOT NULL, name TEXT NOT NULL, numbers TEXT NOT NULL,"
    " saved REAL NOT NULL, PRIMARY KEY (model, name)) WITHOUT ROWID",
    "CREATE TABLE ranks (place INTEGER PRIMARY KEY, model TEXT NOT NULL, token INTEGER NOT NULL,"
    " best_ids BLOB NOT NULL, UNIQUE (model, token))",
    "CREATE TABLE ranked_from (path TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (path, sha256))"
    " WITHOUT ROWID",
)
_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}


class Refused(sqlite3.DatabaseError):
    """The file is a database, but none of ours."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file, not its use or the disk, is what is wrong."""
    # SQLite quotes a damaged schema in its message, which then may be no text
    code = getattr(error, "sqlite_errorcode", None)
    known = isinstance(error, (Refused, UnicodeDecodeError))
    return known or (code is not None and code & 0xFF in _DAMAGE)


def open_file(path: Path, wait_s: float) -> sqlite3.Connection:
    """A connection to the file, which is made when missing and made anew when it cannot be trusted.

    ``wait_s``: how long to wait for other processes. Raises sqlite3.Error and OSError where the folder
    cannot be written or a lock lasts.
    """
    try:
        return _opened(path, wait_s)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
    discard(path)
    return _opened(path, wait_s)


def discard(path: Path) -> None:
    """Delete the file with its companions; they first, for a new file must not meet an old log."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def scrub(connection: sqlite3.Connection) -> None:
    """Leave no byte of what was deleted, as far as other processes let us: rewrite file and log."""
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing, also where the process is interrupted or killed."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk has rolled back by itself
            connection.execute("ROLLBACK")
        raise


def _opened(path: Path, wait_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    try:
        # text that is no UTF-8 is damage to be found, not an error of another kind
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        for setting in SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        if _is_empty(connection):
            _create(connection, wait_s)
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_empty(connection: sqlite3.Connection) -> bool:
    """Whether nobody has written tables or a name in it yet."""
    tables = _value(connection, "SELECT count(*) FROM sqlite_master")
    return not tables and _value(connection, "PRAGMA application_id") == 0


def _create(connection: sqlite3.Connection, wait_s: float) -> None:
    _use_log(connection, wait_s)
    with transaction(connection):
        if not _is_empty(connection):
            return  # another process was faster
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _use_log(connection: sqlite3.Connection, wait_s: float) -> None:
    """Write-ahead logging, which is written in the file; SQLite itself does not wait for the lock here."""
    end = monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if is_damage(error) or monotonic() > end:
                raise
        sleep(RETRY_S)


def _check(connection: sqlite3.Connection) -> None:
    found = (_value(connection, "PRAGMA application_id"), _value(connection, "PRAGMA user_version"))
    if found != (APPLICATION, SCHEMA_VERSION):
        raise Refused(f"not the earlier answers of this version: {found}")
    statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    if tuple(sql for (sql,) in statements) != TABLES:
        raise Refused("other tables than ours")
    if (problem := _value(connection, "PRAGMA quick_check(1)")) != "ok":
        raise Refused(f"damaged: {problem}")


def _value(connection: sqlite3.Connection, query: str) -> object:
    return connection.execute(query).fetchone()[0]
