"""The trie against a brute-force twin that scans every sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Origin, TokenTrie
from ragla.trie.token_trie import TrieNode

TOKENS = st.integers(0, 4)
SEQUENCES = st.lists(st.lists(TOKENS, max_size=25), min_size=1, max_size=4)
ORDERS = st.integers(1, 5)


def windows(sequences: list[list[int]], order: int) -> Counter[tuple[int, ...]]:
    """How often every window of 1 … ``order + 1`` tokens occurs."""
    return Counter(
        tuple(sequence[start : start + length])
        for sequence in sequences
        for start in range(len(sequence))
        for length in range(1, min(order + 1, len(sequence) - start) + 1)
    )


def walk(node: TrieNode, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], TrieNode]]:
    """Every node below ``node`` with the tokens that lead to it."""
    for token, child in node.children.items():
        yield (*path, token), child
        yield from walk(child, (*path, token))


def build(sequences: list[list[int]], order: int) -> TokenTrie:
    trie = TokenTrie(order)
    for index, sequence in enumerate(sequences):
        trie.insert(sequence, f"source {index}")
    return trie


@given(SEQUENCES, ORDERS)
def test_counts_every_window(sequences: list[list[int]], order: int) -> None:
    trie = build(sequences, order)
    counts = {path: node.count for path, node in walk(trie.root)}
    assert counts == windows(sequences, order)
    assert trie.node_count == len(counts)


@given(SEQUENCES, ORDERS, st.data())
def test_extending_in_pieces_equals_inserting_at_once(
    sequences: list[list[int]], order: int, data: st.DataObject
) -> None:
    trie = TokenTrie(order)
    for sequence in sequences:
        cut = data.draw(st.integers(0, len(sequence)))
        trie.insert(sequence[:cut], "a")
        for token in sequence[cut:]:
            trie.extend([token])
    assert {path: node.count for path, node in walk(trie.root)} == windows(sequences, order)


@given(SEQUENCES, ORDERS, st.lists(TOKENS, max_size=12))
def test_contexts_are_the_suffixes_that_occurred(
    sequences: list[list[int]], order: int, text: list[int]
) -> None:
    trie = build(sequences, order)
    seen = windows(sequences, order)
    nodes = dict(walk(trie.root))
    expected = [trie.root]
    for length in range(1, min(order, len(text)) + 1):
        suffix = tuple(text[-length:])
        if suffix not in seen:
            break
        expected.append(nodes[suffix])
    found = trie.contexts(text)
    assert [id(node) for node in found] == [id(node) for node in expected]


@given(SEQUENCES, ORDERS, st.lists(TOKENS, min_size=1, max_size=12))
def test_advancing_equals_looking_up_afresh(sequences: list[list[int]], order: int, text: list[int]) -> None:
    trie = build(sequences, order)
    contexts = trie.contexts(text[:-1])
    advanced = trie.advance(contexts, text[-1])
    assert [id(node) for node in advanced] == [id(node) for node in trie.contexts(text)]


@given(SEQUENCES, ORDERS)
def test_origin_is_the_latest_place(sequences: list[list[int]], order: int) -> None:
    trie = build(sequences, order)
    latest = {
        tuple(sequence[start : end + 1]): Origin(f"source {index}", end)
        for index, sequence in enumerate(sequences)
        for end in range(len(sequence))
        for start in range(max(0, end - order), end + 1)
    }
    assert {path: trie.origin(node) for path, node in walk(trie.root)} == latest


@given(st.lists(st.lists(TOKENS, max_size=25), min_size=1, max_size=8), ORDERS, st.integers(1, 60))
def test_a_bounded_trie_stays_bounded_and_honest(
    sequences: list[list[int]], order: int, max_nodes: int
) -> None:
    trie = TokenTrie(order, max_nodes=max_nodes)
    for sequence in sequences:
        trie.insert(sequence, "answer")
        nodes = dict(walk(trie.root))
        assert trie.node_count == len(nodes) <= max_nodes
        for path, node in nodes.items():
            assert node.count > 0
            assert path[1:] == () or nodes[path[1:]].count >= node.count  # every suffix is there as well
            assert sum(child.count for child in node.children.values()) <= node.count


def test_pruning_keeps_what_was_used_most() -> None:
    trie = TokenTrie(order=2, max_nodes=40)
    for _ in range(8):
        trie.insert([1, 2, 3], "often")
    trie.insert(list(range(100, 130)), "once")
    assert [len(trie.contexts(text)) for text in ([1, 2], [100, 101])] == [3, 1]
    assert trie.contexts([1, 2])[2].children.keys() == {3}


def test_clear_forgets_everything() -> None:
    trie = build([[1, 2, 3], [2, 3]], order=3)
    trie.clear()
    assert trie.node_count == 0
    assert trie.root.children == {}
    trie.insert([2, 5], "later")
    assert trie.contexts([3, 2])[1].children.keys() == {5}
    assert trie.origin(trie.root.children[5]) == Origin("later", 1)


def test_memory_is_linear_in_the_sequence() -> None:
    trie = TokenTrie(order=8)
    trie.insert(range(5000), "distinct")
    assert trie.node_count <= 9 * 5000


def test_order_must_be_positive() -> None:
    with pytest.raises(ValueError, match="order must be at least 1, not 0"):
        TokenTrie(order=0)
