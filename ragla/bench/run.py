"""Runs every decoder on every question, in turn, and hands the answers to the measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragla.answer import Answerer
from ragla.bench.conditions import environment
from ragla.bench.decoders import Decoded, Run, check_settings, make_runs, request_for
from ragla.bench.machine import CoreClock
from ragla.bench.measures import by_category, summarise
from ragla.bench.names import expand, most_exact, own_greedy, parse_decoders
from ragla.bench.questions import BenchQuestion
from ragla.bench.result import BenchResult, FirstAnswer, Row, Times
from ragla.bench.tasks import Task, follow_up, prepare, prepare_tasks
from ragla.config import Profile
from ragla.decode.budget import StepCost
from ragla.decode.model import TargetModel
from ragla.errors import UsageError
from ragla.evidence import Evidence
from ragla.prompt import PromptPassage, Turn

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
class Beside:
    """The same model in another precision, to be compared with the profile's own."""

    target: TargetModel
    cost: StepCost | None = None


@dataclass(frozen=True)
class Bench:
    """What a bench runs with; ``rows`` grows as it runs, so that an interrupt loses none.

    ``others``: precision → what answers in it, beside the profile's own.
    """

    answerer: Answerer
    others: dict[str, Answerer]
    decoders: dict[str, Run]
    tasks: list[Task]
    runs: int
    on_progress: OnProgress
    rows: list[Row] = field(default_factory=list)

    @property
    def planned(self) -> int:
        """How many answers each decoder is to give."""
        return self.runs * sum(1 + len(task.later) for task in self.tasks)


def run_bench(
    profile: Profile,
    target: TargetModel,
    questions: Sequence[BenchQuestion],
    decoders: Sequence[str],
    retriever: Retriever | None = None,
    cost: StepCost | None = None,
    runs: int = 1,
    on_progress: OnProgress = ignore_progress,
    *,
    beside: Sequence[Beside] = (),
    load_s: float | None = None,
    load_average: float | None = None,
) -> BenchResult:
    """Compare ``lookahead`` and the ``decoders`` named on the same prompts.

    ``retriever`` serves the questions that come without passages, ``beside`` the precisions that ``dtype:…``
    names. For each question every decoder decodes in turn, in an order that rotates. Ctrl-C ends it with
    what there is, once every decoder has answered a question. Raises UsageError for settings that cannot be
    compared and for an empty set, IndexUnusable where a question needs an index and there is none,
    NothingRelevant when the index answers none of the questions, ModelUnavailable from the hf-* decoders.
    """
    names = expand(parse_decoders(decoders), target.dtype)
    check_settings(profile.decode, names)
    if not questions:
        raise UsageError("there are no questions to compare decoders on", "--questions FILE.jsonl")
    if runs < 1:
        raise UsageError(f"--runs {runs}: nothing to compare", "give at least 1")
    answerer = Answerer(profile, target, cost)
    others = {other.target.dtype: Answerer(profile, other.target, other.cost) for other in beside}
    tasks, unanswered = prepare_tasks(questions, answerer, retriever)
    ready = make_runs(names, answerer, others)
    bench = Bench(answerer, others, ready, tasks, runs, on_progress)
    first, cold = tasks[0], _cold(bench)
    _warm_up(bench)
    again = prepare(first.question, answerer, retriever) or first
    tasks[0] = replace(again, later=first.later)
    clock = CoreClock.now()
    try:
        _answer_all(bench)
    except KeyboardInterrupt:
        if not bench.rows:
            raise
    other_cores = clock.others_since()
    warm = _times(tasks[0], bench.rows[0].answers["lookahead"])
    first_answer = FirstAnswer(first.question.id, load_s, cold.calibration_s, _times(first, cold), warm)
    return _result(bench, questions, unanswered, first_answer, (load_average, other_cores))


def _result(
    bench: Bench,
    questions: Sequence[BenchQuestion],
    unanswered: Sequence[str],
    first_answer: FirstAnswer,
    load: tuple[float | None, float | None],
) -> BenchResult:
    """The numbers of what was answered; ``load``: that before it ran, and others' cores while it did."""
    rows, names, target = bench.rows, list(bench.decoders), bench.answerer.target
    done = {row.id for row in rows}
    measured = [question for question in questions if question.id in done]
    exact = most_exact(names, target.dtype)
    held = environment(
        bench.answerer.profile,
        target,
        bench.runs,
        [row.prompt_tokens for row in rows],
        [len(answer.token_ids) for row in rows for answer in row.answers.values()],
        [target.dtype, *bench.others],
        *load,
    )
    return BenchResult(
        held,
        len(measured),
        tuple(unanswered),
        summarise(rows, measured, names, target, exact),
        tuple(rows),
        by_category(rows, measured, names, target, exact),
        first_answer,
        exact,
        sum(question.follows is not None for question in measured),
        len(rows),
        bench.planned,
    )


def rotated(names: Sequence[str], by: int) -> list[str]:
    """The decoders in the order of one turn."""
    by %= len(names)
    return [*names[by:], *names[:by]]


def _times(task: Task, answer: Decoded) -> Times:
    return Times(task.retrieval_s, task.ready_s + answer.ttft_s, answer.tokens_per_s)


def _cold(bench: Bench) -> Decoded:
    """The first answer of the process; the step costs are measured by it, at the length of its prompt."""
    task, run = bench.tasks[0], bench.decoders["lookahead"]
    bench.on_progress(0, bench.planned, "first answer")
    decoded = run.decode(task.prepared, request_for(bench.answerer, task.prepared))
    run.reset()
    return decoded


def _warm_up(bench: Bench) -> None:
    """A short answer from each decoder, so that none pays for what happens once.

    Step costs that are not known are left alone: measured here they would be those of a short context. The
    first question measures them at its own, between its prefill and the clock of its decoding.
    """
    assert WARM_UP.passages is not None
    evidence = Evidence([PromptPassage("", text) for text in WARM_UP.passages])
    prepared = bench.answerer.prepare(WARM_UP.text, evidence)
    request = request_for(bench.answerer, prepared, WARM_UP_TOKENS)
    answerers = [bench.answerer, *bench.others.values()]
    costs = [answerer.cost for answerer in answerers]
    for answerer in answerers:
        answerer.cost = None
    for name, run in bench.decoders.items():
        bench.on_progress(0, bench.planned, name)
        run.decode(prepared, request)
    for answerer, cost in zip(answerers, costs, strict=True):
        answerer.cost = cost


def _answer_all(bench: Bench) -> None:
    truth = own_greedy("lookahead")
    if truth not in bench.decoders:
        truth = "lookahead"
    decode = bench.answerer.target.tokenizer.decode
    for run in range(bench.runs):
        # as in a session, second thoughts and answers are kept from question to question; those of an
        # earlier run of the same question would give its answer away
        for decoder in bench.decoders.values():
            decoder.reset()
        for index, task in enumerate(bench.tasks):
            order = rotated(list(bench.decoders), index + run)
            said: list[Turn] = []
            for later in (*task.later, None):
                row = _row(bench, task, order, run)
                bench.rows.append(row)
                if later is not None:
                    text = str(decode(list(row.answers[truth].token_ids), skip_special_tokens=True))
                    said.append(Turn(task.question.text, text))
                    task = follow_up(later, said, bench.answerer)


def _row(bench: Bench, task: Task, order: Sequence[str], run: int) -> Row:
    """One question by every decoder in turn."""
    request = request_for(bench.answerer, task.prepared)
    answers: dict[str, Decoded] = {}
    for name in order:
        bench.on_progress(len(bench.rows) + 1, bench.planned, name)
        answers[name] = bench.decoders[name].decode(task.prepared, request)
    question = task.question
    return Row(
        question.id,
        run,
        len(task.prepared.prompt.token_ids),
        tuple(order),
        task.ready_s,
        answers,
        task.retrieval_s,
        question.category,
    )
