"""Follow-up questions find their passages, and what was read before stays where it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.answer import Answer
from ragla.config import Profile
from ragla.conversation import Conversation, read_first
from ragla.retrieve.passage import Passage, ScoredPassage


def scored(number: int, score: float) -> ScoredPassage:
    passage = Passage(number, number, f"{number}.md", f"/{number}.md", "", f"text {number}", 0, 6, 1, 1)
    return ScoredPassage(passage, score, score, score)


class Index:
    """Passages by the words they are found for, each with its score there."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.passages = {
            "paris": [(1, 0.9), (2, 0.6), (3, 0.5)],
            "berlin": [(4, 0.4), (2, 0.3)],
            "paris berlin": [(5, 0.8), (1, 0.7), (4, 0.5)],
            "boats": [(7, 0.9)],
        }

    def search(self, query: str, top_k: int, floor: float) -> list[ScoredPassage]:
        self.asked.append(query)
        words = query.lower().replace("\n", " ")
        return [scored(*hit) for hit in self.passages.get(words, []) if hit[1] >= floor][:top_k]


class Listener:
    """Stands for the model: remembers what it was to answer from."""

    profile = Profile.model_validate({"retrieve": {"top_k": 3, "relevance_floor": 0.1}})

    def __init__(self) -> None:
        self.given: list[tuple[list[int], list[str]]] = []
        self.answered = True
        self.interrupted = False

    def answer_from(self, question: str, found: list[ScoredPassage], *_: Any, **more: Any) -> Answer:
        turns = [turn.question for turn in more["turns"]]
        self.given.append(([hit.passage.id for hit in found], turns))
        return Answer(question, f"about {question}", self.answered, interrupted=self.interrupted)


@pytest.fixture
def talk() -> Any:
    index, listener = Index(), Listener()
    conversation = Conversation(listener, index)  # type: ignore[arg-type]
    return SimpleNamespace(ask=conversation.ask, conversation=conversation, index=index, listener=listener)


def test_a_follow_up_is_searched_alone_and_behind_the_last_question(talk: Any) -> None:
    talk.ask("Paris")
    talk.ask("Berlin")
    assert talk.index.asked == ["Paris", "Berlin", "Paris\nBerlin"]
    assert talk.listener.given == [
        ([1, 2, 3], []),
        ([1, 5, 4], ["Paris"]),
    ]  # 1 was read
    talk.ask("boats")
    assert talk.index.asked[3:] == ["boats", "Berlin\nboats"]
    assert talk.listener.given[-1] == ([7], ["Paris", "Berlin"])


def test_a_conversation_begins_anew(talk: Any) -> None:
    talk.ask("Paris")
    talk.conversation.forget()
    talk.ask("Berlin")
    assert talk.index.asked == ["Paris", "Berlin"]
    assert talk.listener.given[-1] == ([4, 2], [])


@pytest.mark.parametrize("state", ["answered", "interrupted"])
def test_only_whole_answers_are_told(talk: Any, state: str) -> None:
    setattr(talk.listener, state, state == "interrupted")
    talk.ask("Paris")
    talk.ask("Berlin")
    assert talk.listener.given[-1] == ([1, 5, 4], [])


@given(
    found=st.lists(st.integers(0, 9), unique=True, max_size=6),
    shown=st.lists(st.integers(0, 9), unique=True, max_size=6),
)
def test_what_opened_the_last_prompt_opens_this_one_and_the_rest_keeps_its_rank(
    found: list[int], shown: list[int]
) -> None:
    hits = [scored(number, 1.0 - place / 10) for place, number in enumerate(found)]
    ids = [hit.passage.id for hit in read_first(hits, shown)]
    assert sorted(ids) == sorted(found)
    common = 0
    while common < len(shown) and shown[common] in found:
        common += 1
    assert ids[:common] == shown[:common]
    assert ids[common:] == [number for number in found if number not in shown[:common]]
