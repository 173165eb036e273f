"""Suffix decoding: the best scoring tree of count ratios over all match lengths.

Source: G. Oliaro et al., *SuffixDecoding: Extreme Speculative Decoding for Emerging AI Applications*, arXiv
2411.04975, with the scoring and the defaults of Snowflake's ArcticInference: a follower's probability is its
count over its context's count, a match of m tokens may draft m tokens, and the draft with the largest sum of
probabilities wins, the longer match in a tie. Only the tree of the current text is kept, not the one of
earlier answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ragla.bench.rules.suffix_automaton import AutomatonRule
from ragla.trie import DraftLimits, DraftTree


class SuffixDecoding(AutomatonRule):
    """Drafts from windows of ``max_depth`` tokens, so that match and branch together are no longer.

    ``factor``: draft tokens granted per matched token. ``least``: probability below which no node is drafted.
    """

    def __init__(self, max_depth: int = 64, factor: float = 1.0, least: float = 0.1) -> None:
        self.max_depth = max_depth
        self.factor = factor
        self.least = least
        self.begin([])

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """The best of the trees of all match lengths, or node 0 alone."""
        best, best_score = DraftTree([last_token]), 0.0
        for state, matched in self._matches():
            tokens = min(limits.budget - 1, int(matched * self.factor + 1e-6))
            tree = self._grow(last_token, state, tokens, self.max_depth - matched)
            score = sum(tree.probabilities[1:])
            if score >= best_score:
                best, best_score = tree, score
        return best

    def _matches(self) -> Iterator[tuple[int, int]]:
        """States with the match lengths worth trying, shortest first.

        As long as the depth leaves room for all nodes that a match grants, a longer match of the same state
        drafts what a shorter one does and more; beyond, it may draft more nodes but none as deep.
        """
        automaton, roomy = self._automaton, int(self.max_depth / (1 + self.factor))
        for state in reversed([state for state in automaton.suffixes() if state != automaton.last]):
            longest = min(automaton.length[state], self.max_depth - 1)
            shortest = automaton.length[automaton.link[state]] + 1
            for matched in range(max(shortest, min(longest, roomy)), longest + 1):
                yield state, matched

    def _grow(self, last_token: int, state: int, tokens: int, depth: int) -> DraftTree:
        """The ``tokens`` likeliest nodes below a state, at most ``depth`` deep, likeliest first."""
        tree = DraftTree([last_token])
        heap: list[tuple[float, int, int, int]] = []
        self._push(heap, state, 1.0, 0)
        depths = [0]
        while heap and len(tree) <= tokens:
            negative, parent, token, state = heappop(heap)
            node = tree.add(token, parent, -negative)
            depths.append(depths[parent] + 1)
            if depths[node] < depth:
                self._push(heap, state, -negative, node)
        return tree

    def _push(
        self, heap: list[tuple[float, int, int, int]], state: int, probability: float, node: int
    ) -> None:
        """Queue the followers of a state as children of a node; of equals the shallow go first."""
        count = self._automaton.count
        for token, follower in self._automaton.followers[state].items():
            reach = probability * count[follower] / count[state]
            if reach >= self.least:
                heappush(heap, (-reach, node, token, follower))
