"""How many nodes a step is worth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.budget import StepCost, measure
from ragla.decode.decoder import lookahead
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.tree_attention import causal_rows
from ragla.trie import Drafter, DraftLimits, DraftTree
from tests.decode.tiny_models import ScriptedBackend, plain

BACKEND = ScriptedBackend(lambda token, position: (token * 3 + position) % 30)


def prepared(costs: dict[int, float]) -> StepCost:
    """A table that has all sizes, so that nothing is measured."""
    cache = BACKEND.new_cache(8)
    cache.truncate(4)
    cost = StepCost({3: dict(costs)})
    cost.prepare(BACKEND, cache, budget=1)
    return cost


def tree_of(*probabilities: float) -> DraftTree:
    tree = DraftTree([5])
    for probability in probabilities:
        tree.add(6, len(tree) - 1, probability)
    return tree


def test_seconds_are_interpolated_and_never_fall() -> None:
    cost = prepared({1: 1.0, 2: 4.0, 4: 2.0, 8: 6.0})
    assert [cost.seconds(rows) for rows in (1, 2, 3, 4, 6, 8)] == [1.0, 4.0, 4.0, 4.0, 5.0, 6.0]
    assert cost.seconds(16) == 12.0


COSTS = st.dictionaries(st.sampled_from([2, 4, 8, 16, 32]), st.floats(0.001, 10), min_size=1).map(
    lambda costs: {1: 0.5, **costs}
)


@given(COSTS)
def test_more_rows_never_cost_less(costs: dict[int, float]) -> None:
    cost = prepared(costs)
    assert all(a <= b + 1e-12 for a, b in pairwise([cost.seconds(rows) for rows in range(1, 65)]))


@given(COSTS, st.lists(st.floats(0, 1), max_size=40))
def test_a_trimmed_draft_is_a_tree_and_never_slower_than_plain(
    costs: dict[int, float], chances: list[float]
) -> None:
    cost, tree = prepared(costs), tree_of(*sorted(chances, reverse=True))
    part = cost.trim(tree)
    assert part == tree.truncated(len(part))
    assert sum(part.probabilities) / cost.seconds(len(part)) >= 1.0 / cost.seconds(1) - 1e-9
    assert sum(part.probabilities) / cost.seconds(len(part)) >= sum(tree.probabilities) / cost.seconds(
        len(tree)
    ) * (1 - 1e-9)


def test_nothing_is_verified_when_nothing_pays() -> None:
    cost = prepared({1: 1.0, 2: 3.0, 16: 9.0})
    assert len(cost.trim(tree_of(0.2, 0.1, 0.1))) == 1
    assert len(cost.trim(tree_of())) == 1


def test_everything_is_verified_when_rows_are_free() -> None:
    cost = prepared({1: 1.0, 16: 1.0})
    assert len(cost.trim(tree_of(0.5, 0.1, 0.05))) == 4


def test_without_measurements_the_draft_stays_whole() -> None:
    cost = StepCost()
    tree = tree_of(0.1, 0.1)
    cost.record(3, 1.0)
    assert cost.trim(tree) is tree


def test_real_steps_move_the_nearest_size_most() -> None:
    cost = prepared({1: 1.0, 8: 2.0, 16: 4.0})
    cost.record(8, 3.0)
    others = 1.05**0.5
    assert cost.table[3] == pytest.approx({1: others, 8: 2.0 * 1.05, 16: 4.0 * others})
    before = cost.table[3][16]
    cost.record(15, 1000.0)  # a hiccup counts as twice the time at most
    assert cost.table[3][16] == pytest.approx(1.1 * before)


def test_costs_measured_on_a_busy_machine_do_not_end_drafting_on_a_quiet_one() -> None:
    """Only steps of the chosen size are seen; were the others left alone, one row would look ever cheaper."""
    quiet = {1: 1.0, 2: 1.1, 3: 1.15, 4: 1.2, 6: 1.3, 8: 1.5, 12: 2.2, 16: 3.0}
    cost, right = prepared({size: 4.0 * seconds for size, seconds in quiet.items()}), prepared(quiet)
    unsure, sure = tree_of(0.05), tree_of(*[0.8**depth for depth in range(1, 12)])
    wanted = len(right.trim(sure))
    assert wanted > 4
    for _ in range(200):  # nothing to draft for a while
        cost.record(len(cost.trim(unsure)), quiet[1])
    for _ in range(60):
        part = cost.trim(sure)
        cost.record(len(part), right.seconds(len(part)))
    assert len(cost.trim(sure)) == wanted


def test_measuring_leaves_the_cache_as_it_was() -> None:
    cache = BACKEND.new_cache(40)
    BACKEND.forward(causal_rows([5, 6, 7], 0, BACKEND.device), cache)
    cache.committed(3)
    before = cache.rows[0].keys[:, :, :3].clone()
    costs = measure(BACKEND, cache, [1, 8, 32, 64])
    assert sorted(costs) == [1, 8, 32]  # 64 do not fit
    assert cache.length == cache.rows[0].length == 3
    assert cache.rows[0].keys[:, :, :3].equal(before)


def test_measuring_stays_within_the_context() -> None:
    backend = ScriptedBackend(lambda token, position: 5, context_end=10)
    cache = backend.new_cache(100)
    backend.forward(causal_rows([5] * 7, 0, backend.device), cache)
    cache.committed(7)
    assert sorted(measure(backend, cache, [1, 2, 4, 8])) == [1, 2]


def test_each_context_length_has_its_own_table() -> None:
    cost = StepCost()
    for rows in (3, 3, 20):
        cache = BACKEND.new_cache(rows + 8)
        BACKEND.forward(causal_rows([5] * rows, 0, BACKEND.device), cache)
        cache.committed(rows)
        cost.prepare(BACKEND, cache, budget=8)
    assert sorted(cost.table) == [2, 5]
    assert sorted(cost.table[2]) == [1, 2, 3, 4, 6, 8]


def test_the_text_is_the_same_with_costs() -> None:
    prompt = [5, 6, 7]
    request = DecodeRequest(prompt, 40)
    expected = plain(BACKEND, request)
    drafter, stats = Drafter(), DecodeStats()
    drafter.begin(prompt, [("answer", expected)])
    blocks = lookahead(BACKEND, drafter, request, stats, DraftLimits(budget=16), StepCost())
    assert [token for block in blocks for token in block.token_ids] == expected
