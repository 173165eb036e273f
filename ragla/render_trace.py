"""A draft tree as it is drawn: what was drafted, what the model agreed with, and where it was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from ragla.render import counted, one_line
from ragla.trace import origin_place

if TYPE_CHECKING:
    from ragla.trie import DraftTree

ACCEPTED, REJECTED = "✓", "·"


def step_tree(number: int, tree: DraftTree, accepted: Sequence[int], pieces: Sequence[str]) -> Tree:
    """One step, 0 for what was verified with the prompt.

    Nodes that follow each other without a fork, of one source and one fate, share a line.
    """
    drafted = counted(len(tree) - 1, "node")
    head = Text(f"step {number}" if number else "with the prompt", style="bold")
    head.append(f" · {drafted}, {len(accepted)} accepted · after {one_line(repr(pieces[0]))}", "not bold dim")
    drawn = Tree(head, guide_style="dim")
    children = [list(found.values()) for found in tree.children()]
    stack = [(drawn, node) for node in reversed(children[0])]
    while stack:
        branch, node = stack.pop()
        run = [node]
        while len(children[run[-1]]) == 1 and _alike(tree, accepted, run[-1], children[run[-1]][0]):
            run.append(children[run[-1]][0])
        below = branch.add(_label(tree, accepted, pieces, run))
        stack += [(below, child) for child in reversed(children[run[-1]])]
    return drawn


def _alike(tree: DraftTree, accepted: Sequence[int], node: int, child: int) -> bool:
    return _source(tree, node) == _source(tree, child) and (node in accepted) == (child in accepted)


def _source(tree: DraftTree, node: int) -> str:
    """Where a node was read, as short as it can be told."""
    origin = tree.origins[node]
    if origin is None:
        return "model"  # its own second thoughts
    kind, path = origin_place(origin)
    return path or kind


def _label(tree: DraftTree, accepted: Sequence[int], pieces: Sequence[str], run: Sequence[int]) -> Text:
    """The mark, the words, the chances of the first and last of them, and their source."""
    agreed = run[0] in accepted
    text = Text(f"{ACCEPTED if agreed else REJECTED} ", style="bold green" if agreed else "dim")
    words = "".join(pieces[node] for node in run)
    text.append(one_line(repr(words)), "" if agreed else "not bold")
    first, last = tree.probabilities[run[0]], tree.probabilities[run[-1]]
    chances = f"{first:.2f}" if len(run) == 1 else f"{first:.2f}–{last:.2f}"
    text.append(f" {chances} {one_line(_source(tree, run[0]))}", "not bold dim")
    return text
