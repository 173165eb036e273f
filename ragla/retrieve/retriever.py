"""A question to scored passages: dense and lexical search, blended by how far each can read the question."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ragla.errors import IndexUnusable
from ragla.retrieve.blend import Evidence, blend
from ragla.retrieve.explanation import Explanation
from ragla.retrieve.filters import Filters
from ragla.retrieve.fold import Decision, select
from ragla.retrieve.lexical import query_tokens, telling, weights_of
from ragla.retrieve.local_passages import LocalPassages
from ragla.retrieve.passage import Passage, ScoredPassage
from ragla.retrieve.passage_store import check_fingerprint
from ragla.retrieve.reliability import Reading, reading_for, readings
from ragla.retrieve.rerank import in_order, rerank
from ragla.retrieve.store import Store

if TYPE_CHECKING:
    from ragla.config import RetrieveSettings
    from ragla.retrieve.embed import Embedder, Vectors
    from ragla.retrieve.passage_store import PassageStore, State
    from ragla.retrieve.rerank import Reranker

# How many passages each search hands to the blend.
POOL = 50
RERANKED = 20  # of them a reranker reads, unless told otherwise


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
        store: PassageStore,
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
        self._state: State | None = None
        self._readings: dict[str, Reading] = {}
        self._labels: dict[str, str] = {}
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
            return cls(LocalPassages(store, embedder.dimension), embedder, reranker, rerank_depth)
        except BaseException:
            store.close()
            raise

    @classmethod
    def on_milvus(
        cls,
        settings: RetrieveSettings,
        embedder: Embedder,
        reranker: Reranker | None = None,
        rerank_depth: int = RERANKED,
    ) -> Retriever:
        """Open what ``retrieve.milvus_uri`` names.

        Raises IndexUnusable when Milvus does not answer, holds no index, or one that was made with another
        embedder; UsageError where no address is named, or a package is missing.
        """
        from ragla.retrieve.milvus_client import target_of
        from ragla.retrieve.milvus_store import MilvusStore

        store = MilvusStore(target_of(settings.milvus_uri), settings)
        try:
            mend = f"ragla index --rebuild, then ragla index --to {store.place} --rebuild"
            check_fingerprint(store.place, store.state().fingerprint, embedder.identity, mend)
            store.check_there()
            return cls(store, embedder, reranker, rerank_depth)
        except BaseException:
            store.close()
            raise

    @property
    def follows_changes(self) -> bool:
        """Whether searches see by themselves that another index took the place of the one that was opened."""
        return not isinstance(self._store, LocalPassages)

    @property
    def elsewhere(self) -> str | None:
        """Where the passages are, if they are in no index folder of this machine."""
        return None if isinstance(self._store, LocalPassages) else self._store.place

    def reopened(self, index_dir: Path) -> Retriever:
        """Another with the same models, on the database that is current now. Raises as ``open``."""
        return Retriever.open(index_dir, self._embedder, self._reranker, self._rerank_depth)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def restrict(self, paths: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """Let every search that names no filters look at these documents only; see ``Filters``."""
        self._filters = Filters(tuple(paths), tuple(types))

    @property
    def fingerprint(self) -> dict[str, str]:
        """What the index was made with."""
        with self._turn:
            return self._store.state().fingerprint

    @property
    def passage_count(self) -> int:
        """How many passages the index holds."""
        with self._turn:
            return self._store.passage_count()

    def document_text(self, document_id: int) -> str:
        """The whole text of a document. Raises IndexUnusable when it is no longer in the index."""
        with self._turn:
            return self._store.text(document_id)

    def documents(self, document_ids: Iterable[int]) -> list[tuple[str, str]]:
        """Absolute path and SHA-256 of documents; one that was changed or removed since is missing."""
        with self._turn:
            found = self._store.documents(document_ids)
        return [(one.absolute, one.sha256 or "") for one in found]

    def digests(self, absolutes: Iterable[str]) -> dict[str, str]:
        """The SHA-256 each of these files was indexed with, by absolute path; unknown ones are missing."""
        with self._turn:
            return self._store.digests(absolutes)

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
        store = self._store
        with self._turn, store.snapshot():
            self._refresh()
            evidence = self._evidence(query, vector)
            total = store.passage_count()
            weights = weights_of(total, store.frequencies(query_tokens(query)))
            words = telling(total, weights)
            among = self._among(self._filters if filters is None else filters)
            size = max(POOL, top_k)
            nearest = store.nearest(vector, size, among)
            bm25 = store.best_matches(words, size, among)
            matched = list(bm25)
            passages = store.passages(list(dict.fromkeys([*nearest, *matched])), self._labels)
            pool = list(passages)  # without what a store that has no snapshots has lost since
            bm25 |= store.bm25(words, [one for one in nearest if one not in bm25])
            covered = store.coverage(weights, pool)
            parts = blend(pool, store.cosines(vector, pool), bm25, covered, evidence)
            again = None
            if self._reranker is not None:
                again = rerank(self._reranker, query, parts, passages, self._rerank_depth)
            found, unread = in_order(parts, passages, again)
            kept, decisions = select(found, top_k, floor, functools.cache(store.text))
            decisions += [Decision(one, "not reranked") for one in unread]
        return Explanation(query, floor, evidence, weights, nearest, matched, parts, kept, decisions, again)

    def rankings(self, found: Explanation) -> dict[str, list[Passage]]:
        """The passages of a search by each way of searching alone and by both, best first."""
        with self._turn:
            ids = [*found.by_cosine, *found.by_bm25]
            passages = self._store.passages(ids, self._labels, all_there=False)
        return {
            "dense": [passages[chunk_id] for chunk_id in found.by_cosine if chunk_id in passages],
            "lexical": [passages[chunk_id] for chunk_id in found.by_bm25 if chunk_id in passages],
            "hybrid": [scored.passage for scored in found.kept],
        }

    def files(self) -> list[FileState]:
        """Every file the index knows, skipped ones too."""
        with self._turn:
            self._refresh()
            found = self._store.files()
        return [
            FileState(
                self._labels[one.root] + one.path, one.absolute, one.status, one.reason, one.id, one.passages
            )
            for one in found
        ]

    def places(self, query: str, document_id: int) -> tuple[int, int | None]:
        """At which place of the whole index, from 1, a document's best passage is: by cosine, by BM25.

        None for a document with no word of the question. Raises IndexUnusable for one without passages.
        """
        with self._turn:
            vector = self._embedder.encode_query(query)
        store = self._store
        with self._turn, store.snapshot():
            self._refresh()
            total = store.passage_count()
            words = telling(total, weights_of(total, store.frequencies(query_tokens(query))))
            ours = set(store.nearest(vector, total, [document_id]))
            by_cosine = store.nearest(vector, total)
            by_bm25 = list(store.best_matches(words, total))
        places = [
            next((at for at, chunk_id in enumerate(ranked, 1) if chunk_id in ours), None)
            for ranked in (by_cosine, by_bm25)
        ]
        if places[0] is None:
            raise IndexUnusable("the document was changed or removed meanwhile", hint="ask again")
        return places[0], places[1]

    def _refresh(self) -> None:
        """Read anew what holds for the whole index when another process has changed it."""
        state = self._store.state()
        if state != self._state:
            self._readings = readings(state.reliability)
            self._labels = root_labels(list(state.roots))
            self._state = state

    def _evidence(self, query: str, vector: Vectors) -> Evidence:
        """How far the dense search can be believed for this question."""
        readable = self._embedder.readable_share(query)
        reading = reading_for(self._readings, query)
        if reading is None:
            return Evidence(readable, 1.0, 0.0)
        return Evidence(readable, reading.found_again, max(0.0, reading.background(vector)))

    def _among(self, filters: Filters) -> list[int] | None:
        """Ids of the documents that filters let through; None where nothing is filtered."""
        if not filters:
            return None
        indexed = [one for one in self._store.files() if one.status == "indexed"]
        return filters.document_ids(
            [(one.id, one.path, self._labels[one.root] + one.path) for one in indexed]
        )


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
