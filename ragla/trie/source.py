"""One of the tries that are drafted from."""

from __future__ import annotations

from ragla.trie import beliefs
from ragla.trie.core import Contexts
from ragla.trie.growth import KINDS
from ragla.trie.token_trie import TokenTrie


class Source:
    """A trie, where the text stands in it, and how far its contexts are to be trusted."""

    def __init__(self, trie: TokenTrie) -> None:
        self.trie = trie
        self.confidence = beliefs.length_confidences(trie.windows.order)
        self.contexts: Contexts = trie.contexts([])

    def observe(self, token: int) -> bool:
        """Learn from the token that truly came next; whether a context named it."""
        named = False
        for length, kind, named in self.trie.windows.judge(self.contexts, token):
            self.confidence.observe(length * KINDS + kind, named)
        return named
