"""Chooses the compiled core where it was built, else its twin in Python; both give the same drafts."""

from ragla.trie.growth import grow
from ragla.trie.windows import Contexts, Windows

__all__ = ["Contexts", "Windows", "grow"]
