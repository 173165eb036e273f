"""The token trie: what followed what, and in which source it was read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ragla.trie.core import Contexts, Windows


class Origin(NamedTuple):
    """Where a token was read: a source's name and the token's offset in it."""

    source: str
    offset: int


class TokenTrie:
    """Windows of ``order + 1`` tokens of named sequences. ``windows`` holds the counts."""

    def __init__(self, order: int = 8) -> None:
        self.windows = Windows(order)
        self._starts: list[int] = []
        self._origins: list[Origin | None] = []

    @property
    def node_count(self) -> int:
        """Nodes without the root."""
        return self.windows.node_count

    @property
    def mebibytes(self) -> float:
        """Memory of the nodes, MiB."""
        return self.windows.node_count * self.windows.node_bytes / 2**20

    def clear(self) -> None:
        """Forget everything."""
        self.windows.clear()
        self._starts.clear()
        self._origins.clear()

    def insert(self, token_ids: Sequence[int], name: str, offset: int = 0) -> None:
        """Count a new sequence that begins at the source's token ``offset``; ``extend`` goes on with it."""
        self._starts.append(self.windows.length)
        self._origins.append(Origin(name, offset))
        self.windows.start()
        self.windows.count(token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Count more tokens of the sequence that was inserted last."""
        self.windows.count(token_ids)

    def forget(self, token_ids: Sequence[int], name: str) -> None:
        """Take back a sequence that was inserted whole under that name, and its origin with it."""
        self.windows.forget(token_ids)
        self._origins[self._origins.index(Origin(name, 0))] = None

    def origin(self, position: int) -> Origin | None:
        """Where the token at a position of the whole was read; None where that was forgotten since."""
        index = bisect_right(self._starts, position) - 1
        first = self._origins[index]
        return first and Origin(first.source, first.offset + position - self._starts[index])

    def contexts(self, token_ids: Sequence[int]) -> Contexts:
        """The nodes that match the end of ``token_ids``: entry k is the context of its last k tokens."""
        return self.windows.match(token_ids)
