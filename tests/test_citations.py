"""The passages that an answer names are held against those that its words stand in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.citations import misplaced, named
from ragla.evidence import Evidence
from ragla.prompt import Prompt, PromptPassage
from ragla.provenance import CopySpan

HOTEL = "Hotels cost at most EUR 165 a night, breakfast included."
ALERT = "A red alert is signed by two people who are on duty."
BOTH = f"{HOTEL} {ALERT}"


def spans_of(text: str, *copies: tuple[str, int]) -> list[CopySpan]:
    found = []
    for words, number in copies:
        start = text.index(words)
        found.append(CopySpan(start, start + len(words), f"{number}.md", 1, 1, 0, len(words), number))
    return found


def told(text: str, *copies: tuple[str, int], passages: tuple[str, ...] = (HOTEL, ALERT)) -> tuple[str, ...]:
    evidence = Evidence([PromptPassage("", passage) for passage in passages])
    prompt = Prompt([], [], list(range(len(passages))), [])
    return misplaced(text, spans_of(text, *copies), evidence, prompt)


@pytest.mark.parametrize("text", [f"[1] {ALERT}", f"{ALERT} [1]", f"[1]: {ALERT}", f"So:\n- [1] {ALERT}\n"])
def test_a_wrong_number_is_told(text: str) -> None:
    assert told(text, (ALERT, 2)) == ("the answer names [1] for words that stand in [2]",)


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        (f"[2] {ALERT}", [(ALERT, 2)]),
        (f"{HOTEL} [1]\n{ALERT} [2]", [(HOTEL, 1), (ALERT, 2)]),
        (f"{HOTEL} [1] {ALERT} [2]", [(HOTEL, 1), (ALERT, 2)]),
        (f"[1] {HOTEL}\n[2] {ALERT}", [(HOTEL, 1), (ALERT, 2)]),
        (f"{ALERT} [1][2]", [(ALERT, 2)]),
        (f"{ALERT} [1], [2]", [(ALERT, 2)]),
        (ALERT, [(ALERT, 2)]),
        ("You need two signatures, says the handbook: who are on duty. [1]", [("who are on duty.", 2)]),
        ("on duty. [1]", [("on duty.", 2)]),
        ("", []),
        ("[1]", []),
        (f"As [2] says, {ALERT} As [1] says, {HOTEL}", [(ALERT, 2), (HOTEL, 1)]),
        (f"According to [1], {HOTEL} and [2] says {ALERT}", [(HOTEL, 1), (ALERT, 2)]),
        (f"Passage [2]: {ALERT} Passage [1]: {HOTEL}", [(ALERT, 2), (HOTEL, 1)]),
        (f"根据[1]，{HOTEL}根据[2]，{ALERT}", [(HOTEL, 1), (ALERT, 2)]),
        (f"{HOTEL} [1] {ALERT}", [(HOTEL, 1), (ALERT, 2)]),
        (f"{ALERT} [1, 2]", [(ALERT, 2)]),
        (f"{ALERT}【2】", [(ALERT, 2)]),
        (f"{ALERT} [1-2]", [(ALERT, 2)]),
    ],
)
def test_nothing_is_told_of_right_numbers_of_own_words_and_of_little(
    text: str, copies: list[tuple[str, int]]
) -> None:
    assert told(text, *copies) == ()


def test_words_that_stand_in_both_may_name_either() -> None:
    assert told(f"{ALERT} [1]", (ALERT, 2), passages=(BOTH, ALERT)) == ()


def test_a_number_that_no_passage_has_is_told() -> None:
    assert told(f"{ALERT} [7]", (ALERT, 2)) == ("the answer names [7] for words that stand in [2]",)


def test_two_numbers_that_are_exchanged_are_told() -> None:
    text = f"{HOTEL} [2]\n{ALERT} [1]"
    assert len(told(text, (HOTEL, 1), (ALERT, 2))) == 2


def test_each_is_told_once() -> None:
    text = f"{ALERT} [1]\n{ALERT} [1]"
    start = text.rindex(ALERT)
    again = CopySpan(start, start + len(ALERT), "2.md", 1, 1, 0, len(ALERT), 2)
    evidence = Evidence([PromptPassage("", HOTEL), PromptPassage("", ALERT)])
    prompt = Prompt([], [], [0, 1], [])
    assert len(misplaced(text, [*spans_of(text, (ALERT, 2)), again], evidence, prompt)) == 1


@given(st.text(alphabet="ab 。.[]12,\n", max_size=60))
def test_parts_lie_in_the_text_and_do_not_overlap(text: str) -> None:
    end = 0
    for part in named(text, []):
        assert end <= part.start <= part.end <= len(text)
        assert part.numbers
        end = part.end
