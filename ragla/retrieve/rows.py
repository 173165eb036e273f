"""The rows of an index: what is kept of a file, and how it is written and dropped, digests included."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass

from ragla.retrieve.chunk import Chunk
from ragla.retrieve.digests import document_digest, passage_digest, row_digest, vector_digest
from ragla.retrieve.embed import Vectors
from ragla.retrieve.lexical import indexed_text


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


def insert_file(connection: sqlite3.Connection, record: FileRecord) -> int:
    """A new file row; its id."""
    columns = (*FileRecord.__dataclass_fields__, "digest")
    values = ", ".join(f":{name}" for name in columns)
    cursor = connection.execute(
        f"INSERT INTO files ({', '.join(columns)}) VALUES ({values})", _with_digest(record)
    )
    return int(cursor.lastrowid or 0)


def update_files(connection: sqlite3.Connection, records: Iterable[FileRecord]) -> None:
    """Write anew what is known of files; their texts stay."""
    columns = [name for name in FileRecord.__dataclass_fields__ if name != "absolute"]
    assignments = ", ".join(f"{name} = :{name}" for name in (*columns, "digest"))
    statement = f"UPDATE files SET {assignments} WHERE absolute = :absolute"
    connection.executemany(statement, [_with_digest(record) for record in records])


def insert_document(connection: sqlite3.Connection, file: IndexedFile) -> None:
    """A new file with its text, passages, vectors and words."""
    record, text = file.record, file.text
    document_id = insert_file(connection, record)
    count = len(file.chunks)
    digest = document_digest(record.absolute, record.sha256, count, text)
    connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?)", (document_id, text, count, digest))
    identity = record.absolute, record.root, record.path, record.sha256
    last = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'chunks'"
    first_id = (connection.execute(last).fetchone()[0] or 0) + 1
    chunks, words = [], []
    for chunk_id, (chunk, vector) in enumerate(zip(file.chunks, file.vectors, strict=True), first_id):
        place = chunk.start, chunk.end, chunk.first_line, chunk.last_line, chunk.title, chunk.page
        part, blob = text[chunk.start : chunk.end], vector.astype("<f4").tobytes()
        digest = passage_digest(chunk_id, identity, place, part)
        body = chunk_id, indexed_text(chunk.title, part)
        chunks.append((chunk_id, document_id, *place, blob, digest, vector_digest(blob), row_digest(body)))
        words.append(body)
    connection.executemany(f"INSERT INTO chunks VALUES ({', '.join('?' * 12)})", chunks)
    connection.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", words)


def drop_files(connection: sqlite3.Connection, absolutes: Iterable[str]) -> None:
    """Delete files and all that came of them."""
    passages = "SELECT id FROM chunks WHERE document_id = (SELECT id FROM files WHERE absolute = ?)"
    for absolute in absolutes:
        connection.execute(f"DELETE FROM words WHERE rowid IN ({passages})", (absolute,))
        connection.execute("DELETE FROM files WHERE absolute = ?", (absolute,))


def _with_digest(record: FileRecord) -> dict[str, object]:
    return asdict(record) | {"digest": row_digest(astuple(record))}
