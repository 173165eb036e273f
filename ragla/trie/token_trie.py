"""The token trie: how often every window of ``order + 1`` tokens occurred.

A node is a context; its children are the tokens that followed it. Every suffix of a context is in
the trie as well, so the nodes that match the end of a text are one list, indexed by match length,
and advancing that list by a token costs at most ``order`` dictionary look-ups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Origin(NamedTuple):
    """Where a token was read: a source's name and the token's offset in it."""

    source: str
    offset: int


class TrieNode:
    """One context: its count, its followers, and the latest position it was read at."""

    __slots__ = ("children", "count", "position")

    def __init__(self) -> None:
        self.count = 0
        self.children: dict[int, TrieNode] = {}
        self.position = 0


Contexts = list[TrieNode]


class TokenTrie:
    """Windows of ``order + 1`` tokens with counts, bounded by ``max_nodes`` where one is given.

    Over the bound counts are halved until enough nodes have reached zero and are gone, so what was
    used least leaves first (the node pruning of Lookahead, arXiv 2312.12728, section 4.2).
    """

    def __init__(self, order: int = 8, max_nodes: int | None = None) -> None:
        if order < 1:
            raise ValueError(f"order must be at least 1, not {order}")
        self.order = order
        self.max_nodes = max_nodes
        self.clear()

    def clear(self) -> None:
        """Forget everything; what earlier calls returned stays valid but is no longer counted."""
        self.root = TrieNode()
        self.node_count = 0
        self._length = 0
        self._starts: list[int] = []
        self._sources: list[str] = []
        self._open: Contexts = [self.root]

    def insert(self, token_ids: Iterable[int], source: str) -> None:
        """Count a new sequence; ``extend`` goes on with it."""
        self._starts.append(self._length)
        self._sources.append(source)
        self._open = [self.root]
        self.extend(token_ids)

    def extend(self, token_ids: Iterable[int]) -> None:
        """Count more tokens of the sequence that was inserted last."""
        for token in token_ids:
            self._count(token)
        if self.max_nodes is not None and self.node_count > self.max_nodes:
            self._prune(self.max_nodes)

    def _count(self, token: int) -> None:
        position = self._length
        self._length += 1
        contexts = [self.root]
        for context in self._open:
            node = context.children.get(token)
            if node is None:
                node = context.children[token] = TrieNode()
                self.node_count += 1
            node.count += 1
            node.position = position
            contexts.append(node)
        self._open = contexts[: self.order + 1]

    def contexts(self, token_ids: list[int]) -> Contexts:
        """The nodes that match the end of ``token_ids``: entry k is the context of its last k tokens."""
        contexts = [self.root]
        for token in token_ids[-self.order :]:
            contexts = self.advance(contexts, token)
        return contexts

    def advance(self, contexts: Contexts, token: int) -> Contexts:
        """The matching contexts one token later, the root first."""
        advanced = [self.root]
        for context in contexts[: self.order]:
            node = context.children.get(token)
            if node is None:  # a longer context that has the follower implies every shorter one
                break
            advanced.append(node)
        return advanced

    def origin(self, node: TrieNode) -> Origin:
        """Where the token that ``node`` ends with was read last."""
        index = bisect_right(self._starts, node.position) - 1
        return Origin(self._sources[index], node.position - self._starts[index])

    def _prune(self, max_nodes: int) -> None:
        while self.node_count > max_nodes * 3 // 4:
            self.node_count = _halve(self.root)
        self._open = [self.root]


def _halve(node: TrieNode) -> int:
    """Halve all counts below ``node``, drop what reaches zero, return how many nodes remain."""
    kept = 0
    stack = [node]
    while stack:
        parent = stack.pop()
        for token, child in list(parent.children.items()):
            child.count //= 2
            if child.count == 0:
                del parent.children[token]
            else:
                kept += 1
                stack.append(child)
    return kept
