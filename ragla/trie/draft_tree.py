"""A draft: a tree of tokens that may follow the text, to be verified in one forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ragla.trie.token_trie import Origin


@dataclass
class DraftTree:
    """Node 0 is the last committed token; every other node follows its parent, which precedes it.

    ``token_ids``, ``parents``, ``probabilities`` and ``origins`` run in step, one entry a node. A
    probability is the chance that the node is accepted; the sum over all but node 0 is the expected
    number of accepted tokens. An origin is None where the token was not read anywhere.
    """

    token_ids: list[int]
    parents: list[int] = field(default_factory=lambda: [-1])
    probabilities: list[float] = field(default_factory=lambda: [1.0])
    origins: list[Origin | None] = field(default_factory=lambda: [None])

    def __len__(self) -> int:
        return len(self.token_ids)

    def add(self, token: int, parent: int, probability: float = 0.0, origin: Origin | None = None) -> int:
        """Append a node and return its index."""
        self.token_ids.append(token)
        self.parents.append(parent)
        self.probabilities.append(probability)
        self.origins.append(origin)
        return len(self.token_ids) - 1

    def truncated(self, nodes: int) -> DraftTree:
        """The first ``nodes`` nodes, which are a tree again because parents come first."""
        return DraftTree(
            self.token_ids[:nodes], self.parents[:nodes], self.probabilities[:nodes], self.origins[:nodes]
        )

    def depths(self) -> list[int]:
        """Distance of each node from node 0."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return depths

    def ancestors(self) -> list[list[int]]:
        """For each node its path from node 0, itself included."""
        paths = [[0]]
        for node, parent in enumerate(self.parents[1:], 1):
            paths.append([*paths[parent], node])
        return paths

    def children(self) -> list[dict[int, int]]:
        """For each node its children, token → node."""
        children: list[dict[int, int]] = [{} for _ in self.token_ids]
        for node, parent in enumerate(self.parents[1:], 1):
            children[parent].setdefault(self.token_ids[node], node)
        return children


def accepted_path(tree: DraftTree, choose: Callable[[int], int | None]) -> tuple[list[int], list[int]]:
    """Walk the tree as the target model does.

    ``choose(node)`` is the token the model puts after that node, or None when the answer ends with
    it. Returns the accepted nodes, node 0 left out, and the chosen tokens: one for each accepted node
    and then the bonus token, unless the answer ended before it.
    """
    children = tree.children()
    nodes: list[int] = []
    chosen: list[int] = []
    node: int | None = 0
    while node is not None:
        token = choose(node)
        if token is None:
            break
        chosen.append(token)
        node = children[node].get(token)
        if node is not None:
            nodes.append(node)
    return nodes, chosen
