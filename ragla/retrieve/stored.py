"""What an index holds, read back: passages, texts and vectors, each held against its digest before use."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ragla.errors import IndexUnusable
from ragla.retrieve.digests import document_digest, passage_digest, vector_digest
from ragla.retrieve.embed import Vectors
from ragla.retrieve.faults import damaged
from ragla.retrieve.passage import Passage
from ragla.retrieve.store import Store

# Without the text, which SQLite would read whole for each passage of a document.
_PASSAGES = """
SELECT chunks.id, document_id, root, path, absolute, sha256, title, start, "end", first_line, last_line, page,
       chunks.digest
FROM chunks JOIN files ON files.id = document_id
WHERE chunks.id IN (SELECT value FROM json_each(?)) ORDER BY document_id
"""
_TEXT = """
SELECT absolute, sha256, passages, text, documents.digest FROM documents JOIN files USING (id) WHERE id = ?
"""
_VECTORS = "SELECT id, vector, vector_digest FROM chunks WHERE id IN (SELECT value FROM json_each(?))"


def passages(
    store: Store, ids: Sequence[int], labels: Mapping[str, str], all_there: bool = True
) -> dict[int, Passage]:
    """The passages with these ids. ``labels``: what to put before a path, by root.

    ``all_there``: the ids come from the transaction that is open, so that none can be gone meanwhile.
    Raises IndexUnusable where one is missing then, or is not, to the byte, what was stored.
    """
    cursor = store.connection.cursor()
    cursor.row_factory = sqlite3.Row
    rows = cursor.execute(_PASSAGES, (json.dumps(list(ids)),)).fetchall()
    found: dict[int, Passage] = {}
    for document_id, of_document in itertools.groupby(rows, lambda row: row["document_id"]):
        query = "SELECT text FROM documents WHERE id = ?"
        whole = store.connection.execute(query, (document_id,)).fetchone()
        if whole is not None:
            found |= {row["id"]: _passage(store, row, whole[0], labels) for row in of_document}
    if all_there:
        _check_all_there(store, ids, found)
    return found


def _passage(store: Store, row: sqlite3.Row, whole: str, labels: Mapping[str, str]) -> Passage:
    file = row["absolute"], row["root"], row["path"], row["sha256"]
    start, end, title, page = row["start"], row["end"], row["title"], row["page"]
    first, last = row["first_line"], row["last_line"]
    try:
        text = whole[start:end]
    except TypeError:  # damaged rows hold anything
        text = ""
    digest = passage_digest(row["id"], file, (start, end, first, last, title, page), text)
    if digest != row["digest"]:
        raise damaged(store.database, "a passage has changed on disk")
    path = labels[row["root"]] + row["path"]
    return Passage(
        row["id"], row["document_id"], path, row["absolute"], title, text, start, end, first, last, page
    )


def text(store: Store, document_id: int) -> str:
    """The whole text of a document. Raises IndexUnusable when it is gone, or is not what was stored."""
    row = store.connection.execute(_TEXT, (document_id,)).fetchone()
    if row is None:
        raise IndexUnusable("the document was changed or removed meanwhile", hint="ask again")
    absolute, sha256, count, whole, digest = row
    if document_digest(absolute, sha256, count, whole) != digest:
        raise damaged(store.database, "a text has changed on disk")
    return str(whole)


def cosines(store: Store, vector: Vectors, ids: Sequence[int]) -> dict[int, float]:
    """The cosine of ``vector`` (dimension,) with each of these passages. Raises as ``passages``."""
    found = {}
    for chunk_id, blob, digest in store.connection.execute(_VECTORS, (json.dumps(list(ids)),)):
        if vector_digest(blob) != digest:
            raise damaged(store.database, "a vector has changed on disk")
        found[int(chunk_id)] = float(np.frombuffer(blob, "<f4") @ vector)
    _check_all_there(store, ids, found)
    return found


def _check_all_there(store: Store, ids: Sequence[int], found: Collection[int]) -> None:
    if len(found) != len(set(ids)):
        raise damaged(store.database, "a passage is missing")
