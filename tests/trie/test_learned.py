"""What a drafter has learned outlives it, and nonsense is not learned."""

from __future__ import annotations

import json
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Answers, Drafter, DraftLimits

TOKENS = st.integers(0, 6)
IDS = st.lists(TOKENS, min_size=1, max_size=40)
NAMES = ["question", "answers", "ranks", "frequent", "recent", "anchor", "calibration"]


def drafter(order: int = 3) -> Drafter:
    return Drafter(order, Answers(order, 1000))


def taught(order: int, prompt: list[int], answer: list[int]) -> Drafter:
    """A drafter after one answer, decoded step by step."""
    learner = drafter(order)
    learner.begin(prompt)
    text = [*prompt, *answer]
    for place in range(len(prompt), len(text)):
        tree = learner.draft(text[place - 1], DraftLimits(budget=8))
        hits = [node for node in range(1, len(tree)) if tree.parents[node] == 0]
        learner.learn(tree, [node for node in hits if tree.token_ids[node] == text[place]])
        learner.commit([text[place]])
        learner.recycle([text[place]], [[(text[place] + 1) % 7, 2, 3, 4, 5, 6]])
    learner.end(answer)
    return learner


@given(st.integers(1, 5), IDS, st.lists(TOKENS, max_size=20))
def test_what_was_learned_is_taken_up_whole(order: int, prompt: list[int], answer: list[int]) -> None:
    first = taught(order, prompt, answer)
    learned = json.loads(json.dumps(first.learned()))
    second = drafter(order)
    second.relearn(learned)
    assert second.learned() == first.learned() == learned
    assert set(learned) >= set(NAMES)


def test_learning_makes_a_difference() -> None:
    learned = taught(3, [1, 2, 3, 1, 2, 3, 4], [1, 2, 3, 4, 5, 1, 2]).learned()
    assert {name for name in NAMES if learned[name] != drafter().learned()[name]} >= {
        "question", "ranks", "recent", "calibration",
    }  # fmt: skip


def test_drafts_go_by_what_was_learned() -> None:
    learner = drafter()
    plain = drafter()
    learned = plain.learned()
    means = len(learned["question"]) // 2
    learner.relearn({"question": [0.01] * means + learned["question"][means:]})
    chances = []
    for each in (plain, learner):
        each.begin([1, 2, 3, 1, 2])
        chances.append(each.draft(2, DraftLimits(budget=2)).probabilities[-1])
    assert chances[1] < chances[0] / 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [nan, inf, -inf, -0.1, 1e300])
def test_a_number_out_of_bounds_is_not_learned(name: str, wrong: float) -> None:
    before = taught(3, [1, 2, 3, 1, 2, 3], [1, 2, 3, 4]).learned()
    for place in (0, 1) if name == "calibration" else (0,):
        numbers = list(before[name])
        numbers[place] = wrong * 1000
        learner = drafter()
        learner.relearn({name: numbers})
        assert learner.learned() == drafter().learned()


@pytest.mark.parametrize("weight", [0.0, -1.0, inf, nan])
def test_a_weight_that_is_none_is_not_learned(weight: float) -> None:
    learner = drafter()
    numbers = learner.learned()["ranks"]
    learner.relearn({"ranks": [*numbers[:-1], weight]})
    assert learner.learned() == drafter().learned()


@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_another_length_is_not_learned(name: str) -> None:
    learner = drafter()
    numbers = learner.learned()[name]
    for wrong in ([], numbers[:-1], [*numbers, 0.5, 0.5]):
        learner.relearn({name: wrong})
        assert learner.learned() == drafter().learned()


def test_what_belongs_to_another_order_or_nobody_is_ignored() -> None:
    other = taught(5, [1, 2, 3, 1, 2, 3], [1, 2, 3]).learned()
    learner = drafter(3)
    learner.relearn({"question": other["question"], "nobody": [0.5]})
    assert learner.learned() == drafter(3).learned()
    learner.relearn({"ranks": other["ranks"]})
    assert learner.learned()["ranks"] == other["ranks"]


def test_a_drafter_without_answers_learns_the_rest() -> None:
    learned = taught(3, [1, 2, 3, 1, 2, 3], [1, 2, 3]).learned()
    alone = Drafter(3)
    alone.relearn(learned)
    assert alone.learned() == {name: numbers for name, numbers in learned.items() if name != "answers"}
