"""How earlier answers begin: what a draft that is verified with the prompt is made from.

The prompt says little of the first token of its answer, but the answers of one model often begin alike.
Nothing is kept here but how far to trust that: the counts are made anew for each answer from those that
are kept, so that an answer that was removed is in no beginning either.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragla.trie import beliefs
from ragla.trie.answers import KeptAnswer
from ragla.trie.source import Source
from ragla.trie.token_trie import TokenTrie

MARKS = (2**31 - 2, 2**31 - 1)
"""Stand before each beginning, so that what an answer begins with is what follows them.

Ids that no vocabulary has. They count as a match of two tokens: before what followed the prompt's last
token elsewhere, after what followed more of its end.
"""
ANSWERS = 64  # beginnings counted: the newest, and of those that an earlier process left the most used
TOKENS = 8  # of each


class Beginnings:
    """Makes the source of an answer's first draft. ``confidence``: as in ``Source``, learned."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.confidence = beliefs.length_confidences(order)

    def source(self, kept: Mapping[str, KeptAnswer]) -> Source | None:
        """The beginnings of answers, given by name, the best last; None where there is none."""
        source = Source(TokenTrie(self.order))
        try:
            for name, answer in list(kept.items())[-ANSWERS:]:
                source.trie.insert([*MARKS, *answer.token_ids[:TOKENS]], name, -len(MARKS))
        except MemoryError:  # an answer without drafts is an answer
            return None
        source.confidence = self.confidence
        source.contexts = source.trie.contexts(MARKS)
        return source if kept else None
