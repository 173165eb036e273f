"""What the rules share that draft from the text alone."""

from __future__ import annotations

from collections.abc import Sequence

from ragla.trie import DraftTree


class TextRule:
    """A rule that drafts from the prompt and the answer so far, and neither learns nor recycles."""

    def learn(self, tree: DraftTree, accepted: Sequence[int]) -> None:
        """Nothing is learned from a draft."""

    def recycle(
        self,
        token_ids: Sequence[int],
        best_ids: Sequence[Sequence[int]],
        visited: Sequence[int] | None = None,
    ) -> None:
        """The model's other ids are not used."""

    def end(self, answer_ids: Sequence[int], *, ended: bool) -> None:
        """Nothing is kept."""


def chain(last_token: int, token_ids: Sequence[int]) -> DraftTree:
    """A draft of one branch."""
    tree = DraftTree([last_token])
    node = 0
    for token in token_ids:
        node = tree.add(token, node)
    return tree
