"""A question to scored passages: dense and lexical search, blended by how far each can read the question."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from ragla.errors import IndexUnusable
from ragla.retrieve import stored
from ragla.retrieve.blend import Evidence, blend
from ragla.retrieve.dense import FLAT, DenseIndex
from ragla.retrieve.explanation import Explanation
from ragla.retrieve.faults import database_errors
from ragla.retrieve.filters import Filters
from ragla.retrieve.fold import Decision, select
from ragla.retrieve.lexical import best_matches, coverage, query_tokens, telling, word_weights
from ragla.retrieve.passage import Passage, ScoredPassage
from ragla.retrieve.reliability import Reading, reading_for, readings
from ragla.retrieve.rerank import in_order, rerank
from ragla.retrieve.store import Store

if TYPE_CHECKING:
    from ragla.retrieve.embed import Embedder, Vectors
    from ragla.retrieve.rerank import Reranker

# How many passages each search hands to the blend.
POOL = 50
RERANKED = 20  # of them a reranker reads, unless told otherwise
_FILES = """
SELECT root, path, absolute, status, reason, id, (SELECT count(*) FROM chunks WHERE document_id = files.id)
FROM files ORDER BY absolute
"""
_OF_DOCUMENTS = "SELECT id FROM chunks WHERE document_id IN (SELECT value FROM json_each(?)) ORDER BY id"


@dataclass(frozen=True)
class FileState:
    """A file the index knows: its path as shown, whether it was indexed or why not, its passages."""

    path: str
    absolute: str
    status: str
    reason: str | None
    document_id: int
    passages: int


class Retriever:
    """Searches one index. Safe to use from several threads, which take turns.

    A ``reranker`` orders the first ``rerank_depth`` passages of the blend; no others are found then.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        reranker: Reranker | None = None,
        rerank_depth: int = RERANKED,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._reranker = reranker
        self._rerank_depth = rerank_depth
        self._turn = threading.Lock()
        self._filters = Filters()
        self._state: tuple[int, int | None] | None = None
        self._frequencies: dict[str, int] = {}
        self._dense: DenseIndex
        self._readings: dict[str, Reading] = {}
        self._labels: dict[str, str] = {}
        with database_errors(store.database):
            self._refresh()

    @classmethod
    def open(
        cls,
        index_dir: Path,
        embedder: Embedder,
        reranker: Reranker | None = None,
        rerank_depth: int = RERANKED,
    ) -> Retriever:
        """Open the index in ``index_dir``.

        Raises IndexUnusable when there is none, it is damaged, or it was made with another embedder.
        """
        store = Store.read(Path(index_dir))
        try:
            store.check_fingerprint(embedder.identity)
            return cls(store, embedder, reranker, rerank_depth)
        except BaseException:
            store.close()
            raise

    def reopened(self, index_dir: Path) -> Retriever:
        """Another with the same models, on the database that is current now. Raises as ``open``."""
        return Retriever.open(index_dir, self._embedder, self._reranker, self._rerank_depth)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def restrict(self, paths: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """Let every search that names no filters look at these documents only; see ``Filters``."""
        self._filters = Filters(tuple(paths), tuple(types))

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
            return self._text(document_id)

    def documents(self, document_ids: Iterable[int]) -> list[tuple[str, str]]:
        """Absolute path and SHA-256 of documents; one that was changed or removed since is missing."""
        query = "SELECT absolute, sha256 FROM files WHERE id = ?"
        with self._turn, database_errors(self._store.database):
            rows = [self._store.connection.execute(query, (row,)).fetchone() for row in document_ids]
        return [(row[0], row[1]) for row in rows if row is not None]

    def search(
        self, query: str, top_k: int = 4, floor: float = -1.0, filters: Filters | None = None
    ) -> list[ScoredPassage]:
        """The ``top_k`` passages scoring at least ``floor``, best first; possibly none.

        Scores lie in about [0, 1] whatever the language of the question. Copies of a passage are folded
        into it, neighbours joined. Raises UsageError where no document passes the filters.
        """
        return self.explain(query, top_k, floor, filters).kept

    def explain(
        self, query: str, top_k: int = 4, floor: float = -1.0, filters: Filters | None = None
    ) -> Explanation:
        """What a search finds, how each score came about, and what became of all that was ranked."""
        with self._turn:  # a tokenizer that truncates is for one thread at a time
            vector = self._embedder.encode_query(query)
        with self._turn, self._store.transaction("DEFERRED") as connection:
            self._refresh()
            evidence = self._evidence(query, vector)
            weights = word_weights(connection, query_tokens(query), self._frequencies)
            words = telling(connection, weights)
            among = self._among(self._filters if filters is None else filters)
            size = max(POOL, top_k)
            nearest = self._nearest(vector, size, among)
            bm25 = best_matches(connection, words, size, among)
            matched = list(bm25)
            pool = list(dict.fromkeys([*nearest, *matched]))
            bm25 |= best_matches(connection, words, size, [one for one in nearest if one not in bm25])
            covered = coverage(connection, weights, pool)
            parts = blend(pool, self._cosines(vector, pool), bm25, covered, evidence)
            passages = stored.passages(self._store, pool, self._labels)
            again = None
            if self._reranker is not None:
                again = rerank(self._reranker, query, parts, passages, self._rerank_depth)
            found, unread = in_order(parts, passages, again)
            kept, decisions = select(found, top_k, floor, functools.cache(self._text))
            decisions += [Decision(one, "not reranked") for one in unread]
        return Explanation(query, floor, evidence, weights, nearest, matched, parts, kept, decisions, again)

    def rankings(self, found: Explanation) -> dict[str, list[Passage]]:
        """The passages of a search by each way of searching alone and by both, best first."""
        with self._turn, database_errors(self._store.database):
            ids = [*found.by_cosine, *found.by_bm25]
            passages = stored.passages(self._store, ids, self._labels, all_there=False)
        return {
            "dense": [passages[chunk_id] for chunk_id in found.by_cosine if chunk_id in passages],
            "lexical": [passages[chunk_id] for chunk_id in found.by_bm25 if chunk_id in passages],
            "hybrid": [scored.passage for scored in found.kept],
        }

    def files(self) -> list[FileState]:
        """Every file the index knows, skipped ones too."""
        with self._turn, database_errors(self._store.database):
            self._refresh()
            self._store.files()  # raises where a row is not as it was stored
            rows = self._store.connection.execute(_FILES).fetchall()
        return [FileState(self._labels[row[0]] + row[1], *row[2:]) for row in rows]

    def places(self, query: str, document_id: int) -> tuple[int, int | None]:
        """At which place of the whole index, from 1, a document's best passage is: by cosine, by BM25.

        None for a document with no word of the question. Raises IndexUnusable for one without passages.
        """
        with self._turn:
            vector = self._embedder.encode_query(query)
        with self._turn, self._store.transaction("DEFERRED") as connection:
            self._refresh()
            rows = connection.execute("SELECT id FROM chunks WHERE document_id = ?", (document_id,))
            ours = {int(row[0]) for row in rows}
            by_cosine = self._nearest(vector, self._dense.count, None)
            words = telling(connection, word_weights(connection, query_tokens(query)))
            by_bm25 = list(best_matches(connection, words, self._dense.count))
        places = [
            next((at for at, chunk_id in enumerate(ranked, 1) if chunk_id in ours), None)
            for ranked in (by_cosine, by_bm25)
        ]
        if places[0] is None:
            raise IndexUnusable("the document was changed or removed meanwhile", hint="ask again")
        return places[0], places[1]

    def _refresh(self) -> None:
        """Load the vectors anew when another process has changed the index. Within a transaction."""
        record = self._store.dense_record()
        state = (self._store.generation(), record.generation if record else None)
        if state != self._state:
            self._dense = load_dense(self._store, self._embedder.dimension)
            self._readings = readings(self._store)
            self._labels = root_labels(self._store.roots())
            self._frequencies.clear()
            self._state = state

    def _evidence(self, query: str, vector: Vectors) -> Evidence:
        """How far the dense search can be believed for this question."""
        readable = self._embedder.readable_share(query)
        reading = reading_for(self._readings, query)
        if reading is None:
            return Evidence(readable, 1.0, 0.0)
        return Evidence(readable, reading.found_again, max(0.0, reading.background(vector)))

    def _among(self, filters: Filters) -> list[int] | None:
        """Ids of the passages that filters let through; None where nothing is filtered."""
        if not filters:
            return None
        connection = self._store.connection
        files = connection.execute("SELECT id, root, path FROM files WHERE status = 'indexed'").fetchall()
        documents = filters.document_ids([(row[0], row[2], self._labels[row[1]] + row[2]) for row in files])
        rows = connection.execute(_OF_DOCUMENTS, (json.dumps(documents),))
        return [int(row[0]) for row in rows]

    def _nearest(self, vector: Vectors, limit: int, among: list[int] | None) -> list[int]:
        """Chunk ids by cosine, best first; compared one by one where the FAISS index would miss some."""
        if self._dense.is_exact or (among is None and limit < self._dense.count):
            chosen = None if among is None else np.array(among, dtype=np.int64)
            return [chunk_id for chunk_id, _ in self._dense.search(vector, limit, chosen)]
        if among is None:
            among = [int(row[0]) for row in self._store.connection.execute("SELECT id FROM chunks")]
        cosines = self._cosines(vector, among)
        return sorted(cosines, key=lambda chunk_id: (-cosines[chunk_id], chunk_id))[:limit]

    def _cosines(self, vector: Vectors, ids: Sequence[int]) -> dict[int, float]:
        return stored.cosines(self._store, vector, ids)

    def _text(self, document_id: int) -> str:
        return stored.text(self._store, document_id)


def load_dense(store: Store, dimension: int) -> DenseIndex:
    """The FAISS index of the store as it is now: from its file, or else from the vectors in the database."""
    record = store.dense_record()
    if record is not None and record.generation == store.generation() and record.dimension == dimension:
        loaded = DenseIndex.load(store.dense_path, record)
        if loaded is not None:
            return loaded
    made = (record.factory, record.parameters) if record else (FLAT, "")
    return DenseIndex.build(lambda: store.vector_blocks(dimension), store.passage_count(), dimension, *made)


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
