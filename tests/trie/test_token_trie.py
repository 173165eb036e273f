"""Origins: which source a token was read in, and where. The counts themselves are tested with the windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Origin, TokenTrie

TOKENS = st.integers(0, 4)
SEQUENCES = st.lists(st.lists(TOKENS, max_size=25), min_size=1, max_size=4)
ORDERS = st.integers(1, 5)


def build(sequences: list[list[int]], order: int) -> TokenTrie:
    trie = TokenTrie(order)
    for index, sequence in enumerate(sequences):
        trie.insert(sequence, f"source {index}")
    return trie


def origin_of(trie: TokenTrie, window: list[int]) -> Origin | None:
    """Where the last token of a window was read last."""
    return trie.origin(trie.windows.position(trie.contexts(window)))


@given(SEQUENCES, ORDERS)
def test_origin_is_the_latest_place(sequences: list[list[int]], order: int) -> None:
    trie = build(sequences, order)
    latest = {
        tuple(sequence[start : end + 1]): Origin(f"source {index}", end)
        for index, sequence in enumerate(sequences)
        for end in range(len(sequence))
        for start in range(max(0, end - order + 1), end + 1)
    }
    for window, origin in latest.items():
        assert origin_of(trie, list(window)) == origin


@given(SEQUENCES, ORDERS, st.data())
def test_extending_in_pieces_keeps_offsets(
    sequences: list[list[int]], order: int, data: st.DataObject
) -> None:
    trie = TokenTrie(order)
    for index, sequence in enumerate(sequences):
        cut = data.draw(st.integers(0, len(sequence)))
        trie.insert(sequence[:cut], f"source {index}")
        for token in sequence[cut:]:
            trie.extend([token])
    whole = build(sequences, order)
    for token in {token for sequence in sequences for token in sequence}:
        assert origin_of(trie, [token]) == origin_of(whole, [token])


def test_a_part_of_a_source_counts_from_its_own_first_token() -> None:
    trie = TokenTrie()
    trie.insert([7, 8], "book", offset=1000)
    assert origin_of(trie, [7, 8]) == Origin("book", 1001)


def test_a_forgotten_source_is_no_origin() -> None:
    trie = TokenTrie()
    trie.insert([1, 2], "kept")
    trie.insert([1, 2, 3], "gone")
    trie.forget([1, 2, 3], "gone")
    assert len(trie.contexts([1, 2, 3])) == 1
    assert origin_of(trie, [1, 2]) is None  # the last place it was read at is gone
    trie.insert([1, 2], "again")
    assert origin_of(trie, [1, 2]) == Origin("again", 1)


def test_clear_forgets_everything() -> None:
    trie = build([[1, 2, 3], [2, 3]], order=3)
    trie.clear()
    assert trie.node_count == 0
    assert trie.mebibytes == 0
    trie.insert([2, 5], "later")
    assert origin_of(trie, [2, 5]) == Origin("later", 1)


def test_memory_is_linear_in_the_sequence() -> None:
    trie = TokenTrie(order=8)
    trie.insert(range(5000), "distinct")
    assert trie.node_count <= 9 * 5000
    assert 0 < trie.mebibytes < 9 * 5000 * 1024 / 2**20


def test_order_must_be_positive() -> None:
    with pytest.raises(ValueError, match="order must be at least 1, not 0"):
        TokenTrie(order=0)
