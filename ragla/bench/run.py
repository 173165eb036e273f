"""Runs every decoder on every question, in turn, and hands the answers to the measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from ragla.answer import Answerer, Prepared
from ragla.bench.conditions import environment
from ragla.bench.decoders import Decoded, Run, check_settings, make_runs, parse_decoders, request_for
from ragla.bench.measures import summarise
from ragla.bench.questions import BenchQuestion
from ragla.bench.result import BenchResult, Row
from ragla.config import Profile
from ragla.decode.budget import StepCost
from ragla.decode.model import TargetModel
from ragla.errors import IndexUnusable, NothingRelevant, UsageError
from ragla.evidence import Evidence, gather
from ragla.prompt import PromptPassage

if TYPE_CHECKING:
    from ragla.retrieve.retriever import Retriever

WARM_UP = BenchQuestion("warm-up", "What colour is the sky?", ("The sky is blue. Grass is green.",))
WARM_UP_TOKENS = 8

OnProgress = Callable[[int, int, str], None]
"""Called before each answer with (question from 1, questions, decoder); question 0 is the warm-up.

With several runs the questions count on: question 1 of run 2 of 40 questions is 41 of 80.
"""


def ignore_progress(question: int, questions: int, decoder: str) -> None:
    """The listener of those who do not watch."""


@dataclass(frozen=True)
class Task:
    """A question with its prompt, and the seconds retrieval and building it took."""

    question: BenchQuestion
    prepared: Prepared
    ready_s: float


def run_bench(
    profile: Profile,
    target: TargetModel,
    questions: Sequence[BenchQuestion],
    decoders: Sequence[str],
    retriever: Retriever | None = None,
    cost: StepCost | None = None,
    runs: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> BenchResult:
    """Compare ``lookahead`` and the ``decoders`` named on the same prompts.

    ``retriever`` serves the questions that come without passages. For each question every decoder
    decodes in turn, in an order that rotates. Raises UsageError for settings that cannot be compared
    and for an empty set, IndexUnusable where a question needs an index and there is none,
    NothingRelevant when the index answers none of the questions, ModelUnavailable from the hf-* decoders.
    """
    decoders = parse_decoders(decoders)
    check_settings(profile.decode, decoders)
    if not questions:
        raise UsageError("there are no questions to compare decoders on", "--questions FILE.jsonl")
    if runs < 1:
        raise UsageError(f"--runs {runs}: nothing to compare", "give at least 1")
    answerer = Answerer(profile, target, cost)
    tasks, unanswered = prepare_tasks(questions, answerer, retriever)
    ready = make_runs(decoders, answerer)
    _warm_up(ready, answerer, runs * len(tasks), on_progress)
    rows = _rows(tasks, ready, answerer, runs, on_progress)
    prompt_tokens = [len(task.prepared.prompt.token_ids) for task in tasks]
    return BenchResult(
        environment(answerer.profile, target, runs, prompt_tokens),
        len(tasks),
        tuple(unanswered),
        summarise(rows, [task.question for task in tasks], decoders, target),
        tuple(rows),
    )


def rotated(names: Sequence[str], by: int) -> list[str]:
    """The decoders in the order of one turn."""
    by %= len(names)
    return [*names[by:], *names[:by]]


def prepare_tasks(
    questions: Sequence[BenchQuestion], answerer: Answerer, retriever: Retriever | None
) -> tuple[list[Task], list[str]]:
    """Prompts of the questions, and the ids of those for which the index holds nothing relevant.

    Raises IndexUnusable, NothingRelevant and, for a prompt that cannot be decoded, UsageError.
    """
    tasks, unanswered = [], []
    for question in questions:
        began = perf_counter()
        evidence = _evidence(question, answerer.profile, retriever)
        if evidence is None:
            unanswered.append(question.id)
            continue
        prepared = answerer.prepare(question.text, evidence)
        _check_room(question, prepared, answerer)
        tasks.append(Task(question, prepared, perf_counter() - began))
    if not tasks:
        raise NothingRelevant(
            "the index holds nothing relevant to any of the questions", "--questions FILE.jsonl with passages"
        )
    return tasks, unanswered


def _evidence(question: BenchQuestion, profile: Profile, retriever: Retriever | None) -> Evidence | None:
    if question.passages is not None:
        return Evidence([PromptPassage("", text) for text in question.passages])
    if retriever is None:
        raise IndexUnusable(
            f"question {question.id} comes without passages and there is no index to search",
            "ragla index FOLDER, or give each question its passages",
        )
    found = retriever.search(question.text, profile.retrieve.top_k, profile.retrieve.relevance_floor)
    return gather(found, retriever) if found else None


def _check_room(question: BenchQuestion, prepared: Prepared, answerer: Answerer) -> None:
    needed, window = len(prepared.prompt.token_ids), answerer.target.backend.context_end
    if needed >= window:
        raise UsageError(
            f"question {question.id}: the prompt has {needed} tokens, the model's window is {window}",
            "ask a shorter question",
        )
    if not prepared.prompt.used:
        budget = answerer.profile.prompt.token_budget
        raise UsageError(
            f"question {question.id}: no passage fits prompt.token_budget {budget} and the model's window "
            f"of {window}",
            f"raise it, for instance --set prompt.token_budget={2 * budget}, or shorten the passages",
        )


def _warm_up(decoders: dict[str, Run], answerer: Answerer, questions: int, on_progress: OnProgress) -> None:
    """A short answer from each decoder, so that none pays for what happens once.

    Step costs are left alone: measured here they would be those of a short context. The first question
    measures them at its own, between its prefill and the clock of its decoding.
    """
    assert WARM_UP.passages is not None
    evidence = Evidence([PromptPassage("", text) for text in WARM_UP.passages])
    prepared = answerer.prepare(WARM_UP.text, evidence)
    request = request_for(answerer, prepared, WARM_UP_TOKENS)
    cost, answerer.cost = answerer.cost, None
    for name, run in decoders.items():
        on_progress(0, questions, name)
        run.decode(prepared, request)
    answerer.cost = cost


def _rows(
    tasks: list[Task], decoders: dict[str, Run], answerer: Answerer, runs: int, on_progress: OnProgress
) -> list[Row]:
    rows = []
    for run in range(runs):
        # as in a session, second thoughts and answers are kept from question to question; those of an
        # earlier run of the same question would give its answer away
        for decoder in decoders.values():
            decoder.reset()
        for index, task in enumerate(tasks):
            order = rotated(list(decoders), index + run)
            request = request_for(answerer, task.prepared)
            answers: dict[str, Decoded] = {}
            for name in order:
                on_progress(run * len(tasks) + index + 1, runs * len(tasks), name)
                answers[name] = decoders[name].decode(task.prepared, request)
            prompt_tokens = len(task.prepared.prompt.token_ids)
            rows.append(Row(task.question.id, run, prompt_tokens, tuple(order), task.ready_s, answers))
    return rows
