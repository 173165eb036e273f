"""Counts of windows, by both cores, against a brute-force twin that scans every sequence."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie.windows import REPEATED, SEVERAL, SINGLE
from tests.trie.both_cores import each_core

Sequences = list[list[int]]
Window = tuple[int, ...]

TOKENS = st.integers(0, 4)
SEQUENCES: st.SearchStrategy[Sequences] = st.lists(st.lists(TOKENS, max_size=25), min_size=1, max_size=4)
ORDERS = st.integers(1, 5)


def occurrences(sequences: Sequences, order: int) -> Counter[Window]:
    """How often every window of 1 … ``order + 1`` tokens occurs."""
    return Counter(
        tuple(sequence[start : start + length])
        for sequence in sequences
        for start in range(len(sequence))
        for length in range(1, min(order + 1, len(sequence) - start) + 1)
    )


def build(core: ModuleType, sequences: Sequences, order: int) -> Any:
    windows = core.Windows(order)
    for sequence in sequences:
        windows.start()
        windows.count(sequence)
    return windows


def counts(windows: Any) -> dict[Window, int]:
    """Every window that the trie holds, with its count, found by walking from follower to follower."""
    found: dict[Window, int] = {}
    paths: list[Window] = [()]
    while paths:
        path = paths.pop()
        for token, count in windows.followers(windows.match(path)):
            found[*path, token] = count
            if len(path) < windows.order:
                paths.append((*path, token))
    return found


@each_core
@given(SEQUENCES, ORDERS)
def test_every_window_is_counted(core: ModuleType, sequences: Sequences, order: int) -> None:
    windows = build(core, sequences, order)
    assert counts(windows) == occurrences(sequences, order)
    assert windows.node_count == len(counts(windows))
    assert windows.length == sum(map(len, sequences))


@each_core
@given(SEQUENCES, ORDERS)
def test_followers_come_most_frequent_first(core: ModuleType, sequences: Sequences, order: int) -> None:
    windows = build(core, sequences, order)
    for window in [(), *counts(windows)]:
        if len(window) <= order:
            falling = [count for _, count in windows.followers(windows.match(window))]
            assert falling == sorted(falling, reverse=True)


@each_core
@given(SEQUENCES, ORDERS, st.data())
def test_counting_in_pieces_equals_counting_at_once(
    core: ModuleType, sequences: Sequences, order: int, data: st.DataObject
) -> None:
    windows = core.Windows(order)
    for sequence in sequences:
        cut = data.draw(st.integers(0, len(sequence)))
        windows.start()
        windows.count(sequence[:cut])
        for token in sequence[cut:]:
            windows.count([token])
    assert counts(windows) == occurrences(sequences, order)


@each_core
@given(SEQUENCES, ORDERS, st.lists(TOKENS, max_size=12))
def test_the_contexts_are_the_suffixes_that_occurred(
    core: ModuleType, sequences: Sequences, order: int, text: list[int]
) -> None:
    windows = build(core, sequences, order)
    seen = occurrences(sequences, order)
    suffixes = [tuple(text[-k:]) for k in range(1, min(order, len(text)) + 1)]
    matching = [suffix for suffix in suffixes if suffix in seen]
    contexts = windows.match(text)
    assert len(contexts) == 1 + len(matching)
    assert windows.followers(contexts) == windows.followers(windows.match(matching[-1] if matching else []))


@each_core
@given(SEQUENCES, ORDERS, st.lists(TOKENS, min_size=1, max_size=12))
def test_advancing_equals_matching_afresh(
    core: ModuleType, sequences: Sequences, order: int, text: list[int]
) -> None:
    windows = build(core, sequences, order)
    assert windows.advance(windows.match(text[:-1]), text[-1]) == windows.match(text)
    assert windows.known(text[-1]) == ((text[-1],) in occurrences(sequences, order))


@each_core
@given(SEQUENCES, ORDERS)
def test_a_position_is_that_of_the_latest_occurrence(
    core: ModuleType, sequences: Sequences, order: int
) -> None:
    windows = build(core, sequences, order)
    latest: dict[Window, int] = {}
    first = 0
    for sequence in sequences:
        for start in range(len(sequence)):
            for length in range(1, min(order, len(sequence) - start) + 1):
                latest[tuple(sequence[start : start + length])] = first + start + length - 1
        first += len(sequence)
    for window, position in latest.items():
        assert windows.position(windows.match(window)) == position


@each_core
@given(SEQUENCES, ORDERS, st.data())
def test_what_is_forgotten_was_never_there(
    core: ModuleType, sequences: Sequences, order: int, data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.integers(0, len(sequences) - 1)))
    windows = build(core, sequences, order)
    for index in data.draw(st.permutations(sorted(gone))):
        windows.forget(sequences[index])
    kept = [sequence for index, sequence in enumerate(sequences) if index not in gone]
    assert counts(windows) == counts(build(core, kept, order)) == occurrences(kept, order)
    assert windows.node_count == len(counts(windows))
    windows.start()
    windows.count([1, 2])
    assert counts(windows) == occurrences([*kept, [1, 2]], order)


@each_core
def test_clear_forgets_everything(core: ModuleType) -> None:
    windows = build(core, [[1, 2, 3], [2, 3]], 3)
    windows.clear()
    assert (windows.node_count, windows.length, counts(windows)) == (0, 0, {})
    windows.count([2, 5])
    assert counts(windows) == {(2,): 1, (5,): 1, (2, 5): 1}
    assert windows.position(windows.match([5])) == 1


@each_core
def test_memory_is_linear_in_the_sequence(core: ModuleType) -> None:
    windows = build(core, [list(range(5000))], 8)
    assert windows.node_count <= 9 * 5000


@each_core
def test_the_order_has_bounds(core: ModuleType) -> None:
    for order, message in ((0, "at least 1, not 0"), (-3, "at least 1, not -3"), (65, "at most 64, not 65")):
        with pytest.raises(ValueError, match=f"order must be {message}"):
            core.Windows(order)
    windows = build(core, [list(range(100))], 64)
    assert len(windows.match(range(100))) == 65


@each_core
def test_stale_contexts_and_those_of_others_are_refused(core: ModuleType) -> None:
    windows, other = build(core, [[1, 2, 1]], 2), build(core, [[1, 2, 1]], 2)
    stale = windows.match([1])
    windows.forget([1, 2, 1])
    older = windows.match([1])
    windows.clear()
    for contexts in (stale, older, other.match([1])):
        for use in (windows.check, windows.position, windows.followers):
            with pytest.raises(ValueError, match="contexts of other windows, or from before these forgot"):
                use(contexts)
        for use in (windows.advance, windows.judge):
            with pytest.raises(ValueError, match="contexts of other windows, or from before these forgot"):
                use(contexts, 1)


@each_core
def test_contexts_stay_good_while_more_is_counted(core: ModuleType) -> None:
    windows = build(core, [[1, 2]], 2)
    contexts = windows.match([1])
    windows.count(range(3, 3000))
    windows.start()
    windows.count([1, 9])
    assert windows.followers(contexts) == [(2, 1), (9, 1)]


@each_core
def test_a_judgement_names_the_kind_of_evidence(core: ModuleType) -> None:
    """Lengths that saw only what a longer one saw are not asked."""
    windows = build(core, [[1, 2, 5], [1, 2, 6], [1, 2, 6], [8, 2, 7], [9, 2, 7]], 2)
    contexts = windows.match([1, 2])
    assert windows.judge(contexts, 6) == [(2, SEVERAL, True)]
    assert windows.judge(contexts, 7) == [(2, SEVERAL, False), (1, REPEATED, True)]
    assert windows.judge(contexts, 4) == [(2, SEVERAL, False), (1, REPEATED, False)]
    assert windows.judge(windows.match([8, 2]), 7) == [(2, SINGLE, True)]
    assert windows.judge(windows.match([4]), 7) == []


@each_core
def test_what_is_new_behind_many_followers_counts_as_several(core: ModuleType) -> None:
    """Nearly everything that followed the shorter context followed the longer one: it is not searched."""
    lines = [token for word in range(10, 1000) for token in (1, 2, word)]
    windows = build(core, [lines, lines, [3, 2, 5], [4, 2, 5]], 2)
    assert windows.judge(windows.match([1, 2]), 5)[1] == (1, SEVERAL, True)
