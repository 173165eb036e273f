"""Whether an index is whole: every check names what is wrong, where, and the command that mends it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragla.errors import IndexLocked, RaglaError
from ragla.retrieve.dense import verified_bytes
from ragla.retrieve.digests import document_digest, passage_digest, row_digest, vector_digest
from ragla.retrieve.layout import current_database, writing
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.selection import selections
from ragla.retrieve.store import Store

_NORM_TOLERANCE = 1e-3
_FILE_COLUMNS = ", ".join(FileRecord.__dataclass_fields__)
_DOCUMENTS = """
SELECT documents.id, absolute, root, path, sha256, status, text, documents.digest
FROM documents LEFT JOIN files USING (id)
"""
_CHUNKS = """
SELECT id, start, "end", first_line, last_line, title, page, digest, vector, vector_digest
FROM chunks WHERE document_id = ?
"""


@dataclass(frozen=True)
class Problem:
    """What is wrong, the file or document it is in, and the whole command that mends it."""

    what: str
    where: str
    mend: str


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``problems``: none where it is as it should be."""

    name: str
    problems: tuple[Problem, ...]


def check_index(index_dir: Path) -> list[Problem]:
    """Everything that is wrong with the index in ``index_dir``; empty for a whole one.

    What an interrupted run left for the next to finish is no damage. Raises IndexLocked while another
    process writes the index.
    """
    return [problem for check in checks(index_dir) for problem in check.problems]


def checks(index_dir: Path) -> Iterator[Check]:
    """Look at one thing after the other; where the database cannot be read, there is nothing more to see."""
    index_dir = Path(index_dir)
    database = current_database(index_dir)
    if database is None:
        yield Check("folder", (Problem("there is no index", str(index_dir), _command("FOLDER", index_dir)),))
        return
    yield Check("folder", ())
    with _alone(index_dir):
        try:
            store = Store.read(index_dir)
        except RaglaError as error:
            yield Check("database", (Problem(str(error), str(database), error.hint or ""),))
            return
        with closing(store):
            yield from _checks(store)


@contextlib.contextmanager
def _alone(index_dir: Path) -> Iterator[None]:
    """With nobody writing; to a folder that cannot be written nobody does."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(writing(index_dir))
        except IndexLocked:
            raise
        except RaglaError:
            pass
        yield


def _checks(store: Store) -> Iterator[Check]:
    roots = store.roots()
    rebuild = _command("--rebuild", *roots, store.database.parent)
    repair = _command("--repair", store.database.parent, verb="doctor")
    for name, look, mend in (
        ("database", _database, rebuild),
        ("records", _values, rebuild),
        ("files", _files, rebuild),
        ("passages", _documents, rebuild),
        ("words", _words, repair),
        ("vectors", _vectors, repair),
    ):
        try:
            found = tuple(Problem(what, where, mend) for what, where in look(store))
        except (sqlite3.Error, TypeError, ValueError) as error:  # a damaged row may hold anything
            found = (Problem(f"cannot be read: {error}", str(store.database), rebuild),)
        yield Check(name, found)


Found = Iterator[tuple[str, str]]


def _database(store: Store) -> Found:
    where = str(store.database)
    for row in store.connection.execute("PRAGMA integrity_check(5)"):
        if row[0] != "ok":
            yield f"SQLite finds damage: {row[0]}", where
    for row in store.connection.execute("PRAGMA foreign_key_check"):
        yield f"a row of {row[0]} belongs to nothing", where


def _values(store: Store) -> Found:
    for key, value, digest in store.connection.execute("SELECT key, value, digest FROM meta"):
        if row_digest((key, value)) != digest:
            yield f"the record {key!r} has changed on disk", str(store.database)


def _files(store: Store) -> Found:
    documents = {row[0] for row in store.connection.execute("SELECT id FROM documents")}
    for file_id, *values, digest in store.connection.execute(
        f"SELECT id, {_FILE_COLUMNS}, digest FROM files"
    ):
        record = FileRecord(*values)
        where = str(record.absolute)
        if row_digest(values) != digest:
            yield "what is known of a file has changed on disk", where
        elif record.status == "indexed" and (file_id not in documents or not record.sha256):
            yield "indexed, but its text is missing", where
        elif record.status != "indexed" and (file_id in documents or not record.reason):
            yield "skipped, but not as a skipped file is", where


def _documents(store: Store) -> Found:
    """Texts and their passages: one document at a time is in memory."""
    size = 4 * int(store.fingerprint().get("dimension", 0))
    for document_id, *row in store.connection.execute(_DOCUMENTS):
        absolute, root, path, sha256, _status, text, digest = row
        if document_digest(absolute, sha256, text) != digest:
            yield "its text has changed on disk", str(absolute)
            continue
        for chunk_id, *place, digest, vector, of_vector in store.connection.execute(_CHUNKS, (document_id,)):
            where = f"{absolute}, passage {chunk_id}"
            start, end, first, last, *_ = place
            identity = absolute, root, path, sha256
            if digest != passage_digest(chunk_id, identity, tuple(place), text[start:end]):
                yield "a passage has changed on disk", where
            elif not (0 <= start < end <= len(text) and 1 <= first <= last):
                yield "a passage lies outside its document", where
            if vector_digest(vector) != of_vector:
                yield "a vector has changed on disk", where
            elif len(vector) != size:
                yield "a vector has another size than the embedder's", where
            elif not abs(float(np.linalg.norm(np.frombuffer(vector, "<f4"))) - 1) < _NORM_TOLERANCE:
                yield "a vector has not length 1", where
    orphans = "SELECT count(*) FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)"
    if count := store.connection.execute(orphans).fetchone()[0]:
        yield f"{count} passages belong to no text", str(store.database)


def _words(store: Store) -> Found:
    """FTS5's own check is an INSERT that inserts nothing; it is rolled back all the same."""
    connection, where = store.connection, str(store.database)
    count = connection.execute("SELECT count(*) FROM words_content").fetchone()[0]
    if count != store.passage_count():
        yield f"{count} rows of words for {store.passage_count()} passages", where
    bodies = "SELECT chunks.id, c0, words_digest FROM chunks JOIN words_content USING (id)"
    changed = sum(row_digest(row[:2]) != row[2] for row in connection.execute(bodies))
    if changed:
        yield f"the words of {changed} passages have changed on disk", where
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
        connection.execute("PRAGMA query_only = ON")


def _vectors(store: Store) -> Found:
    """A file of an older generation is what an interrupted run leaves; readers do not use it."""
    record = store.dense_record()
    if record is None or record.generation != store.generation():
        return
    where = str(store.dense_path)
    if record.count != store.passage_count():
        yield f"{record.count} vectors recorded for {store.passage_count()} passages", where
    if not store.dense_path.is_file():
        yield "the file of vectors is missing", where
    elif verified_bytes(store.dense_path, record) is None:
        yield "the file of vectors is not the one that was written", where


def _command(*words: str | Path, verb: str = "index") -> str:
    """A command line; the last word is the folder of the index."""
    *rest, place = map(str, words)
    return shlex.join(["ragla", verb, *rest, "--index", place])


def content_hash(index_dir: Path) -> str:
    """SHA-256, in hex, of what is indexed: the same for one run and for many, whatever their order.

    Of every file: path, digest, state, text, passages with their places and vectors; the fingerprint; what
    folders are indexed with. Not of row ids and times. Raises IndexUnusable when there is no index.
    """
    digest = hashlib.sha256()
    with closing(Store.read(Path(index_dir))) as store, store.transaction("DEFERRED") as connection:
        chosen = {str(root): repr(selection) for root, selection in selections(store).items()}
        _feed(digest, (json.dumps(store.fingerprint(), sort_keys=True), json.dumps(chosen, sort_keys=True)))
        files = connection.execute(
            "SELECT files.id, root, path, sha256, status, reason, text"
            " FROM files LEFT JOIN documents USING (id) ORDER BY absolute"
        )
        for document_id, *content in files:
            _feed(digest, content)
            passages = connection.execute(
                'SELECT start, "end", first_line, last_line, title, page, vector FROM chunks'
                ' WHERE document_id = ? ORDER BY start, "end", id',
                (document_id,),
            )
            for passage in passages:
                _feed(digest, passage)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, values: Iterable[object]) -> None:
    """Add values so that no two lists of them are the same bytes."""
    for value in values:
        raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        digest.update(f"{type(value).__name__} {len(raw)}\n".encode() + raw)
