"""Counts what followed what in token sequences, and drafts the likeliest continuations as a tree.

It knows integers only: no text, no tensors, no model, and nothing outside the standard library.
"""

from ragla.trie.answers import Answers
from ragla.trie.draft_tree import DraftTree, accepted_path
from ragla.trie.drafter import Drafter
from ragla.trie.limits import LIVE_SOURCES, SOURCES, DraftLimits
from ragla.trie.token_trie import Origin, TokenTrie

__all__ = [
    "LIVE_SOURCES",
    "SOURCES",
    "Answers",
    "DraftLimits",
    "DraftTree",
    "Drafter",
    "Origin",
    "TokenTrie",
    "accepted_path",
]
