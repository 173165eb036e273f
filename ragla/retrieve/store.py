"""The index on disk: one SQLite database that is the truth, beside its lock and FAISS file."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragla.errors import IndexUnusable
from ragla.retrieve.chunk import Chunk
from ragla.retrieve.dense import DenseRecord
from ragla.retrieve.embed import Vectors
from ragla.retrieve.faults import database_errors, rebuild_hint
from ragla.retrieve.layout import current_database
from ragla.retrieve.lexical import TOKENIZE, indexed_text

SCHEMA_VERSION = "1"
_BUSY_SECONDS = 30.0

_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    absolute TEXT NOT NULL UNIQUE, root TEXT NOT NULL, path TEXT NOT NULL,
    size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, read_ns INTEGER,
    sha256 TEXT, status TEXT NOT NULL CHECK (status IN ('indexed', 'skipped')), reason TEXT
);
CREATE TABLE documents (id INTEGER PRIMARY KEY REFERENCES files(id) ON DELETE CASCADE, text TEXT NOT NULL);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL,
    title TEXT NOT NULL, page INTEGER, vector BLOB NOT NULL
);
CREATE INDEX chunks_of_document ON chunks(document_id);
CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZE}');
"""


@dataclass(frozen=True)
class FileRecord:
    """One row of ``files``. ``read_ns`` is when its bytes were read; ``reason`` a remark when indexed."""

    absolute: str
    root: str
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    read_ns: int
    sha256: str | None
    status: str
    reason: str | None


@dataclass(frozen=True)
class IndexedFile:
    """A file with its text, chunks and their vectors (len(chunks), dimension), ready to be stored."""

    record: FileRecord
    text: str
    chunks: Sequence[Chunk]
    vectors: Vectors


class Store:
    """An open index database. Use ``Store.read`` or ``Store.write``, and close it."""

    def __init__(self, database: Path, connection: sqlite3.Connection) -> None:
        self.database = database
        self.connection = connection

    @classmethod
    def read(cls, index_dir: Path) -> Store:
        """Open for reading. Raises IndexUnusable for no index, a damaged one or one of another version."""
        database = current_database(index_dir)
        if database is None:
            raise IndexUnusable(f"{index_dir}: no index here", hint="ragla index FOLDER")
        store = cls(database, _connect(database, "rw"))
        with database_errors(database):
            store.connection.execute("PRAGMA query_only = ON")
            store._check_version()
        return store

    @classmethod
    def write(cls, database: Path, fingerprint: dict[str, str]) -> Store:
        """Open for writing, creating the database when missing. The caller holds the lock.

        Raises IndexUnusable when it was made with another fingerprint, naming what differs.
        """
        store = cls(database, _connect(database, "rwc"))
        with database_errors(database):
            store.connection.execute("PRAGMA journal_mode = WAL")
            store.connection.execute("PRAGMA synchronous = FULL")
            store.connection.execute("PRAGMA foreign_keys = ON")
            if not store._has_schema():
                store._create(fingerprint)
            store._check_version()
        store.check_fingerprint(fingerprint)
        return store

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

    def _has_schema(self) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE name = 'meta'"
        return self.connection.execute(query).fetchone() is not None

    def _create(self, fingerprint: dict[str, str]) -> None:
        with self.transaction() as connection:
            for statement in _SCHEMA.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            self._set("schema_version", SCHEMA_VERSION)
            self._set("fingerprint", json.dumps(fingerprint, sort_keys=True))
            self._set("generation", "0")

    def _check_version(self) -> None:
        version = self._get("schema_version") if self._has_schema() else None
        if version != SCHEMA_VERSION:
            raise IndexUnusable(
                f"{self.database}: made by another version of ragla (schema {version}, not {SCHEMA_VERSION})",
                hint=rebuild_hint(self.roots() if version else ()),
            )

    def _get(self, key: str) -> str | None:
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _set(self, key: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def fingerprint(self) -> dict[str, str]:
        """What the index was made with."""
        with database_errors(self.database):
            made: dict[str, str] = json.loads(self._get("fingerprint") or "{}")
        return made

    def check_fingerprint(self, wanted: dict[str, str]) -> None:
        """Raise IndexUnusable, naming both values of what differs, unless it was made with ``wanted``."""
        made = self.fingerprint()
        differing = [key for key in wanted if made.get(key) != wanted[key]]
        if differing:
            parts = "; ".join(f"{key} {made.get(key, 'unknown')!r}, now {wanted[key]!r}" for key in differing)
            raise IndexUnusable(
                f"{self.database.parent}: the index was made with {parts}", hint=rebuild_hint(self.roots())
            )

    def generation(self) -> int:
        """Grows with every change of the passages."""
        return int(self._get("generation") or 0)

    def _changed(self) -> None:
        self._set("generation", str(self.generation() + 1))

    def roots(self) -> list[str]:
        """The folders indexed, as absolute paths."""
        return [row[0] for row in self.connection.execute("SELECT DISTINCT root FROM files ORDER BY root")]

    def files(self) -> dict[str, FileRecord]:
        """Every file known, by absolute path."""
        columns = ", ".join(FileRecord.__dataclass_fields__)
        with database_errors(self.database):
            rows = self.connection.execute(f"SELECT {columns} FROM files").fetchall()
        return {row[0]: FileRecord(*row) for row in rows}

    def digests(self, absolutes: Iterable[str]) -> dict[str, str]:
        """The SHA-256 of each of these files that is indexed, by absolute path."""
        query = "SELECT sha256 FROM files WHERE absolute = ? AND status = 'indexed'"
        with database_errors(self.database):
            rows = ((path, self.connection.execute(query, (path,)).fetchone()) for path in absolutes)
            return {path: row[0] for path, row in rows if row is not None}

    def put(
        self,
        indexed: Sequence[IndexedFile] = (),
        skipped: Sequence[FileRecord] = (),
        touched: Sequence[FileRecord] = (),
    ) -> None:
        """Store a batch in one transaction.

        ``indexed`` files replace what was there, ``skipped`` ones lose their text, ``touched`` ones keep it.
        """
        with self.transaction():
            self._update(touched)
            for record in skipped:
                self._drop([record.absolute])
                self._insert_file(record)
            for file in indexed:
                self._drop([file.record.absolute])
                self._insert_document(self._insert_file(file.record), file)
            if indexed or skipped:
                self._changed()

    def _update(self, records: Sequence[FileRecord]) -> None:
        columns = [name for name in FileRecord.__dataclass_fields__ if name != "absolute"]
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        statement = f"UPDATE files SET {assignments} WHERE absolute = :absolute"
        self.connection.executemany(statement, [asdict(record) for record in records])

    def remove(self, absolutes: Sequence[str]) -> None:
        """Forget files and all that came of them, in one transaction."""
        with self.transaction():
            self._drop(absolutes)
            self._changed()

    def _drop(self, absolutes: Sequence[str]) -> None:
        of_file = "document_id = (SELECT id FROM files WHERE absolute = ?)"
        for absolute in absolutes:
            self.connection.execute(
                f"DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE {of_file})", (absolute,)
            )
            self.connection.execute("DELETE FROM files WHERE absolute = ?", (absolute,))

    def _insert_file(self, record: FileRecord) -> int:
        columns = list(FileRecord.__dataclass_fields__)
        values = ", ".join(f":{name}" for name in columns)
        cursor = self.connection.execute(
            f"INSERT INTO files ({', '.join(columns)}) VALUES ({values})", asdict(record)
        )
        return int(cursor.lastrowid or 0)

    def _insert_document(self, document_id: int, file: IndexedFile) -> None:
        self.connection.execute("INSERT INTO documents VALUES (?, ?)", (document_id, file.text))
        for chunk, vector in zip(file.chunks, file.vectors, strict=True):
            cursor = self.connection.execute(
                "INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    document_id, chunk.start, chunk.end, chunk.first_line, chunk.last_line,
                    chunk.title, chunk.page, vector.astype("<f4").tobytes(),
                ),
            )  # fmt: skip
            body = indexed_text(chunk.title, file.text[chunk.start : chunk.end])
            self.connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (cursor.lastrowid, body))

    def passage_count(self) -> int:
        """How many passages there are."""
        return int(self.connection.execute("SELECT count(*) FROM chunks").fetchone()[0])

    def vectors(self, dimension: int) -> tuple[NDArray[np.int64], Vectors]:
        """All chunk ids (n,) and vectors (n, dimension). IndexUnusable for a vector of another size."""
        with database_errors(self.database):
            rows = self.connection.execute("SELECT id, vector FROM chunks ORDER BY id").fetchall()
        if any(len(row[1]) != 4 * dimension for row in rows):
            raise IndexUnusable(f"{self.database}: a vector is damaged", hint=rebuild_hint(self.roots()))
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        flat = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4")
        return ids, flat.reshape(len(rows), dimension).astype(np.float32)

    def dense_record(self) -> DenseRecord | None:
        """What was recorded of the FAISS file, or None when none was written."""
        raw = self._get("dense")
        return None if raw is None else DenseRecord(**json.loads(raw))

    def record_dense(self, record: DenseRecord, reliability: str) -> None:
        """Remember the FAISS file just written, and how the embedder reads what is in it."""
        with self.transaction():
            self._set("dense", json.dumps(asdict(record)))
            self._set("reliability", reliability)

    def reliability(self) -> str:
        """What was found out about how the embedder reads the corpus, as JSON; empty when nothing was."""
        return self._get("reliability") or ""

    @property
    def dense_path(self) -> Path:
        """Where the FAISS file of this database lies."""
        return self.database.with_name(self.database.stem.replace("passages", "vectors") + ".faiss")


def _connect(database: Path, mode: str) -> sqlite3.Connection:
    with database_errors(database):
        return sqlite3.connect(
            f"{database.resolve().as_uri()}?mode={mode}",
            uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False,
        )  # fmt: skip
