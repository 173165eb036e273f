"""Mends an index as far as that is possible without reading a document, and says what is left to do."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from ragla.errors import IndexUnusable
from ragla.retrieve import rows, schema
from ragla.retrieve.dense import is_recorded, write_dense
from ragla.retrieve.digests import row_digest
from ragla.retrieve.faults import database_errors, file_errors
from ragla.retrieve.generations import find_generations
from ragla.retrieve.layout import generations, leftovers, point_to, sweep, writing
from ragla.retrieve.lexical import indexed_text
from ragla.retrieve.migrate import check_version
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.soundness import damaged_documents, damaged_files, orphans, words_problems
from ragla.retrieve.store import Store

DAMAGED = "its text was damaged on disk; the next `ragla index` reads it again"
_NEEDED = ("schema_version", "fingerprint")
# What the next run finds out again, or what is only noted.
_DERIVED = ("dense", "reliability", "measured", "changed_at", "open_run", "generation", "roots")
_PASSAGES = """
SELECT chunks.id, title, substr(text, start + 1, "end" - start)
FROM chunks JOIN documents ON documents.id = document_id
"""


def repair(index_dir: Path) -> Iterator[str]:
    """Mend what can be mended; yields what was done, in words.

    Raises IndexUnusable where there is no index, or its database can be neither read nor written;
    IndexLocked while another process writes.
    """
    index_dir = Path(index_dir).resolve()
    if not index_dir.is_dir():
        raise IndexUnusable(f"{index_dir}: no index here", hint="ragla index FOLDER")
    with writing(index_dir):
        yield from _point_again(index_dir)
        count = len(leftovers(index_dir))
        sweep(index_dir)
        if count:
            yield f"deleted files that interrupted runs had left: {count}"
        found = generations(index_dir)
        if found is None:
            return
        with closing(Store.open_to_write(found.current)) as store, database_errors(found.current):
            check_version(store.database, store.connection)
            yield from _repair_database(store)


def _point_again(index_dir: Path) -> Iterator[str]:
    if generations(index_dir) is not None:
        return
    found = find_generations(index_dir)
    if found is not None:
        point_to(found.current, found.previous)
        yield f"{found.current.name}, the latest that can be read, is current again"


def _repair_database(store: Store) -> Iterator[str]:
    yield from _indexes(store)
    if store.connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        return  # pages are lost: whatever is written there now may damage more
    yield from _values(store)
    yield from _content(store)
    yield from _vectors(store)


def _indexes(store: Store) -> Iterator[str]:
    """Indexes that do not say what their tables do can be made anew from them."""
    check = "PRAGMA integrity_check(1)"
    if store.connection.execute(check).fetchone()[0] == "ok":
        return
    with store.transaction() as connection:
        connection.execute("REINDEX")
    if store.connection.execute(check).fetchone()[0] == "ok":
        yield "made the database's indexes anew"


def _values(store: Store) -> Iterator[str]:
    """Values that were changed on disk: those that can be found out again are forgotten until then."""
    found = store.connection.execute("SELECT key, value, digest FROM meta").fetchall()
    changed = [str(key) for key, value, digest in found if row_digest((key, value)) != digest]
    lost = sorted(key for key in changed if key not in _NEEDED)
    if not lost and store.value("generation") is not None:
        return
    with store.transaction():
        for key in lost:
            store.set_value(key, None)
        if store.value("generation") is None:  # larger than any before, so that a reader notices
            store.set_value("generation", str(time.time_ns()))
        store.note_roots()
    yield f"forgot records that had changed on disk: {', '.join(lost)}"
    if not set(lost) <= set(_DERIVED):
        yield "which files are wanted is forgotten: give --include, --exclude, --hidden and --no-ignore again"


def _content(store: Store) -> Iterator[str]:
    words = list(words_problems(store))
    files = list(damaged_files(store))
    forgotten = [file_id for file_id, _, _, is_record in files if is_record]
    damaged = {file_id for file_id, _, _, is_record in files if not is_record}
    damaged |= set(damaged_documents(store)) - set(forgotten)
    if not (words or files or damaged or orphans(store)):
        return
    with store.transaction() as connection:
        if words:
            connection.execute("DROP TABLE words")
            schema.create_words(connection)
        marked = _mark(connection, damaged)
        connection.executemany("DELETE FROM files WHERE id = ?", [(file_id,) for file_id in forgotten])
        connection.execute("DELETE FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)")
        if words:
            _fill_words(connection)
        else:
            connection.execute("DELETE FROM words WHERE rowid NOT IN (SELECT id FROM chunks)")
        store.note_change()
    if forgotten:
        yield f"forgot files with a damaged record, which the next `ragla index` reads: {len(forgotten)}"
    if marked:
        yield f"took out damaged documents, which the next `ragla index` reads again: {marked}"
    if words:
        yield "made the index of words anew"


def _mark(connection: sqlite3.Connection, damaged: set[int]) -> int:
    """Take out what came of damaged documents; without a digest their files are read by the next run.

    Returns how many there were.
    """
    columns = ", ".join(FileRecord.__dataclass_fields__)
    marked = 0
    for file_id in sorted(damaged):
        row = connection.execute(f"SELECT {columns} FROM files WHERE id = ?", (file_id,)).fetchone()
        if row is not None:
            record = replace(FileRecord(*row), status="skipped", sha256=None, reason=DAMAGED)
            connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
            rows.insert_file(connection, record)
            marked += 1
    return marked


def _fill_words(connection: sqlite3.Connection) -> None:
    for chunk_id, title, text in connection.execute(_PASSAGES).fetchall():
        body = indexed_text(title, text)
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (chunk_id, body))
        digest = row_digest((chunk_id, body))
        connection.execute("UPDATE chunks SET words_digest = ? WHERE id = ?", (digest, chunk_id))


def _vectors(store: Store) -> Iterator[str]:
    """Write the file of vectors anew where it is not that of the passages as they are now."""
    record = store.dense_record()
    if record is None or (
        record.generation == store.generation()
        and is_recorded(store.dense_path, record)
        and record.count == store.passage_count()
    ):
        return
    if rewrite_vectors(store):
        yield "wrote the file of vectors anew"


def rewrite_vectors(store: Store) -> bool:
    """Write the FAISS file from the vectors in the database; whether there was one to go by.

    How the embedder reads the corpus is not measured anew: the next ``ragla index`` does.
    """
    record = store.dense_record()
    if record is None:
        return False
    dimension = record.dimension
    with file_errors(store.dense_path):
        written = write_dense(
            store.dense_path, lambda: store.vector_blocks(dimension), store.passage_count(),
            dimension, store.generation(), record.factory, record.parameters,
        )  # fmt: skip
    with store.transaction():
        store.set_value("dense", json.dumps(asdict(written)))
    return True
