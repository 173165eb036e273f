"""Draft trees, and the accepted path against a naive oracle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import DraftTree, accepted_path


@st.composite
def trees(draw: st.DrawFn, tokens: int = 3, most: int = 20) -> DraftTree:
    """Any tree whose parents come first, siblings with the same token included."""
    tree = DraftTree([draw(st.integers(0, tokens))])
    for _ in range(draw(st.integers(0, most))):
        tree.add(draw(st.integers(0, tokens)), draw(st.integers(0, len(tree) - 1)), draw(st.floats(0, 1)))
    return tree


@st.composite
def distinct_trees(draw: st.DrawFn) -> DraftTree:
    """A tree without equal siblings, as a drafter makes them."""
    tree = DraftTree([0])
    for _ in range(draw(st.integers(0, 20))):
        parent = draw(st.integers(0, len(tree) - 1))
        free = [token for token in range(4) if token not in tree.children()[parent]]
        if free:
            tree.add(draw(st.sampled_from(free)), parent)
    return tree


def path_to_root(tree: DraftTree, node: int) -> list[int]:
    path = [node]
    while path[-1] != 0:
        path.append(tree.parents[path[-1]])
    return path[::-1]


@given(trees())
def test_depths_and_ancestors_follow_the_parents(tree: DraftTree) -> None:
    paths = [path_to_root(tree, node) for node in range(len(tree))]
    assert tree.ancestors() == paths
    assert tree.depths() == [len(path) - 1 for path in paths]


@given(trees(), st.data())
def test_a_truncated_tree_is_a_tree(tree: DraftTree, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, len(tree)))
    cut = tree.truncated(nodes)
    assert len(cut) == len(cut.parents) == len(cut.probabilities) == len(cut.origins) == nodes
    assert cut.parents[0] == -1
    assert all(0 <= parent < node for node, parent in enumerate(cut.parents) if node)
    assert cut.ancestors() == tree.ancestors()[:nodes]


@given(distinct_trees(), st.lists(st.integers(0, 3), max_size=8))
def test_accepted_path_is_the_longest_branch_of_the_truth(tree: DraftTree, truth: list[int]) -> None:
    depths = tree.depths()

    def choose(node: int) -> int | None:
        return truth[depths[node]] if depths[node] < len(truth) else None

    branches = [path_to_root(tree, node)[1:] for node in range(len(tree))]
    right = [b for b in branches if [tree.token_ids[node] for node in b] == truth[: len(b)]]
    longest = max(right, key=len)
    nodes, chosen = accepted_path(tree, choose)
    assert nodes == longest
    assert chosen == truth[: len(longest) + 1]


def test_the_end_may_come_inside_a_branch() -> None:
    tree = DraftTree([7])
    for token in (1, 2, 3):
        tree.add(token, len(tree) - 1)
    answer = iter([1, 2, None])
    assert accepted_path(tree, lambda node: next(answer)) == ([1, 2], [1, 2])
