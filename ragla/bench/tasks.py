"""From questions to prompts: what every decoder of a bench is given, and how long that took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from ragla.answer import Answerer, Prepared
from ragla.bench.questions import BenchQuestion
from ragla.bench.turns import turn_prompt
from ragla.config import Profile
from ragla.errors import IndexUnusable, NothingRelevant, UsageError
from ragla.evidence import Evidence, gather
from ragla.prompt import PromptPassage, Turn, encode

if TYPE_CHECKING:
    from ragla.retrieve.retriever import Retriever

FRAME_TOKENS = 64  # of a chat template around a turn, at most


@dataclass(frozen=True)
class Task:
    """A question with its prompt, and the questions that follow it.

    ``ready_s``: seconds for retrieval and prompt, of which ``retrieval_s`` for retrieval.
    """

    question: BenchQuestion
    prepared: Prepared
    ready_s: float
    retrieval_s: float = 0.0
    later: tuple[BenchQuestion, ...] = ()


def prepare_tasks(
    questions: Sequence[BenchQuestion], answerer: Answerer, retriever: Retriever | None
) -> tuple[list[Task], list[str]]:
    """Prompts of the questions, and the ids of those for which the index holds nothing relevant.

    Raises IndexUnusable, NothingRelevant and, for a prompt that cannot be decoded, UsageError.
    """
    tasks, unanswered = [], []
    for question in questions:
        if question.follows is not None:
            continue
        later = follow_ups(question, questions)
        task = prepare(question, answerer, retriever, later)
        if task is None:
            unanswered.append(question.id)
            continue
        check_room(task, answerer)
        tasks.append(task)
    if not tasks:
        raise NothingRelevant(
            "the index holds nothing relevant to any of the questions", "--questions FILE.jsonl with passages"
        )
    return tasks, unanswered


def follow_ups(question: BenchQuestion, questions: Sequence[BenchQuestion]) -> tuple[BenchQuestion, ...]:
    """The questions that go on from a question, in their order."""
    found = [question]
    for other in questions:
        if other.follows == found[-1].id:
            found.append(other)
    return tuple(found[1:])


def prepare(
    question: BenchQuestion,
    answerer: Answerer,
    retriever: Retriever | None,
    later: tuple[BenchQuestion, ...] = (),
) -> Task | None:
    """A question's prompt; None where the index holds nothing relevant to it. Raises IndexUnusable."""
    began = perf_counter()
    if question.verbatim:
        prepared = Prepared(turn_prompt(answerer.target.tokenizer, question.text), [])
        return Task(question, prepared, perf_counter() - began, later=later)
    evidence = evidence_for(question, answerer.profile, retriever)
    if evidence is None:
        return None
    retrieval_s = perf_counter() - began if question.passages is None else 0.0
    prepared = answerer.prepare(question.text, evidence)
    return Task(question, prepared, perf_counter() - began, retrieval_s, later)


def follow_up(question: BenchQuestion, said: Sequence[Turn], answerer: Answerer) -> Task:
    """A question that goes on from what was said, which every decoder is given alike."""
    began = perf_counter()
    prepared = Prepared(turn_prompt(answerer.target.tokenizer, question.text, said), [])
    return Task(question, prepared, perf_counter() - began)


def evidence_for(question: BenchQuestion, profile: Profile, retriever: Retriever | None) -> Evidence | None:
    """A question's own passages, else those found; None where none is relevant. Raises IndexUnusable."""
    if question.passages is not None:
        return Evidence([PromptPassage("", text) for text in question.passages])
    if retriever is None:
        raise IndexUnusable(
            f"question {question.id} comes without passages and there is no index to search",
            "ragla index FOLDER, or give each question its passages",
        )
    found = retriever.search(question.text, profile.retrieve.top_k, profile.retrieve.relevance_floor)
    return gather(found, retriever) if found else None


def check_room(task: Task, answerer: Answerer) -> None:
    """Raises UsageError where a prompt, or one that may follow, leaves no room for an answer."""
    question, prompt = task.question, task.prepared.prompt
    needed, window = len(prompt.token_ids), answerer.target.backend.context_end
    name = question.id
    for later in task.later:
        if needed >= window:
            break
        text = len(encode(answerer.target.tokenizer, later.text, special=False))
        needed += answerer.profile.decode.max_new_tokens + text + FRAME_TOKENS
        name = later.id
    if needed >= window:
        least = "may have" if task.later else "has"
        raise UsageError(
            f"question {name}: the prompt {least} {needed} tokens, the model's window is {window}",
            "take it out of the file, or choose others: --category NAME"
            if question.verbatim
            else "ask a shorter question",
        )
    if not prompt.used and not question.verbatim:
        budget = answerer.profile.prompt.token_budget
        raise UsageError(
            f"question {question.id}: no passage fits prompt.token_budget {budget} and the model's window "
            f"of {window}",
            f"raise it, for instance --set prompt.token_budget={2 * budget}, or shorten the passages",
        )
