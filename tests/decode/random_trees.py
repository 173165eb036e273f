"""Draft trees and texts that mean nothing."""

from __future__ import annotations

import random

from ragla.trie import DraftTree


def random_tree(nodes: int, seed: int) -> DraftTree:
    """A tree whose newest nodes branch off its last few."""
    rng = random.Random(seed)
    tree = DraftTree([rng.randrange(3, 120)])
    while len(tree) < nodes:
        tree.add(rng.randrange(3, 120), max(0, len(tree) - 1 - rng.randrange(3)))
    return tree


def prefix_of(length: int) -> list[int]:
    """A text of so many tokens."""
    return [3 + (index * 37) % 110 for index in range(length)]
