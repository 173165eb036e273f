"""An answer, and whatever gives one: a model on this machine, or a server elsewhere.

It loads no model and needs no torch. It draws nothing and prints nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from ragla.config import Profile
from ragla.decode.stats import DecodeStats
from ragla.evidence import Evidence, Source, gather, looked_at
from ragla.prompt import Turn, no_answer
from ragla.provenance import CopySpan
from ragla.text_stream import OnText
from ragla.unsupported import Unsupported

if TYPE_CHECKING:
    from ragla.decode.decoder import Observer
    from ragla.decode.request import DecodeRequest
    from ragla.remote.figures import ServerFigures
    from ragla.retrieve.passage import ScoredPassage
    from ragla.retrieve.retriever import Retriever

ANSWER_SHARE = 4  # a quarter of a short window is kept for the answer, whatever the passages want

Decoder = Literal["lookahead", "greedy", "remote"]
Stopped = Callable[[], bool]
"""Asked after each step: whether the answer is to end here."""
OnStep = Callable[[DecodeStats], None]
"""Told after each step, and after the first token, what the answer has cost so far."""
OnReading = Callable[[int, int], None]
"""Told how many tokens of a prompt have been read, of how many."""


@dataclass(frozen=True)
class Answer:
    """What came out. ``text`` is the answer or, where ``answered`` is False, a sentence that says so.

    ``ttft_s`` counts from the question to the first token, retrieval and prefill included.
    ``document_ids``: the documents it was made from, as the index numbers them. ``kept``: later answers may
    be drafted from it. ``interrupted``: it was stopped before its end. ``request`` is what was decoded,
    None where nothing was. ``notices`` say in a line each what was not done as asked. ``judged``: how likely
    the passages say the answer, by the model that was to answer; None where it was not asked.
    ``provenance``: where its words were copied from; ``unsupported``: numbers and names that were read
    nowhere. ``figures``: what a server elsewhere said that it cost; None for a model on this machine.
    """

    question: str
    text: str
    answered: bool
    token_ids: list[int] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    stats: DecodeStats = field(default_factory=DecodeStats)
    ttft_s: float = 0.0
    retrieval_s: float = 0.0
    left_out: list[str] = field(default_factory=list)
    document_ids: frozenset[int] = frozenset()
    kept: bool = False
    interrupted: bool = False
    request: DecodeRequest | None = None
    notices: tuple[str, ...] = ()
    judged: float | None = None
    provenance: tuple[CopySpan, ...] = ()
    unsupported: tuple[Unsupported, ...] = ()
    figures: ServerFigures | None = None


class Answering(ABC):
    """Answers questions one after the other, from an index or from given passages."""

    profile: Profile

    @property
    @abstractmethod
    def model_name(self) -> str:
        """What a reader knows the model by."""

    @abstractmethod
    def tell_reading(self, on_reading: OnReading) -> None:
        """Whom to tell how much of a prompt has been read."""

    @abstractmethod
    def answer(
        self,
        question: str,
        evidence: Evidence,
        on_text: OnText | None = None,
        observe: Observer | None = None,
        decoder: Decoder = "lookahead",
        retrieval_s: float = 0.0,
        *,
        turns: Sequence[Turn] = (),
        stopped: Stopped | None = None,
        on_step: OnStep | None = None,
    ) -> Answer:
        """Answer from given passages, after the ``turns`` of a conversation. Raises RaglaError."""

    def ask(
        self,
        question: str,
        retriever: Retriever,
        on_text: OnText | None = None,
        observe: Observer | None = None,
        stopped: Stopped | None = None,
        on_step: OnStep | None = None,
    ) -> Answer:
        """Answer from an index. All of ``Answer.text`` goes to ``on_text``, as soon as it is certain.

        Raises UsageError for a question that leaves no room for a passage.
        """
        began = perf_counter()
        settings = self.profile.retrieve
        found = retriever.search(question, settings.top_k, settings.relevance_floor)
        return self.answer_from(
            question, found, retriever, on_text, observe, stopped, on_step=on_step, began=began
        )

    def answer_from(
        self,
        question: str,
        found: Sequence[ScoredPassage],
        retriever: Retriever,
        on_text: OnText | None = None,
        observe: Observer | None = None,
        stopped: Stopped | None = None,
        *,
        turns: Sequence[Turn] = (),
        on_step: OnStep | None = None,
        began: float,
    ) -> Answer:
        """Answer from retrieved passages; ``began``: when the question was asked, by ``perf_counter``."""
        evidence = gather(found, retriever)
        retrieval_s = perf_counter() - began
        if not found:
            return Answer(question, say_no_answer(question, on_text), False, retrieval_s=retrieval_s)
        answer = self.answer(
            question, evidence, on_text, observe, stopped=stopped, on_step=on_step, turns=turns,
            retrieval_s=retrieval_s,
        )  # fmt: skip
        ids = frozenset(hit.passage.document_id for hit in found)
        return replace(answer, document_ids=ids, sources=looked_at(answer.sources, retriever))


def say_no_answer(question: str, on_text: OnText | None) -> str:
    """Hand that sentence on, where nothing else was said, and return it."""
    text = no_answer(question)
    if on_text is not None:
        on_text(text)
    return text
