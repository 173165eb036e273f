"""Replay: on answers recorded from real models the drafts must be worth what they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Drafter, DraftLimits, DraftTree
from ragla.trie.replay import ReplayCount, replay

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "replays"

IDS = st.lists(st.integers(0, 5), min_size=1, max_size=30)


class Notes:
    """A rule that drafts what it was told to and notes every call."""

    def __init__(self, drafts: list[DraftTree]) -> None:
        self.drafts = drafts
        self.calls: list[tuple[Any, ...]] = []

    def begin(self, prompt_ids: Sequence[int]) -> None:
        self.calls.append(("begin", list(prompt_ids)))

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        self.calls.append(("draft", last_token))
        return self.drafts.pop(0)

    def learn(self, tree: DraftTree, accepted: Sequence[int]) -> None:
        self.calls.append(("learn", tree.token_ids, list(accepted)))

    def commit(self, token_ids: Sequence[int]) -> None:
        self.calls.append(("commit", list(token_ids)))

    def recycle(
        self, token_ids: Sequence[int], best_ids: Sequence[Sequence[int]], visited: Any = None
    ) -> None:
        assert visited is None
        self.calls.append(("recycle", list(token_ids), list(best_ids)))

    def forget_ranks(self) -> None:
        self.calls.append(("forget",))

    def end(self, answer_ids: Sequence[int], *, ended: bool) -> None:
        self.calls.append(("end", list(answer_ids)))


def branch(last_token: int, *token_ids: int, probability: float = 0.5) -> DraftTree:
    tree, node = DraftTree([last_token]), 0
    for token in token_ids:
        node = tree.add(token, node, probability)
    return tree


def test_the_calls_are_those_of_a_decoder() -> None:
    rule, count = Notes([branch(3, 4, 5, 9), branch(6, 7, 8)]), ReplayCount()
    replay(rule, [1, 2], [3, 4, 5, 6, 7], [[30], [40], [50], [60], [70]], DraftLimits(), count)
    assert rule.calls == [
        ("forget",),
        ("begin", [1, 2]),
        ("learn", [2], []),
        ("commit", [3]),
        ("recycle", [2], [[30]]),
        ("draft", 3),
        ("learn", [3, 4, 5, 9], [1, 2]),
        ("commit", [4, 5, 6]),
        ("recycle", [3, 4, 5], [[40], [50], [60]]),
        ("draft", 6),
        ("learn", [6, 7, 8], [1]),
        ("commit", [7]),
        ("recycle", [6], [[70]]),
        ("end", [3, 4, 5, 6, 7]),
    ]
    assert [step[:4] for step in count.per_step] == [(4, 2, 3, 1.5), (3, 1, 1, 1.0)]
    assert (count.steps, count.tokens, count.nodes, count.accepted, count.expected) == (2, 4, 7, 3, 2.5)
    assert count.mean_acceptance_length == 2.0
    assert count.prompt_tokens == 2


def test_the_ids_at_the_end_of_an_answer_are_recycled_where_they_are_known() -> None:
    rule = Notes([branch(3, 4, 9)])
    replay(rule, [2], [3, 4], [[30], [40], [50]], DraftLimits(), ReplayCount())
    assert rule.calls[-2] == ("recycle", [3, 4], [[40], [50]])
    rule = Notes([branch(3, 4, 9)])
    replay(rule, [2], [3, 4], [], DraftLimits(), ReplayCount())
    assert not [call for call in rule.calls if call[0] == "recycle"]


def test_the_drafter_forgets_between_answers_what_it_recycled() -> None:
    drafter = Drafter()
    replay(drafter, [1, 2], [3, 4, 5], [[3, 6], [4, 6], [5, 6]], DraftLimits(), ReplayCount())
    assert drafter.ranks
    replay(drafter, [1, 2], [3, 4, 5], [], DraftLimits(), ReplayCount())
    assert not drafter.ranks


def test_only_the_rule_is_on_the_clock() -> None:
    count = ReplayCount()
    replay(Drafter(), list(range(50)), list(range(20, 40)), [], DraftLimits(budget=8), count)
    assert count.begin_ns > 0
    assert all(step.draft_ns > 0 and step.update_ns > 0 for step in count.per_step)


@given(IDS, IDS, st.integers(1, 16))
def test_every_token_but_the_first_is_counted_once(prompt: list[int], answer: list[int], budget: int) -> None:
    count = ReplayCount()
    replay(Drafter(order=3), prompt, answer, [], DraftLimits(budget=budget), count)
    assert count.tokens == len(answer) - 1
    assert count.steps <= count.tokens
    assert count.accepted + count.steps >= count.tokens >= count.accepted
    assert count.steps <= count.nodes <= budget * count.steps


def test_a_copied_answer_takes_few_steps() -> None:
    passage = list(range(10, 60))
    count = ReplayCount()
    replay(Drafter(), [1, *passage, 2, 3], passage, [], DraftLimits(budget=16, max_depth=12), count)
    assert count.steps <= -(-49 // 13) + 1
    assert count.mean_acceptance_length == 49 / count.steps


def test_nothing_to_draft_is_one_token_a_step() -> None:
    count = ReplayCount()
    drafter = Drafter(without=("frequent",))
    replay(drafter, [1, 2], list(range(10, 20)), [], DraftLimits(), count)
    assert count.mean_acceptance_length == 1.0
    assert count.nodes == count.steps


def test_an_empty_count_has_no_mean() -> None:
    assert ReplayCount().mean_acceptance_length == 0.0


@pytest.mark.parametrize(("name", "least"), [("smollm2", 2.95), ("qwen", 3.7)])
def test_recorded_answers_at_budget_16(name: str, least: float) -> None:
    path = RECORDED / f"{name}_rag.jsonl"
    if not path.exists():
        pytest.skip("no recorded answers here")
    drafter, count = Drafter(), ReplayCount()
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        replay(drafter, record["prompt"], record["out"], record["tops"], DraftLimits(budget=16), count)
    assert count.mean_acceptance_length >= least
    assert 0.8 < count.expected / count.accepted < 1.25  # the drafter's probabilities mean something
