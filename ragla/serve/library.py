"""The open index and the loaded model behind a server. It answers and searches, and knows no HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragla import session
from ragla.answer import Answer, Answerer
from ragla.conditions import draft_limits
from ragla.conversation import Conversation
from ragla.retrieve import Retriever
from ragla.retrieve.filters import Filters
from ragla.retrieve.layout import current_database

if TYPE_CHECKING:
    from ragla.asking import Asking
    from ragla.config import Profile
    from ragla.serve.protocol import Question, SearchRequest
    from ragla.text_stream import OnText

SYSTEM_NOTICE = "system and developer messages are not shown to the model: it quotes from passages"


class OpenIndex:
    """The index as its readers see it. A run that replaces the database is seen by the next reader."""

    def __init__(self, place: Path, retriever: Retriever) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._database = current_database(place)
        self._current = retriever
        self._readers: dict[int, int] = {}

    @contextmanager
    def reader(self) -> Iterator[Retriever]:
        """The retriever to use for one request. Raises IndexUnusable where it cannot be opened any more."""
        with self._lock:
            self._refresh()
            retriever = self._current
            self._readers[id(retriever)] = self._readers.get(id(retriever), 0) + 1
        try:
            yield retriever
        finally:
            with self._lock:
                self._readers[id(retriever)] -= 1
                if not self._readers[id(retriever)]:
                    del self._readers[id(retriever)]
                    if retriever is not self._current:
                        retriever.close()

    def _refresh(self) -> None:
        database = current_database(self._place)
        if self._current.follows_changes or (database == self._database and database is not None):
            return
        fresh, old = self._current.reopened(self._place), self._current
        self._current, self._database = fresh, current_database(self._place)
        if not self._readers.get(id(old)):
            old.close()


class Stopped(Exception):
    """Nobody waits for the answer any more, and its prompt is not read to the end."""


@dataclass(frozen=True)
class Answered:
    """An answer, why it ended, and what was not done as asked."""

    answer: Answer
    reason: str
    notices: tuple[str, ...]


class Library:
    """Answers questions with one model, and searches; each method is for one thread at a time."""

    def __init__(self, asking: Asking, index: OpenIndex) -> None:
        self.asking = asking
        self.index = index

    def answer(
        self,
        question: Question,
        settings: dict[str, Any],
        on_text: OnText | None,
        stopped: Callable[[], bool],
    ) -> Answered:
        """Answer what a request asks under the ``decode`` settings it gives. Raises RaglaError."""
        from ragla.serve.responses import finish_reason

        asking = self.asking
        decode = asking.profile.decode.model_copy(update=settings)
        answerer = under(asking.local, asking.profile.model_copy(update={"decode": decode}))
        answerer.cache.on_rows = lambda done, wanted: stop_reading(stopped)
        problem = None
        if question.evidence is not None:  # nothing is kept of it: no index holds these passages
            answer = answerer.answer(
                question.text, question.evidence, on_text, turns=question.turns, stopped=stopped
            )
        else:
            with self.index.reader() as retriever:
                conversation = Conversation(answerer, retriever, question.turns, question.asked)
                answer = conversation.ask(question.text, on_text, stopped=stopped)
                if decode.temperature == 0.0 and not answer.interrupted:
                    problem = asking.earlier.keep(answer, retriever) if asking.earlier else None
        if asking.cost is not None:
            session.save_step_cost(asking.profile, answerer.target, asking.cost)
        system = SYSTEM_NOTICE if question.has_system else None
        notices = tuple(filter(None, (*asking.notices, problem, system)))
        return Answered(answer, finish_reason(answer, answerer.target, decode.stop), notices)

    def search(self, request: SearchRequest) -> dict[str, Any]:
        """The document of ``ragla search --json``. Raises RaglaError."""
        from ragla.render import passage_json

        settings = self.asking.profile.retrieve
        filters = Filters(tuple(request.paths), tuple(request.types))
        with self.index.reader() as retriever:
            found = retriever.search(
                request.query, request.top_k or settings.top_k, settings.relevance_floor, filters
            )
        return {
            "schema": "ragla.search/1",
            "query": request.query,
            "passages": [passage_json(scored) for scored in found],
        }


def under(answerer: Answerer, profile: Profile) -> Answerer:
    """The same model, drafter and cache under other ``decode`` settings, for one question."""
    other = copy(answerer)
    other.profile = profile
    other.limits = draft_limits(profile.decode, answerer.target.tokenizer, answerer.target.end_ids)
    return other


def stop_reading(stopped: Callable[[], bool]) -> None:
    """Between two chunks of a prompt. Raises Stopped; the chunks before stay in the cache."""
    if stopped():
        raise Stopped
