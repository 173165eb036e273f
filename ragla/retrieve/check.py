"""Whether an index is whole: every check names what is wrong, where, and the command that mends it."""

from __future__ import annotations

import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragla.errors import IndexUnusable
from ragla.retrieve.dense import verified_bytes
from ragla.retrieve.layout import current_database, writing
from ragla.retrieve.selection import selections
from ragla.retrieve.store import Store

_NORM_TOLERANCE = 1e-3
_CHUNKS = """
SELECT chunks.id, files.absolute, start, "end", first_line, last_line, length(text), vector
FROM chunks LEFT JOIN documents ON documents.id = document_id LEFT JOIN files ON files.id = document_id
ORDER BY chunks.id
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
    with writing(index_dir):
        try:
            store = Store.read(index_dir)
        except IndexUnusable as error:
            yield Check("database", (Problem(str(error), str(database), error.hint or ""),))
            return
        with closing(store):
            yield from _checks(store)


def _checks(store: Store) -> Iterator[Check]:
    roots = store.roots()
    rebuild = _command("--rebuild", *roots, store.database.parent)
    repair = _command("--repair", store.database.parent, verb="doctor")
    for name, look, mend in (
        ("database", _database, rebuild),
        ("files", _files, rebuild),
        ("passages", _passages, rebuild),
        ("words", _words, repair),
        ("vectors", _vectors, repair),
    ):
        try:
            found = tuple(Problem(what, where, mend) for what, where in look(store))
        except sqlite3.Error as error:
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


def _files(store: Store) -> Found:
    indexed = "SELECT absolute FROM files WHERE id {} IN (SELECT id FROM documents) AND {}"
    for where, what in (
        (indexed.format("NOT", "status = 'indexed'"), "indexed, but its text is missing"),
        (indexed.format("", "status <> 'indexed'"), "not indexed, but its text is there"),
        ("SELECT absolute FROM files WHERE status = 'indexed' AND sha256 IS NULL", "its digest is missing"),
        (
            "SELECT absolute FROM files WHERE status = 'skipped' AND reason IS NULL",
            "skipped without a reason",
        ),
    ):
        for row in store.connection.execute(where):
            yield what, str(row[0])


def _passages(store: Store) -> Found:
    size = 4 * int(store.fingerprint().get("dimension", 0))
    for chunk_id, absolute, start, end, first, last, length, vector in store.connection.execute(_CHUNKS):
        where = f"{absolute}, passage {chunk_id}"
        if length is None or not 0 <= start < end <= length:
            yield "a passage lies outside its document", where
        elif not 1 <= first <= last:
            yield "a passage has impossible lines", where
        if len(vector) != size:
            yield "a vector has another size than the embedder's", where
            continue
        norm = float(np.linalg.norm(np.frombuffer(vector, "<f4").astype(np.float64)))
        if not abs(norm - 1) < _NORM_TOLERANCE:
            yield "a vector is damaged", where


def _words(store: Store) -> Found:
    """FTS5's own check is an INSERT that inserts nothing; it is rolled back all the same."""
    connection, where = store.connection, str(store.database)
    count = connection.execute("SELECT count(*) FROM words_content").fetchone()[0]
    if count != store.passage_count():
        yield f"{count} rows of words for {store.passage_count()} passages", where
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
