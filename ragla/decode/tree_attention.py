"""The one place where a draft tree is a tensor: input ids, positions and who sees whom.

Verifying a tree in one forward follows SpecInfer (arXiv 2305.09781) and Lookahead (arXiv
2312.12728): a node's position is its depth, and it attends to the prefix and its own ancestors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ragla.trie.draft_tree import DraftTree


@dataclass(frozen=True)
class QueryRows:
    """T rows for one forward pass over a cache that holds ``prefix`` rows.

    ``token_ids`` and ``positions``: int64 [T]. ``visible``: bool [T, prefix + T], what each row
    attends to, itself included. ``key_positions``: int64 [prefix + T].
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    visible: torch.Tensor
    key_positions: torch.Tensor

    def within(self, window: int) -> torch.Tensor:
        """``visible`` limited to the ``window`` latest positions, the row's own included."""
        distance = self.positions[:, None] - self.key_positions[None, :]
        return self.visible & (distance < window)


def causal_rows(token_ids: Sequence[int], prefix: int, device: torch.device) -> QueryRows:
    """Rows of plain text after ``prefix`` cached rows, for prefill and for one token a step."""
    rows = len(token_ids)
    key_positions = torch.arange(prefix + rows, device=device)
    positions = key_positions[prefix:]
    return QueryRows(
        torch.tensor(token_ids, dtype=torch.long, device=device),
        positions,
        key_positions[None, :] <= positions[:, None],
        key_positions,
    )


def tree_rows(tree: DraftTree, prefix: int, device: torch.device) -> QueryRows:
    """Rows of a draft tree after ``prefix`` cached rows; row i is node i."""
    rows = len(tree)
    positions = torch.tensor(tree.depths(), dtype=torch.long).add_(prefix)
    visible = torch.zeros(rows, prefix + rows, dtype=torch.bool)
    visible[:, :prefix] = True
    pairs = [(node, ancestor) for node, path in enumerate(tree.ancestors()) for ancestor in path]
    nodes, ancestors = torch.tensor(pairs, dtype=torch.long).unbind(1)
    visible[nodes, ancestors + prefix] = True
    return QueryRows(
        torch.tensor(tree.token_ids, dtype=torch.long, device=device),
        positions.to(device),
        visible.to(device),
        torch.cat([torch.arange(prefix), positions]).to(device),
    )
