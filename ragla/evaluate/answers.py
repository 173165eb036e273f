"""What each decoder answers to the same questions, held against references and passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any

from ragla.answering import Answering, Decoder
from ragla.bench.run import OnProgress, ignore_progress
from ragla.bench.tasks import evidence_for
from ragla.evaluate.measures import Quality, Refusal, quality
from ragla.evaluate.questions import EvalQuestion
from ragla.evidence import Evidence

if TYPE_CHECKING:
    from ragla.retrieve.retriever import Retriever

DECODERS: tuple[Decoder, ...] = ("lookahead", "greedy")


@dataclass(frozen=True)
class Reply:
    """One decoder's answer to one question; ``text`` is empty where it refused."""

    id: str
    text: str
    answered: bool
    token_ids: tuple[int, ...]
    quality: Quality

    def to_json(self) -> dict[str, Any]:
        """The answer with what was measured."""
        found = self.quality
        return {
            "id": self.id,
            "answered": self.answered,
            "text": self.text,
            "exact_match": found.exact_match,
            "f1": found.f1,
            "contains": found.contains,
            "faithful": found.faithful,
        }


@dataclass(frozen=True)
class AnswerScores:
    """Means over the ``questions`` that have an answer and something to compare it with; 0 for one refused.

    ``faithful``: mean over everything that was answered. ``identical``: how many questions of how many got
    the token ids of the first decoder that ran.
    """

    questions: int
    exact_match: float | None
    f1: float | None
    contains: float | None
    faithful: float | None
    refusal: Refusal
    identical: tuple[int, int]
    replies: tuple[Reply, ...]


def evaluate_answers(
    questions: Sequence[EvalQuestion],
    answerer: Answering,
    retriever: Retriever | None,
    decoders: Sequence[Decoder],
    on_progress: OnProgress = ignore_progress,
) -> dict[str, AnswerScores]:
    """Answer every question with every decoder, from the same passages.

    ``retriever`` serves questions that come without passages. Raises IndexUnusable where one is missing,
    UsageError for a question that leaves no room for a passage.
    """
    replies: dict[str, list[Reply]] = {name: [] for name in decoders}
    for number, question in enumerate(questions, 1):
        evidence = evidence_for(question.asked, answerer.profile, retriever) or Evidence([])
        for name in decoders:
            on_progress(number, len(questions), name)
            replies[name].append(reply(question, answerer, evidence, name))
    first = replies[decoders[0]]
    return {name: _scores(questions, first, its) for name, its in replies.items()}


def reply(question: EvalQuestion, answerer: Answering, evidence: Evidence, decoder: Decoder) -> Reply:
    """One answer and what it is worth."""
    asked = question.asked
    text, answered = "", False
    token_ids: tuple[int, ...] = ()
    if evidence.passages:
        answer = answerer.answer(asked.text, evidence, decoder=decoder)
        answered, token_ids = answer.answered, tuple(answer.token_ids)
        text = answer.text if answered else ""
    passages = [passage.text for passage in evidence.passages]
    measured = quality(text, asked.expected, asked.references, passages)
    return Reply(asked.id, text, answered, token_ids, measured)


def _scores(questions: Sequence[EvalQuestion], first: list[Reply], replies: list[Reply]) -> AnswerScores:
    compared = [
        its.quality
        for question, its in zip(questions, replies, strict=True)
        if question.answerable and (question.asked.references or question.asked.expected)
    ]
    faithful = [its.quality.faithful for its in replies if its.quality.faithful is not None]
    outcomes = [
        (its.id, question.answerable, not its.answered)
        for question, its in zip(questions, replies, strict=True)
    ]
    same = sum(one.token_ids == other.token_ids for one, other in zip(first, replies, strict=True))
    return AnswerScores(
        len(compared),
        _mean([found.exact_match for found in compared]),
        _mean([found.f1 for found in compared]),
        _mean([found.contains for found in compared]),
        _mean(faithful),
        Refusal.of(outcomes),
        (same, len(replies)),
        tuple(replies),
    )


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None
