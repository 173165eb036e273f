"""Earlier answers as a source of drafts, bounded, the least used forgotten first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragla.trie.token_trie import TokenTrie


@dataclass
class KeptAnswer:
    """An answer's tokens, and how many of its tokens later drafts copied."""

    token_ids: tuple[int, ...]
    uses: int = 0


class Answers:
    """A trie of named answers of at most ``max_nodes`` nodes."""

    def __init__(self, order: int, max_nodes: int) -> None:
        self.trie = TokenTrie(order)
        self.max_nodes = max_nodes
        self.kept: dict[str, KeptAnswer] = {}

    def keep(self, token_ids: Sequence[int], name: str) -> None:
        """Add an answer; one of the same name is replaced."""
        self.remove(name)
        self.kept[name] = KeptAnswer(tuple(token_ids))
        self.trie.insert(token_ids, name)
        while self.trie.node_count > self.max_nodes and self.kept:
            self.remove(min(self.kept, key=lambda other: self.kept[other].uses))

    def remove(self, name: str) -> None:
        """Forget one answer."""
        kept = self.kept.pop(name, None)
        if kept is not None:
            self.trie.forget(kept.token_ids, name)

    def use(self, name: str) -> None:
        """Count a token that a later answer copied from an earlier one."""
        if name in self.kept:
            self.kept[name].uses += 1
