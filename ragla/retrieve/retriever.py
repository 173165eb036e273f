"""A question to scored passages: dense and lexical search, blended by how far each can read the question."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from ragla.errors import IndexUnusable
from ragla.retrieve.dense import DenseIndex
from ragla.retrieve.faults import database_errors
from ragla.retrieve.lexical import best_matches, coverage, query_tokens, word_weights
from ragla.retrieve.passage import Passage, ScoredPassage
from ragla.retrieve.store import Store

if TYPE_CHECKING:
    from ragla.retrieve.embed import Embedder

# How many passages each search hands to the blend.
_POOL = 50
# How much the dense score says when the embedder knows every word: best of 0.3 to 0.8 in both recall and
# the distance between questions the documents answer and others.
_DENSE_SHARE = 0.7
# substr counts characters from 1; SQLite's characters are code points, as Python's are.
_PASSAGES = """
SELECT chunks.id, document_id, root, path, absolute, title, start, "end", first_line, last_line, page, vector,
       substr(text, start + 1, "end" - start) AS text
FROM chunks JOIN documents ON documents.id = document_id JOIN files ON files.id = document_id
WHERE chunks.id IN ({})
"""


class Retriever:
    """Searches one index. Safe to use from several threads, which take turns."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._turn = threading.Lock()
        self._generation = -1
        self._dense: DenseIndex
        self._labels: dict[str, str] = {}
        with database_errors(store.database):
            self._refresh()

    @classmethod
    def open(cls, index_dir: Path, embedder: Embedder) -> Retriever:
        """Open the index in ``index_dir``.

        Raises IndexUnusable when there is none, it is damaged, or it was made with another embedder.
        """
        store = Store.read(Path(index_dir))
        try:
            store.check_fingerprint(embedder.identity)
            return cls(store, embedder)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    @property
    def fingerprint(self) -> dict[str, str]:
        """What the index was made with."""
        with self._turn:
            return self._store.fingerprint()

    @property
    def passage_count(self) -> int:
        """How many passages the index holds."""
        with self._turn, database_errors(self._store.database):
            return self._store.passage_count()

    def document_text(self, document_id: int) -> str:
        """The whole text of a document. Raises IndexUnusable when it is no longer in the index."""
        with self._turn, database_errors(self._store.database):
            query = "SELECT text FROM documents WHERE id = ?"
            row = self._store.connection.execute(query, (document_id,)).fetchone()
        if row is None:
            raise IndexUnusable("the document was changed or removed meanwhile", hint="ask again")
        return str(row[0])

    def documents(self, document_ids: Iterable[int]) -> list[tuple[str, str]]:
        """Absolute path and SHA-256 of documents; one that was changed or removed since is missing."""
        query = "SELECT absolute, sha256 FROM files WHERE id = ?"
        with self._turn, database_errors(self._store.database):
            rows = [self._store.connection.execute(query, (row,)).fetchone() for row in document_ids]
        return [(row[0], row[1]) for row in rows if row is not None]

    def search(self, query: str, top_k: int = 4, floor: float = -1.0) -> list[ScoredPassage]:
        """The ``top_k`` passages scoring at least ``floor``, best first; possibly none.

        Scores lie in about [0, 1] whatever the language of the question.
        """
        vector = self._embedder.encode_query(query)
        readable = self._embedder.readable_share(query)
        with self._turn, self._store.transaction("DEFERRED") as connection:
            self._refresh()
            weights = word_weights(connection, query_tokens(query))
            nearest = [chunk_id for chunk_id, _ in self._dense.search(vector, _POOL)]
            pool = list(dict.fromkeys([*nearest, *best_matches(connection, list(weights), _POOL)]))
            covered = coverage(connection, weights, pool)
            found = [(self._passage(row), np.frombuffer(row["vector"], "<f4")) for row in self._rows(pool)]
        scored = [
            _scored(passage, float(passage_vector @ vector), covered[passage.id], readable)
            for passage, passage_vector in found
        ]
        scored.sort(key=lambda item: (-item.score, item.passage.id))
        return [item for item in scored[:top_k] if item.score >= floor]

    def rankings(self, query: str, limit: int) -> dict[str, list[Passage]]:
        """Up to ``limit`` passages by each way of searching alone and by both, best first."""
        vector = self._embedder.encode_query(query)
        with self._turn, self._store.transaction("DEFERRED") as connection:
            self._refresh()
            dense = [chunk_id for chunk_id, _ in self._dense.search(vector, limit)]
            lexical = best_matches(connection, query_tokens(query), limit)
            passages = {row["id"]: self._passage(row) for row in self._rows([*dense, *lexical])}
        return {
            "dense": [passages[chunk_id] for chunk_id in dense],
            "lexical": [passages[chunk_id] for chunk_id in lexical],
            "hybrid": [found.passage for found in self.search(query, limit)],
        }

    def _refresh(self) -> None:
        """Load the vectors anew when another process has changed the index. Within a transaction."""
        generation = self._store.generation()
        if generation != self._generation:
            self._dense = load_dense(self._store, self._embedder.dimension)
            self._labels = root_labels(self._store.roots())
            self._generation = generation

    def _rows(self, ids: list[int]) -> list[sqlite3.Row]:
        marks = ", ".join("?" * len(ids))
        cursor = self._store.connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(_PASSAGES.format(marks), ids).fetchall()

    def _passage(self, row: sqlite3.Row) -> Passage:
        label = self._labels[row["root"]]
        return Passage(
            row["id"], row["document_id"], label + row["path"], row["absolute"], row["title"], row["text"],
            row["start"], row["end"], row["first_line"], row["last_line"], row["page"],
        )  # fmt: skip


def load_dense(store: Store, dimension: int) -> DenseIndex:
    """The FAISS index of the store as it is now: from its file, or else from the vectors in the database."""
    record = store.dense_record()
    if record is not None and record.generation == store.generation() and record.dimension == dimension:
        loaded = DenseIndex.load(store.dense_path, record)
        if loaded is not None:
            return loaded
    ids, vectors = store.vectors(dimension)
    return DenseIndex.build(ids, vectors, dimension, record.factory if record else "Flat")


def root_labels(roots: list[str]) -> dict[str, str]:
    """What to put before a path for each root: nothing for one root, else its shortest telling name."""
    if len(roots) == 1:
        return {roots[0]: ""}
    parts = {root: PurePath(root).parts for root in roots}
    labels = {}
    for root, own in parts.items():
        depth = 1
        while depth < len(own) and any(
            other[-depth:] == own[-depth:] for r, other in parts.items() if r != root
        ):
            depth += 1
        labels[root] = PurePath(*own[-depth:]).as_posix() + "/"
    return labels


def _scored(passage: Passage, dense: float, lexical: float, readable: float) -> ScoredPassage:
    """Blend the two scores; dense counts as far as the embedder knows the question's words.

    To one that reads every second token as unknown, all texts of that language look alike, and its cosines
    are high noise.
    """
    trust = _DENSE_SHARE * min(1.0, max(0.0, 2 * readable - 1))
    return ScoredPassage(passage, trust * dense + (1 - trust) * lexical, dense, lexical)
