"""How two searches become one order: both made comparable, then weighed by what each can read.

Ranks alone do not tell how well a search did: fused by rank, a search that cannot read the language takes
half of the places. So scores are blended. The lexical one lies in [0, 1] whatever the language. Cosines do
not, since to some embedders all texts of a language look alike; what the question has in common with
everything in that language is taken off first. What then remains counts as far as the embedder knows
the question's words, and as far as it found passages of the corpus again from their own sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Best of 0.5 to 0.85, with the even mix of coverage and BM25, both in recall on XQuAD and in telling
# questions whose article is in the corpus from questions whose article was taken out.
DENSE_SHARE = 0.6
# A search that finds fewer than two of ten sentences again is noise, one that finds six is trusted.
_NOISE, _TRUSTED = 0.2, 0.6


@dataclass(frozen=True)
class Evidence:
    """What is known of the dense search before it is believed. Each 0 to 1.

    ``readable``: share of the question's tokens in the embedder's vocabulary. ``found_again``: mean
    reciprocal rank of passages searched by a sentence of theirs, in the question's script. ``background``:
    cosine of the question with the mean passage of that script.
    """

    readable: float
    found_again: float
    background: float

    @property
    def trust(self) -> float:
        """The dense search's weight in the blend.

        Squared, because a token that is not known also spoils how its neighbours are understood.
        """
        steady = min(1.0, max(0.0, (self.found_again - _NOISE) / (_TRUSTED - _NOISE)))
        return DENSE_SHARE * self.readable**2 * steady


@dataclass(frozen=True)
class Parts:
    """The score of one passage, in parts. ``cosine`` and ``bm25`` are raw, ``covered`` in [0, 1]."""

    chunk_id: int
    cosine: float
    bm25: float
    covered: float
    dense: float
    lexical: float
    score: float


def blend(
    ids: Sequence[int],
    cosines: dict[int, float],
    bm25: dict[int, float],
    covered: dict[int, float],
    evidence: Evidence,
) -> list[Parts]:
    """Scores of passages for one question, best first; ``bm25`` grows with the match."""
    best = max(bm25.values(), default=0.0)
    most = max(covered.values(), default=0.0)
    parts = []
    for chunk_id in ids:
        cosine = cosines[chunk_id]
        dense = max(0.0, (cosine - evidence.background) / max(1e-6, 1 - evidence.background))
        ranked = bm25.get(chunk_id, 0.0) / best * most if best > 0 else 0.0
        lexical = (covered[chunk_id] + ranked) / 2
        score = evidence.trust * dense + (1 - evidence.trust) * lexical
        parts.append(
            Parts(chunk_id, cosine, bm25.get(chunk_id, 0.0), covered[chunk_id], dense, lexical, score)
        )
    return sorted(parts, key=lambda part: (-part.score, part.chunk_id))
