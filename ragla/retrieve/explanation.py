"""Why a search found what it found: each score in parts, and what became of what it did not return."""

from __future__ import annotations

from dataclasses import dataclass

from ragla.retrieve.blend import Evidence, Parts
from ragla.retrieve.fold import Decision
from ragla.retrieve.passage import ScoredPassage
from ragla.retrieve.rerank import Reranked


@dataclass(frozen=True)
class Explanation:
    """One search. ``words``: the question's tokens and their inverse document frequencies.

    ``by_cosine`` and ``by_bm25``: chunk ids as each search alone ranked them. ``parts`` and ``decisions``:
    of every passage in the blend, best first. ``kept``: what the search returned. ``reranked``: what a
    reranker said of the first of the blend.
    """

    question: str
    floor: float
    evidence: Evidence
    words: dict[str, float]
    by_cosine: list[int]
    by_bm25: list[int]
    parts: list[Parts]
    kept: list[ScoredPassage]
    decisions: list[Decision]
    reranked: Reranked | None = None

    def ranks(self, chunk_id: int) -> tuple[int | None, int | None]:
        """The passage's rank in each search alone, from 1; None where it was not among its first."""
        return _rank(self.by_cosine, chunk_id), _rank(self.by_bm25, chunk_id)


def _rank(ids: list[int], chunk_id: int) -> int | None:
    return ids.index(chunk_id) + 1 if chunk_id in ids else None
