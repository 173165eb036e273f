"""The passages of an index on this machine: SQLite for text and words, FAISS for vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ragla.retrieve import lexical, soundness, stored
from ragla.retrieve.dense import FLAT, DenseIndex
from ragla.retrieve.embed import Vectors
from ragla.retrieve.faults import database_errors
from ragla.retrieve.passage import Passage
from ragla.retrieve.passage_store import State, StoredFile
from ragla.retrieve.rows import IndexedFile
from ragla.retrieve.store import Store

_FILES = """
SELECT id, absolute, root, path, sha256, status, reason,
       (SELECT count(*) FROM chunks WHERE document_id = files.id)
FROM files
"""
_OF_DOCUMENTS = "SELECT id FROM chunks WHERE document_id IN (SELECT value FROM json_each(?)) ORDER BY id"


class LocalPassages:
    """A ``PassageStore`` over an open index database; vectors of ``dimension`` numbers."""

    def __init__(self, store: Store, dimension: int) -> None:
        self._store = store
        self._dimension = dimension
        self._dense_state: tuple[int, int | None] | None = None
        self._loaded: DenseIndex
        self._frequencies: dict[str, int] = {}
        with database_errors(store.database):
            self._dense()

    @property
    def place(self) -> str:
        """The folder of the index."""
        return str(self._store.database.parent)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One transaction."""
        with self._store.transaction("DEFERRED"):
            yield

    def state(self) -> State:
        """Read from the database."""
        with database_errors(self._store.database):
            return State.of(self._store)

    def put(self, files: Sequence[IndexedFile]) -> None:
        """In one transaction. A file that is there as it is stays; any other gets new ids."""
        known = self._store.digests(file.record.absolute for file in files)
        new = [file for file in files if known.get(file.record.absolute) != file.record.sha256]
        if new:
            self._store.put(new)

    def remove(self, absolutes: Sequence[str]) -> None:
        """In one transaction."""
        self._store.remove(absolutes)

    def files(self) -> list[StoredFile]:
        """Every row, held against its digest."""
        with database_errors(self._store.database):
            self._store.files()  # raises where a row is not as it was stored
            rows = self._store.connection.execute(_FILES + " ORDER BY absolute").fetchall()
        return [StoredFile(*row) for row in rows]

    def documents(self, ids: Iterable[int] | None = None) -> list[StoredFile]:
        """By primary key."""
        query = _FILES + " WHERE status = 'indexed'"
        wanted = None if ids is None else (json.dumps(list(ids)),)
        if wanted is not None:
            query += " AND id IN (SELECT value FROM json_each(?)) ORDER BY id"
        with database_errors(self._store.database):
            rows = self._store.connection.execute(query, wanted or ()).fetchall()
        return [StoredFile(*row) for row in rows]

    def digests(self, absolutes: Iterable[str]) -> dict[str, str]:
        """One look-up for each."""
        return self._store.digests(absolutes)

    def passage_count(self) -> int:
        """Counted by the database."""
        with database_errors(self._store.database):
            return self._store.passage_count()

    def nearest(self, vector: Vectors, limit: int, documents: Sequence[int] | None = None) -> list[int]:
        """By FAISS; compared one by one where the FAISS index would miss some."""
        if limit < 1:
            return []
        dense, among = self._dense(), self._of(documents)
        if dense.is_exact or (among is None and limit < dense.count):
            chosen = None if among is None else np.array(among, dtype=np.int64)
            return [chunk_id for chunk_id, _ in dense.search(vector, limit, chosen)]
        if among is None:
            among = [int(row[0]) for row in self._store.connection.execute("SELECT id FROM chunks")]
        cosines = self.cosines(vector, among)
        return sorted(cosines, key=lambda chunk_id: (-cosines[chunk_id], chunk_id))[:limit]

    def cosines(self, vector: Vectors, ids: Sequence[int]) -> dict[int, float]:
        """From the vectors in the database, each held against its digest."""
        return stored.cosines(self._store, vector, ids)

    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        """Counted once for as long as the passages stay."""
        self._dense()
        return lexical.frequencies(self._store.connection, tokens, self._frequencies)

    def best_matches(
        self, tokens: Sequence[str], limit: int, documents: Sequence[int] | None = None
    ) -> dict[int, float]:
        """By FTS5."""
        return lexical.best_matches(self._store.connection, tokens, limit, self._of(documents))

    def bm25(self, tokens: Sequence[str], ids: Sequence[int]) -> dict[int, float]:
        """By FTS5."""
        return lexical.best_matches(self._store.connection, tokens, len(ids), ids)

    def coverage(self, weights: Mapping[str, float], ids: Sequence[int]) -> dict[int, float]:
        """By FTS5."""
        return lexical.coverage(self._store.connection, dict(weights), ids)

    def passages(
        self, ids: Sequence[int], labels: Mapping[str, str], all_there: bool = True
    ) -> dict[int, Passage]:
        """Each held against its digest."""
        with database_errors(self._store.database):
            return stored.passages(self._store, ids, labels, all_there)

    def text(self, document_id: int) -> str:
        """Held against its digest."""
        with database_errors(self._store.database):
            return stored.text(self._store, document_id)

    def problems(self) -> list[tuple[str, str]]:
        """Those of rows and vectors; ``ragla.retrieve.check`` looks at the rest of an index folder, too."""
        looks = (
            soundness.value_problems, soundness.file_problems, soundness.document_problems,
            soundness.words_problems, soundness.vector_problems,
        )  # fmt: skip
        with database_errors(self._store.database):
            return [problem for look in looks for problem in look(self._store)]

    def _of(self, documents: Sequence[int] | None) -> list[int] | None:
        """Ids of the passages of documents."""
        if documents is None:
            return None
        rows = self._store.connection.execute(_OF_DOCUMENTS, (json.dumps(list(documents)),))
        return [int(row[0]) for row in rows]

    def _dense(self) -> DenseIndex:
        """The vectors as they are now: loaded anew when another process has changed the index."""
        record = self._store.dense_record()
        state = (self._store.generation(), record.generation if record else None)
        if state != self._dense_state:
            self._loaded = load_dense(self._store, self._dimension)
            self._frequencies.clear()
            self._dense_state = state
        return self._loaded


def load_dense(store: Store, dimension: int) -> DenseIndex:
    """The FAISS index of the store as it is now: from its file, or else from the vectors in the database."""
    record = store.dense_record()
    if record is not None and record.generation == store.generation() and record.dimension == dimension:
        loaded = DenseIndex.load(store.dense_path, record)
        if loaded is not None:
            return loaded
    made = (record.factory, record.parameters) if record else (FLAT, "")
    return DenseIndex.build(lambda: store.vector_blocks(dimension), store.passage_count(), dimension, *made)
