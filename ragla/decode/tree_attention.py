"""The one place where a draft tree is a tensor: input ids, positions and who sees whom.

Verifying a tree in one forward follows SpecInfer (arXiv 2305.09781) and Lookahead (arXiv
2312.12728): a node's position is its depth, and it attends to the prefix and its own ancestors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from ragla.trie.draft_tree import DraftTree


@dataclass(frozen=True)
class QueryRows:
    """T rows for one forward pass over a cache that holds ``prefix`` rows.

    Kept on the host as they were made, since a backend may want them packed, and placed on ``device`` when
    asked for. ``ids`` and ``places``: int64 [T], tokens and positions. ``among``: bool [T, T], what each row
    sees of the T rows, itself included; None: plain text, all up to itself. All see the whole prefix.
    """

    ids: torch.Tensor
    places: torch.Tensor
    among: torch.Tensor | None
    prefix: int
    device: torch.device

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def token_ids(self) -> torch.Tensor:
        """Tokens, int64 [T]."""
        return self.ids.to(self.device)

    @cached_property
    def positions(self) -> torch.Tensor:
        """Positions, int64 [T]."""
        return self.places.to(self.device)

    @cached_property
    def key_positions(self) -> torch.Tensor:
        """Positions of the cached rows and these, int64 [prefix + T]."""
        return torch.cat([torch.arange(self.prefix, device=self.device), self.positions])

    @cached_property
    def visible(self) -> torch.Tensor:
        """What each row attends to, itself included: bool [T, prefix + T]."""
        if self.among is None:
            return self.key_positions[None, :] <= self.positions[:, None]
        before = torch.ones(len(self), self.prefix, dtype=torch.bool, device=self.device)
        return torch.cat([before, self.among.to(self.device)], dim=1)

    def within(self, window: int) -> torch.Tensor:
        """``visible`` limited to the ``window`` latest positions, the row's own included."""
        distance = self.positions[:, None] - self.key_positions[None, :]
        return self.visible & (distance < window)


def causal_rows(token_ids: Sequence[int], prefix: int, device: torch.device) -> QueryRows:
    """Rows of plain text after ``prefix`` cached rows, for prefill and for one token a step."""
    positions = torch.arange(prefix, prefix + len(token_ids))
    return QueryRows(torch.tensor(token_ids, dtype=torch.long), positions, None, prefix, device)


def tree_rows(tree: DraftTree, prefix: int, device: torch.device) -> QueryRows:
    """Rows of a draft tree after ``prefix`` cached rows; row i is node i."""
    positions = torch.tensor(tree.depths(), dtype=torch.long).add_(prefix)
    ids = torch.tensor(tree.token_ids, dtype=torch.long)
    return QueryRows(ids, positions, _family(tree), prefix, device)


def text_and_tree_rows(
    token_ids: Sequence[int], tree: DraftTree, prefix: int, device: torch.device
) -> QueryRows:
    """Rows of plain text after ``prefix`` cached rows, then those of the draft behind it.

    The text's last token is the tree's node 0, so that the last ``len(tree)`` rows are its nodes.
    """
    if len(tree) == 1:
        return causal_rows(token_ids, prefix, device)
    before = len(token_ids) - 1
    ids = torch.tensor([*token_ids, *tree.token_ids[1:]], dtype=torch.long)
    depths = torch.tensor(tree.depths(), dtype=torch.long)
    places = torch.cat([torch.arange(before), depths.add_(before)]).add_(prefix)
    among = torch.ones(len(ids), len(ids), dtype=torch.bool).tril_()
    among[before:, before:] = _family(tree)
    return QueryRows(ids, places, among, prefix, device)


def _family(tree: DraftTree) -> torch.Tensor:
    """Which nodes each node sees, its ancestors and itself: bool [T, T]."""
    among = torch.zeros(len(tree), len(tree), dtype=torch.bool)
    pairs = [(node, ancestor) for node, path in enumerate(tree.ancestors()) for ancestor in path]
    nodes, ancestors = torch.tensor(pairs, dtype=torch.long).unbind(1)
    among[nodes, ancestors] = True
    return among
