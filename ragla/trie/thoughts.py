"""The model's second thoughts: the ids that it ranked best where it stood, which logits give for nothing.

After the same token they are recycled (Token Recycling, arXiv 2408.08696); near the text's end they say
what may come soon.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Sequence

from ragla.trie.beliefs import Means

RANK_PRIOR = (0.32, 0.12, 0.07, 0.05, 0.04, 0.03, 0.02, 0.02)
EDGES = (0.3, 0.1, 0.03, 0.01, 0.003)  # of the model's own probabilities, where one bucket ends
RECENT_PRIOR = (0.08, 0.05, 0.03, 0.015, 0.006, 0.003)  # by bucket, at the last position
BESIDE_PRIOR = (0.3, 0.15, 0.06, 0.03, 0.012, 0.005)  # by bucket, on the likeliest branch not taken
TYPICAL_CHANCES = (0.6, 0.15, 0.06, 0.04, 0.025, 0.02, 0.015, 0.012)  # by rank, where none are given
DESCENT = tuple(-edge for edge in EDGES)
MAX_RANKED = 20_000  # tokens with recycled ranks; the one not seen for the longest time leaves


class Nearby:
    """Second thoughts of the model near the text's end, a few rows, the nearest first.

    They stand for what the model nearly said at the last positions, which it often says soon, or for what
    it would have said next on the branches of a draft that it did not take. A token's confidence is learned
    for its row and for how probable the model found it.
    """

    def __init__(self, prior: Sequence[float], rows: int) -> None:
        self.rows = rows
        self.confidence = Means(
            [share * 0.8**row for row in range(rows) for share in prior], least_rate=0.005, weight=100.0
        )
        self._rows: deque[list[tuple[int, int]]] = deque(maxlen=rows)

    def clear(self) -> None:
        """Forget the rows; the confidences stay."""
        self._rows.clear()

    def add(self, best_ids: Sequence[int], chances: Sequence[float]) -> None:
        """Take one more row, ids and the model's probabilities for them; it is the nearest."""
        self._rows.appendleft([
            (token, bisect_left(DESCENT, -chance)) for token, chance in zip(best_ids, chances, strict=False)
        ])  # fmt: skip

    def shares(self) -> list[tuple[int, float]]:
        """Tokens, and how likely each comes next where nothing better is known."""
        values, buckets = self.confidence.values, len(EDGES) + 1
        return [
            (token, values[place * buckets + bucket])
            for place, row in enumerate(self._rows)
            for token, bucket in row
        ]

    def observe(self, token: int) -> None:
        """See what came where nothing better was known."""
        buckets = len(EDGES) + 1
        for place, row in enumerate(self._rows):
            for near, bucket in row:
                self.confidence.observe(place * buckets + bucket, near == token)


class SecondThoughts:
    """What is recycled after each token, what was nearly said lately, and what would have come elsewhere.

    ``ranks``: token → the ids ranked best after it, best first, the newest last. ``without``: members of the
    drafter's SOURCES that are switched off.
    """

    def __init__(self, without: Collection[str]) -> None:
        self.without = without
        self.ranks: dict[int, Sequence[int]] = {}
        self.confidence = Means(RANK_PRIOR)
        self.recent = Nearby(RECENT_PRIOR, rows=6)
        self.beside = Nearby(BESIDE_PRIOR, rows=10)
        self._untaken: Sequence[int] = ()

    def begin(self) -> None:
        """Forget what was near the end of the last text; what is recycled after a token stays."""
        self.recent.clear()
        self.beside.clear()
        self._untaken = ()

    def observe(self, last_token: int | None, token: int) -> bool:
        """Learn from a token that no context named; whether it was among the ids recycled after the last."""
        best = self.ranks.get(last_token, ()) if last_token is not None else ()
        for rank, near in enumerate(best[: len(RANK_PRIOR)]):
            self.confidence.observe(rank, near == token)
        if token in best:
            return True
        self.recent.observe(token)
        self.beside.observe(token)
        return False

    def leave(self, nodes: Sequence[int]) -> None:
        """Take note of the draft nodes, likeliest first, that stand where the path went on without them."""
        self._untaken = nodes[: self.beside.rows]

    def recycle(
        self,
        token_ids: Sequence[int],
        best_ids: Sequence[Sequence[int]],
        visited: Sequence[int] | None,
        chances: Sequence[Sequence[float]] | None,
    ) -> None:
        """Remember the best ids of a step's rows; of ``visited`` ones alone if ``rejected`` is off."""
        rejected = "rejected" not in self.without
        if chances is None or "chances" in self.without:
            chances = [TYPICAL_CHANCES] * len(token_ids)
        if "recycled" not in self.without:
            for row, (token, best) in enumerate(zip(token_ids, best_ids, strict=True)):
                if rejected or visited is None or row in visited:
                    self._rank(token, best)
        if "recent" not in self.without:
            for row in range(len(token_ids)) if visited is None else visited:
                self.recent.add(best_ids[row][1:], chances[row][1:])  # the best came true
        if rejected and visited is not None:
            for row in reversed(self._untaken):
                self.beside.add(best_ids[row], chances[row])
        self._untaken = ()

    def recycle_prompt(self, token_ids: Sequence[int], best_ids: Sequence[Sequence[int]]) -> None:
        """Remember the best ids after tokens of the prompt."""
        if not {"recycled", "prompt-ranks"} & set(self.without):
            for token, best in zip(token_ids, best_ids, strict=True):
                self._rank(token, best)

    def _rank(self, token: int, best: Sequence[int]) -> None:
        self.ranks.pop(token, None)
        self.ranks[token] = best
        if len(self.ranks) > MAX_RANKED:
            del self.ranks[next(iter(self.ranks))]

    def shares(self) -> list[tuple[int, float]]:
        """Tokens near the text's end, and how likely each comes next where nothing better is known."""
        return self.recent.shares() + self.beside.shares()
