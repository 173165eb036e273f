"""Brings an index of an earlier schema to the present one, without reading or embedding a document."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from ragla.errors import IndexUnusable
from ragla.retrieve.digests import document_digest, passage_digest, row_digest, vector_digest
from ragla.retrieve.faults import damaged, rebuild_hint
from ragla.retrieve.schema import SCHEMA_VERSION, has_schema

if TYPE_CHECKING:
    from ragla.retrieve.store import Store

OLDEST = 1  # the earliest schema that can be brought to the present one
_FILE_COLUMNS = "absolute, root, path, size, mtime_ns, ctime_ns, inode, read_ns, sha256, status, reason"


def schema_version(connection: sqlite3.Connection) -> str | None:
    """The schema of a database; None where there is none."""
    if not has_schema(connection):
        return None
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    return None if row is None else str(row[0])


def check_version(database: Path, connection: sqlite3.Connection, oldest: int = int(SCHEMA_VERSION)) -> None:
    """Raise IndexUnusable, with what helps, for a schema before ``oldest`` or after the present one."""
    version = schema_version(connection)
    if version is None or not version.isascii() or not version.isdigit():
        raise damaged(database, "it does not say by which version of ragla it was made")
    if int(version) > int(SCHEMA_VERSION):
        raise IndexUnusable(
            f"{database}: made by a newer ragla (schema {version}, this one reads {SCHEMA_VERSION})",
            hint=f"pip install --upgrade ragla, or {rebuild_hint()}",
        )
    if int(version) < oldest:
        helps = "ragla index" if int(version) >= OLDEST else rebuild_hint()
        raise IndexUnusable(
            f"{database}: made by an earlier ragla (schema {version}, not {SCHEMA_VERSION})", hint=helps
        )


def upgrade(store: Store) -> None:
    """Bring an open database, to which the caller holds the lock, to the present schema, in one step."""
    if schema_version(store.connection) != "1":
        return
    with store.transaction() as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":  # digests made of damage would hide it for ever
            raise damaged(store.database, found)
        connection.execute("ALTER TABLE documents ADD COLUMN passages INTEGER NOT NULL DEFAULT 0")
        for table, column in (
            ("meta", "digest"), ("files", "digest"), ("documents", "digest"),
            ("chunks", "digest"), ("chunks", "vector_digest"), ("chunks", "words_digest"),
        ):  # fmt: skip
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} BLOB NOT NULL DEFAULT x''")
        _add_digests(connection)
        store.note_roots()
        store.set_value("schema_version", SCHEMA_VERSION)
        for key, value in connection.execute("SELECT key, value FROM meta").fetchall():
            store.set_value(key, value)


def _add_digests(connection: sqlite3.Connection) -> None:
    files = connection.execute(f"SELECT id, {_FILE_COLUMNS} FROM files").fetchall()
    connection.executemany(
        "UPDATE files SET digest = ? WHERE id = ?", [(row_digest(values), row) for row, *values in files]
    )
    for document_id, absolute, root, path, *_, sha256, _status, _reason in files:
        row = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()
        if row is None:
            continue
        passages = connection.execute(
            'SELECT chunks.id, vector, body, start, "end", first_line, last_line, title, page'
            " FROM chunks LEFT JOIN words ON words.rowid = chunks.id WHERE document_id = ?",
            (document_id,),
        ).fetchall()
        digest = document_digest(absolute, sha256, len(passages), row[0])
        connection.execute(
            "UPDATE documents SET passages = ?, digest = ? WHERE id = ?", (len(passages), digest, document_id)
        )
        identity = absolute, root, path, sha256
        connection.executemany(
            "UPDATE chunks SET digest = ?, vector_digest = ?, words_digest = ? WHERE id = ?",
            [
                (
                    passage_digest(chunk_id, identity, tuple(place), row[0][place[0] : place[1]]),
                    vector_digest(vector),
                    row_digest((chunk_id, body)),
                    chunk_id,
                )
                for chunk_id, vector, body, *place in passages
            ],
        )
