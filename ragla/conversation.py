"""A conversation about an index: earlier turns are told to the model, and follow-ups find their passages.

A follow-up such as "and in Berlin?" names nothing by itself. So it is searched twice, alone and behind
the question before it, and each passage counts with the better of its two scores. The passages that the
last prompt began with stay first while they are found again: the model has read them already.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from ragla.answering import Answer, Answering, OnStep, Stopped
from ragla.prompt import Turn
from ragla.text_stream import OnText

if TYPE_CHECKING:
    from ragla.decode.decoder import Observer
    from ragla.retrieve.passage import ScoredPassage
    from ragla.retrieve.retriever import Retriever


class Conversation:
    """Questions to one answerer that follow each other.

    ``turns`` were said before, ``asked`` is the last question, whether it was answered or not, ``shown`` the
    ids of the passages that its prompt began with.
    """

    def __init__(
        self,
        answerer: Answering,
        retriever: Retriever,
        turns: Sequence[Turn] = (),
        asked: str | None = None,
        shown: Sequence[int] = (),
    ) -> None:
        self.answerer = answerer
        self.retriever = retriever
        self.turns: list[Turn] = list(turns)
        self._asked = asked
        self._shown = list(shown)

    def forget(self) -> None:
        """Begin anew."""
        self.turns.clear()
        self._asked = None
        self._shown = []

    def ask(
        self,
        question: str,
        on_text: OnText | None = None,
        observe: Observer | None = None,
        stopped: Stopped | None = None,
        on_step: OnStep | None = None,
    ) -> Answer:
        """Answer with what was said before in mind. Raises UsageError, as ``Answerer.ask`` does.

        Only a whole answer is told to later questions, and a question that was not answered only helps to
        find passages.
        """
        began = perf_counter()
        found = self.search(question)
        self._asked = question
        answer = self.answerer.answer_from(
            question, found, self.retriever, on_text, observe, stopped, turns=self.turns, on_step=on_step,
            began=began,
        )  # fmt: skip
        self._shown = [hit.passage.id for hit in found]
        if answer.answered and not answer.interrupted:
            self.turns.append(Turn(question, answer.text))
        return answer

    def search(self, question: str) -> list[ScoredPassage]:
        """The passages for a question, those first that opened the last prompt."""
        settings = self.answerer.profile.retrieve
        best: dict[int, ScoredPassage] = {}
        for query in (question, *([f"{self._asked}\n{question}"] if self._asked else [])):
            for hit in self.retriever.search(query, settings.top_k, settings.relevance_floor):
                known = best.get(hit.passage.id)
                if known is None or hit.score > known.score:
                    best[hit.passage.id] = hit
        ranked = sorted(best.values(), key=lambda hit: (-hit.score, hit.passage.id))
        return read_first(ranked[: settings.top_k], self._shown)


def read_first(found: Sequence[ScoredPassage], shown: Sequence[int]) -> list[ScoredPassage]:
    """Found passages, best first; but those come first that ``shown`` begins with, while they are found."""
    places = {hit.passage.id: hit for hit in found}
    again: list[ScoredPassage] = []
    for passage_id in shown:
        if passage_id not in places:
            break
        again.append(places.pop(passage_id))
    return [*again, *places.values()]
