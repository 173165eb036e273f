"""Replay: on answers recorded from real models the drafts must be worth what they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Drafter, DraftLimits
from ragla.trie.replay import ReplayCount, replay

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "replays"

IDS = st.lists(st.integers(0, 5), min_size=1, max_size=30)


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
    replay(Drafter(), [1, 2], list(range(10, 20)), [], DraftLimits(), count)
    assert count.mean_acceptance_length == 1.0
    assert count.nodes == count.steps


def test_an_empty_count_has_no_mean() -> None:
    assert ReplayCount().mean_acceptance_length == 0.0


@pytest.mark.parametrize(("name", "least"), [("smollm2", 2.85), ("qwen", 3.5)])
def test_recorded_answers_at_budget_16(name: str, least: float) -> None:
    path = RECORDED / f"{name}_rag.jsonl"
    if not path.exists():
        pytest.skip("no recorded answers here")
    drafter, count = Drafter(), ReplayCount()
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        replay(drafter, record["prompt"], record["out"], record["tops"], DraftLimits(budget=16), count)
    assert count.mean_acceptance_length >= least
    assert 0.6 < count.expected / count.accepted < 1.5  # the drafter's probabilities mean something
