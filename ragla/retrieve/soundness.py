"""What can be wrong inside one database of an index; each look yields what is wrong and where."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import numpy as np

from ragla.retrieve.dense import is_recorded
from ragla.retrieve.digests import document_digest, passage_digest, row_digest, vector_digest
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.store import Store

_NORM_TOLERANCE = 1e-3
_FILE_COLUMNS = ", ".join(FileRecord.__dataclass_fields__)
_DOCUMENTS = """
SELECT documents.id, absolute, root, path, sha256, passages, text, documents.digest
FROM documents LEFT JOIN files USING (id)
"""
_CHUNKS = """
SELECT id, start, "end", first_line, last_line, title, page, digest, vector, vector_digest
FROM chunks WHERE document_id = ?
"""


Found = Iterator[tuple[str, str]]
Look = Callable[[Store], Found]


def database_problems(store: Store) -> Found:
    """What SQLite finds in its pages, indexes and references."""
    where = str(store.database)
    for row in store.connection.execute("PRAGMA integrity_check(5)"):
        if row[0] != "ok":
            yield f"SQLite finds damage: {row[0]}", where


def value_problems(store: Store) -> Found:
    """Single values that were changed on disk."""
    for key, value, digest in store.connection.execute("SELECT key, value, digest FROM meta"):
        if row_digest((key, value)) != digest:
            yield f"the record {key!r} has changed on disk", str(store.database)


def file_problems(store: Store) -> Found:
    """Files of which the record was changed, or does not fit what is there of them."""
    for _, what, where, _ in damaged_files(store):
        yield what, where


def damaged_files(store: Store) -> Iterator[tuple[int, str, str, bool]]:
    """Id, what and where, and whether not even the record of the file is as it was written."""
    documents = {row[0] for row in store.connection.execute("SELECT id FROM documents")}
    for file_id, *values, digest in store.connection.execute(
        f"SELECT id, {_FILE_COLUMNS}, digest FROM files"
    ):
        record = FileRecord(*values)
        where = str(record.absolute)
        if row_digest(values) != digest:
            yield file_id, "what is known of a file has changed on disk", where, True
        elif record.status == "indexed" and (file_id not in documents or not record.sha256):
            yield file_id, "indexed, but its text is missing", where, False
        elif record.status != "indexed" and (file_id in documents or not record.reason):
            yield file_id, "skipped, but not as a skipped file is", where, False


def damaged_documents(store: Store) -> Iterator[int]:
    """Ids of the documents of which a text, a passage or a vector is not what was stored."""
    return (document_id for document_id, _, _ in _in_documents(store))


def document_problems(store: Store) -> Found:
    """Texts, passages and vectors that are not what was stored."""
    for _, what, where in _in_documents(store):
        yield what, where
    if count := orphans(store):
        yield f"{count} passages belong to no text", str(store.database)


def _is_unit(vector: bytes) -> bool:
    """Whether a vector has length 1; or 0, which an embedder gives a text of which it knows no token."""
    norm = float(np.linalg.norm(np.frombuffer(vector, "<f4")))
    return norm == 0 or abs(norm - 1) < _NORM_TOLERANCE


def orphans(store: Store) -> int:
    """Passages of documents that are not there."""
    query = "SELECT count(*) FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)"
    return int(store.connection.execute(query).fetchone()[0])


def _in_documents(store: Store) -> Iterator[tuple[int, str, str]]:
    """Document id, what and where. One document at a time is in memory."""
    size = 4 * int(store.fingerprint().get("dimension", 0))
    for document_id, *row in store.connection.execute(_DOCUMENTS):
        absolute, root, path, sha256, count, text, digest = row
        if document_digest(absolute, sha256, count, text) != digest:
            yield document_id, "its text has changed on disk", str(absolute)
            continue
        passages = store.connection.execute(_CHUNKS, (document_id,)).fetchall()
        if len(passages) != count:
            yield document_id, f"{len(passages)} passages, where {count} were stored", str(absolute)
        for chunk_id, *place, digest, vector, of_vector in passages:
            where = f"{absolute}, passage {chunk_id}"
            start, end, first, last, *_ = place
            identity = absolute, root, path, sha256
            if digest != passage_digest(chunk_id, identity, tuple(place), text[start:end]):
                yield document_id, "a passage has changed on disk", where
            elif not (0 <= start < end <= len(text) and 1 <= first <= last):
                yield document_id, "a passage lies outside its document", where
            if vector_digest(vector) != of_vector:
                yield document_id, "a vector has changed on disk", where
            elif len(vector) != size:
                yield document_id, "a vector has another size than the embedder's", where
            elif not _is_unit(vector):
                yield document_id, "a vector has not length 1", where


def words_problems(store: Store) -> Found:
    """FTS5's own check is an INSERT that inserts nothing; it is rolled back all the same."""
    connection, where = store.connection, str(store.database)
    count = connection.execute("SELECT count(*) FROM words_content").fetchone()[0]
    if count != store.passage_count():
        yield f"{count} rows of words for {store.passage_count()} passages", where
    bodies = "SELECT chunks.id, c0, words_digest FROM chunks JOIN words_content USING (id)"
    changed = sum(row_digest(row[:2]) != row[2] for row in connection.execute(bodies))
    if changed:
        yield f"the words of {changed} passages have changed on disk", where
    was_read_only = connection.execute("PRAGMA query_only").fetchone()[0]
    connection.execute("PRAGMA query_only = OFF")
    try:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
            return  # a folder that is only to be read: nothing can be asked of FTS5 there
        yield f"the index of words is damaged: {error}", where
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA query_only = {was_read_only}")


def vector_problems(store: Store) -> Found:
    """A file of an older generation is what an interrupted run leaves; readers do not use it."""
    record = store.dense_record()
    if record is None or record.generation != store.generation():
        return
    where = str(store.dense_path)
    if record.count != store.passage_count():
        yield f"{record.count} vectors recorded for {store.passage_count()} passages", where
    if not store.dense_path.is_file():
        yield "the file of vectors is missing", where
    elif not is_recorded(store.dense_path, record):
        yield "the file of vectors is not the one that was written", where
