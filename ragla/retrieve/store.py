"""The index on disk: one SQLite database that is the truth, beside its lock and FAISS file."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragla.errors import IndexUnusable, RaglaError
from ragla.retrieve import migrate, rows, schema
from ragla.retrieve.dense import DenseRecord
from ragla.retrieve.digests import row_digest, vector_digest
from ragla.retrieve.embed import Vectors
from ragla.retrieve.faults import damaged, database_errors, rebuild_hint
from ragla.retrieve.layout import CURRENT, current_database, vectors_of
from ragla.retrieve.passage_store import check_fingerprint
from ragla.retrieve.rows import FileRecord, IndexedFile

_BLOCK = 4096  # vectors read at once


class Store:
    """An open index database. Use ``Store.read`` or ``Store.write``, and close it."""

    def __init__(self, database: Path, connection: sqlite3.Connection) -> None:
        self.database = database
        self.connection = connection
        self.before_change: Callable[[], None] = _nothing
        """Called before anything that is indexed, or chosen to be, is changed."""

    @classmethod
    def read(cls, index_dir: Path) -> Store:
        """Open for reading. Raises IndexUnusable for no index, a damaged one or one of another version."""
        database = current_database(index_dir)
        while database is not None:
            try:
                return cls.read_database(database)
            except RaglaError:
                latest = current_database(index_dir)
                if latest == database:
                    raise
                database = latest  # it was replaced and deleted meanwhile
        if (index_dir / CURRENT).exists():
            raise damaged(index_dir, "nothing says which database is current")
        raise IndexUnusable(f"{index_dir}: no index here", hint="ragla index FOLDER")

    @classmethod
    def read_database(cls, database: Path) -> Store:
        """Open one database of an index folder for reading. Raises as ``read``."""
        with database_errors(database):
            store = cls(database, schema.connect_to_read(database))
            with store._closed_on_error():
                migrate.check_version(database, store.connection)
                store._check_values()
        return store

    @classmethod
    def write(cls, database: Path, fingerprint: dict[str, str]) -> Store:
        """Open for writing, creating the database when missing. The caller holds the lock.

        One of an earlier schema is brought to this one. Raises IndexUnusable when it was made with another
        fingerprint, naming what differs.
        """
        store = cls.open_to_write(database)
        with store._closed_on_error(), database_errors(database):
            if not schema.has_schema(store.connection):
                store._create(fingerprint)
            migrate.check_version(database, store.connection, migrate.OLDEST)
            store.check_fingerprint(fingerprint)
            migrate.upgrade(store)
            store._check_values()
        return store

    @classmethod
    def open_to_write(cls, database: Path) -> Store:
        """Open for writing whatever there is, unchecked. The caller holds the lock."""
        store = cls(database, schema.connect(database, "rwc"))
        with store._closed_on_error(), database_errors(database):
            store.connection.execute("PRAGMA journal_mode = WAL")
            store.connection.execute("PRAGMA synchronous = FULL")
            store.connection.execute("PRAGMA foreign_keys = ON")
        return store

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; a writer's WAL is folded into the database."""
        self.connection.close()

    @contextlib.contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing. Raises RaglaError on a full disk, IndexUnusable on damage."""
        with database_errors(self.database):
            self.connection.execute(f"BEGIN {kind}")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled back by itself
                    self.connection.execute("ROLLBACK")
                raise

    def _create(self, fingerprint: dict[str, str]) -> None:
        with self.transaction() as connection:
            schema.create(connection)
            self.set_value("schema_version", schema.SCHEMA_VERSION)
            self.set_value("fingerprint", json.dumps(fingerprint, sort_keys=True))
            self.set_value("generation", "0")

    def _check_values(self) -> None:
        """Raise IndexUnusable where one of the single values is not as it was written."""
        for key, value, digest in self.connection.execute("SELECT key, value, digest FROM meta"):
            if row_digest((key, value)) != digest:
                raise damaged(self.database, f"its record {key!r} has changed on disk")

    def value(self, key: str) -> str | None:
        """A single value that is kept in the database, or None."""
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_value(self, key: str, value: str | None) -> None:
        """Keep a single value, within the caller's transaction if there is one; None forgets it."""
        if value is None:
            self.connection.execute("DELETE FROM meta WHERE key = ?", (key,))
            return
        row = (key, value, row_digest((key, value)))
        self.connection.execute("INSERT OR REPLACE INTO meta (key, value, digest) VALUES (?, ?, ?)", row)

    def fingerprint(self) -> dict[str, str]:
        """What the index was made with."""
        with database_errors(self.database):
            made: dict[str, str] = json.loads(self.value("fingerprint") or "{}")
        return made

    def check_fingerprint(self, wanted: dict[str, str]) -> None:
        """Raise IndexUnusable, naming both values of what differs, unless it was made with ``wanted``."""
        mend = rebuild_hint(self.roots())
        check_fingerprint(self.database.parent, self.fingerprint(), wanted, mend)

    def generation(self) -> int:
        """Grows with every change of the passages."""
        return int(self.value("generation") or 0)

    def note_change(self) -> None:
        """Note, within the caller's transaction, that passages have changed."""
        self.set_value("generation", str(self.generation() + 1))
        self.set_value("changed_at", str(time.time_ns()))
        self.note_roots()

    def note_roots(self) -> None:
        """Note, within the caller's transaction, of which folders the files are."""
        roots = self.connection.execute("SELECT DISTINCT root FROM files ORDER BY root")
        self.set_value("roots", json.dumps([row[0] for row in roots]))

    def changed_at(self) -> datetime | None:
        """When the passages were last changed; None where that was not noted."""
        noted = self.value("changed_at")
        return None if noted is None else datetime.fromtimestamp(int(noted) / 1e9, UTC)

    def roots(self) -> list[str]:
        """The folders indexed, as absolute paths."""
        with database_errors(self.database):
            found: list[str] = json.loads(self.value("roots") or "[]")
        return found

    def files(self) -> dict[str, FileRecord]:
        """Every file known, by absolute path. Raises IndexUnusable for a row that was changed on disk."""
        columns = ", ".join((*FileRecord.__dataclass_fields__, "digest"))
        with database_errors(self.database):
            found = self.connection.execute(f"SELECT {columns} FROM files").fetchall()
        for *values, digest in found:
            if row_digest(values) != digest:
                raise damaged(self.database, "what it knows of a file has changed on disk")
        return {row[0]: FileRecord(*row[:-1]) for row in found}

    def digests(self, absolutes: Iterable[str]) -> dict[str, str]:
        """The SHA-256 of each of these files that is indexed, by absolute path."""
        query = "SELECT sha256 FROM files WHERE absolute = ? AND status = 'indexed'"
        with database_errors(self.database):
            found = ((path, self.connection.execute(query, (path,)).fetchone()) for path in absolutes)
            return {path: row[0] for path, row in found if row is not None}

    def put(
        self,
        indexed: Sequence[IndexedFile] = (),
        skipped: Sequence[FileRecord] = (),
        touched: Sequence[FileRecord] = (),
    ) -> None:
        """Store a batch in one transaction.

        ``indexed`` files replace what was there, ``skipped`` ones lose their text, ``touched`` ones keep it.
        """
        if indexed or skipped:
            self.before_change()
        with self.transaction():
            rows.update_files(self.connection, touched)
            rows.drop_files(self.connection, [record.absolute for record in skipped])
            for record in skipped:
                rows.insert_file(self.connection, record)
            rows.drop_files(self.connection, [file.record.absolute for file in indexed])
            for file in indexed:
                rows.insert_document(self.connection, file)
            if indexed or skipped:
                self.note_change()

    def remove(self, absolutes: Sequence[str]) -> None:
        """Forget files and all that came of them, in one transaction."""
        self.before_change()
        with self.transaction():
            rows.drop_files(self.connection, absolutes)
            self.note_change()

    def passage_count(self) -> int:
        """How many passages there are."""
        return int(self.connection.execute("SELECT count(*) FROM chunks").fetchone()[0])

    def vector_blocks(self, dimension: int) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        """All chunk ids (n,) with their vectors (n, dimension), in order of the ids, block by block.

        Raises IndexUnusable for a vector that is not what was stored.
        """
        query = "SELECT id, vector, vector_digest FROM chunks ORDER BY id"
        with database_errors(self.database):
            cursor = self.connection.execute(query)
            while stored := cursor.fetchmany(_BLOCK):
                if any(len(row[1]) != 4 * dimension or vector_digest(row[1]) != row[2] for row in stored):
                    raise damaged(self.database, "a vector has changed on disk")
                flat = np.frombuffer(b"".join(row[1] for row in stored), dtype="<f4")
                ids = np.array([row[0] for row in stored], dtype=np.int64)
                yield ids, flat.reshape(len(stored), dimension).astype(np.float32)

    def dense_record(self) -> DenseRecord | None:
        """What was recorded of the FAISS file, or None when none was written."""
        raw = self.value("dense")
        return None if raw is None else DenseRecord(**json.loads(raw))

    def record_dense(self, record: DenseRecord, reliability: str) -> None:
        """Remember the FAISS file just written, and how the embedder reads what is in it."""
        with self.transaction():
            self.set_value("dense", json.dumps(asdict(record)))
            self.set_value("reliability", reliability)
            self.set_value("measured", str(record.generation))

    def reliability(self) -> str:
        """What was found out about how the embedder reads the corpus, as JSON; empty when nothing was."""
        return self.value("reliability") or ""

    def is_measured(self) -> bool:
        """Whether that was found out about the passages as they are now."""
        noted = self.value("reliability") is not None and self.value("measured")
        return noted == str(self.generation())

    @property
    def dense_path(self) -> Path:
        """Where the FAISS file of this database lies."""
        return vectors_of(self.database)


def _nothing() -> None:
    """Nobody wants to know of a change."""
