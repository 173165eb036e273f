"""The frequency trie of the Lookahead paper, with its three forms of a draft.

Source: Y. Zhao et al., *Lookahead: An Inference Acceleration Framework for Large Language Model with Lossless
Generation Accuracy*, KDD 2024, arXiv 2312.12728, sections 4.1 and 4.2, and the paper's code. The last two
tokens are looked up, then the last one if that gave too little. Prompt and answer count alike here, and no
earlier answers are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ragla.bench.rules.text_rule import TextRule
from ragla.trie import DraftLimits, DraftTree

Form = Literal["hier", "parallel", "one"]
QUERY_TOKENS = 2


class FrequencyTrie(TextRule):
    """Counts of all windows of ``branch_length + 1`` tokens.

    ``hier`` drafts the most frequent nodes as a tree, ``parallel`` the branches of that tree side by side,
    ``one`` the most frequent branch. ``branch_length`` bounds a branch.
    """

    def __init__(self, form: Form = "hier", branch_length: int = 12) -> None:
        self.form = form
        self.branch_length = branch_length
        self.begin([])

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Forget the last text and read a prompt."""
        # a node is an index, 0 the root: plain ints in columns are nothing for the garbage collector to walk
        self._count = [0]
        self._children: list[dict[int, int]] = [{}]
        self._open = [0]
        self._tail: list[int] = []
        self.commit(prompt_ids)

    def commit(self, token_ids: Sequence[int]) -> None:
        """Go on by tokens of the text and count the windows they belong to."""
        for token in token_ids:
            self._open = [0, *(self._step(node, token) for node in self._open)][: self.branch_length + 1]
        self._tail = [*self._tail, *token_ids][-QUERY_TOKENS:]

    def _step(self, node: int, token: int) -> int:
        child = self._children[node].get(token)
        if child is None:
            child = self._children[node][token] = len(self._count)
            self._count.append(0)
            self._children.append({})
        self._count[child] += 1
        return child

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """A draft in the form that was asked for, or node 0 alone."""
        enough = self.branch_length // 2 if self.form == "one" else self.branch_length
        tree = DraftTree([last_token])
        for length in range(len(self._tail), 0, -1):
            node = self._find(self._tail[-length:])
            if node is None or not self._children[node]:
                continue
            if self.form == "one":
                tree = self._branch(last_token, node, limits.budget - 1)
            else:
                tree = self._tree(last_token, node, limits.budget - 1)
            if len(tree) >= enough:
                break
        return side_by_side(tree) if self.form == "parallel" else tree

    def _find(self, token_ids: Sequence[int]) -> int | None:
        node: int | None = 0
        for token in token_ids:
            node = self._children[node].get(token) if node is not None else None
        return node

    def _branch(self, last_token: int, node: int, room: int) -> DraftTree:
        """The most frequent follower, and its most frequent follower, and so on."""
        tree = DraftTree([last_token])
        while self._children[node] and len(tree) <= min(room, self.branch_length):
            token, node = self._frequent(node)[-1]
            tree.add(token, len(tree) - 1)
        return tree

    def _tree(self, last_token: int, node: int, room: int) -> DraftTree:
        """Branch after branch, the frequent first, of the nodes that are frequent enough for the room."""
        counts = sorted(self._counts(node), reverse=True)
        floor = counts[room - 1] if 0 < room < len(counts) else 0
        tree = DraftTree([last_token])
        stack = [(self._frequent(node, floor), 0, 0)]
        while stack and len(tree) <= room:
            children, parent, depth = stack[-1]
            if not children:
                stack.pop()
                continue
            token, child = children.pop()
            added = tree.add(token, parent)
            if depth + 1 < self.branch_length:
                stack.append((self._frequent(child, floor), added, depth + 1))
        return tree

    def _counts(self, node: int) -> list[int]:
        """The counts of all nodes at most a branch below a node."""
        counts: list[int] = []
        level = [node]
        for _ in range(self.branch_length):
            level = [child for parent in level for child in self._children[parent].values()]
            counts += [self._count[child] for child in level]
        return counts

    def _frequent(self, node: int, floor: int = 0) -> list[tuple[int, int]]:
        """The followers that occurred at least ``floor`` times, the most frequent last.

        Of followers that are equally frequent the first one read comes last.
        """
        frequent = [item for item in self._children[node].items() if self._count[item[1]] >= floor]
        return sorted(frequent, key=lambda item: -self._count[item[1]])[::-1]


def side_by_side(tree: DraftTree) -> DraftTree:
    """The branches of a tree one after the other, until they hold as many nodes as the tree.

    A branch pays for its own copy of what it shares with an earlier one. The copy hangs where it
    cannot be reached and the branch goes on from the first: the walk then accepts what the best of
    separate branches would, at the cost of separate branches.
    """
    inner = set(tree.parents)
    laid = DraftTree([tree.token_ids[0]])
    placed = {0: 0}
    for leaf, path in enumerate(tree.ancestors()):
        if leaf in inner:
            continue
        for node in path[1:]:
            if len(laid) == len(tree):
                return laid
            copy = laid.add(tree.token_ids[node], placed[tree.parents[node]])
            placed.setdefault(node, copy)
    return laid
