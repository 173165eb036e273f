"""What ``ragla ask`` and ``ragla chat`` share: flags, an open index, a loaded model, and answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ragla.errors import NothingRelevant, RaglaError
from ragla.failure import INTERRUPTED
from ragla.flags import load_model
from ragla.live import answering
from ragla.terminal import data_stream, errors, interruptible, output, show_notice, status
from ragla.trace import Tracer

if TYPE_CHECKING:
    from ragla.answer import Answer, Answerer, OnStep
    from ragla.config import Profile
    from ragla.conversation import Conversation
    from ragla.decode.budget import StepCost
    from ragla.decode.decoder import Observer
    from ragla.decode.recheck import Verdict
    from ragla.decode.stats import DecodeStats
    from ragla.earlier import EarlierAnswers
    from ragla.live import View
    from ragla.retrieve.explanation import Explanation
    from ragla.retrieve.retriever import Retriever

VerifyFlag = Annotated[
    bool,
    typer.Option(
        "--verify", help="Decode again without drafts and compare; exit code 1 for more than a near-tie."
    ),
]
ExactFlag = Annotated[
    bool,
    typer.Option(
        "--exact", help="In half precision, decide near-ties by one row alone, as plain decoding does."
    ),
]
NoReuseFlag = Annotated[
    bool,
    typer.Option(
        "--no-reuse", help="Read each prompt whole, also what the one before began with; to compare."
    ),
]
PlainFlag = Annotated[
    bool, typer.Option("--plain", help="On a terminal, too, plain text: nothing underlined, no links.")
]
JsonlFlag = Annotated[
    bool, typer.Option("--jsonl", help="One JSON document a line on stdout, for each answer.")
]


@dataclass(frozen=True)
class Outcome:
    """An answer, and why it is not kept.

    ``verdict``: whether plain decoding gives the same, and ``explanation``: how its passages were chosen,
    where that was asked.
    """

    answer: Answer
    verdict: Verdict | None
    problem: str | None
    explanation: Explanation | None = None

    @property
    def exit_code(self) -> int:
        """What the answer alone would make a command return."""
        if self.verdict is not None and self.verdict.word == "bug":
            return RaglaError.exit_code
        if self.answer.interrupted:
            return INTERRUPTED
        return 0 if self.answer.answered else NothingRelevant.exit_code


@dataclass(frozen=True)
class Asking:
    """The open index at ``place`` and a loaded model.

    ``notices`` say in a line each what is not done as asked.
    """

    profile: Profile
    place: Path
    retriever: Retriever
    answerer: Answerer
    earlier: EarlierAnswers
    cost: StepCost
    verify: bool
    quiet: bool
    notices: tuple[str, ...]
    explain: bool = False
    plain: bool = False
    tracer: Tracer | None = None

    def ask(self, question: str, conversation: Conversation | None = None) -> Outcome:
        """Answer a question, its text on stdout as it comes unless quiet. Raises RaglaError."""
        from ragla import session
        from ragla.render_copied import copied_text

        answerer, target = self.answerer, self.answerer.target
        tracer = self.tracer
        explanation = None
        with (
            answering(self.quiet) as view,
            copied_text(None if self.quiet else view.write, output(), plain=self.plain) as on_text,
            interruptible() as stopped,
        ):
            answerer.cache.on_rows = view.reading
            observe, on_step = self._followers(question, view)
            if conversation is not None:
                answer = conversation.ask(question, on_text, observe, stopped, on_step)
            elif self.explain:
                began = perf_counter()
                explanation = self.explanation(question)
                answer = answerer.answer_from(
                    question, explanation.kept, self.retriever, on_text, observe, stopped,
                    on_step=on_step, began=began,
                )  # fmt: skip
            else:
                answer = answerer.ask(question, self.retriever, on_text, observe, stopped, on_step)
        if tracer is not None:
            tracer.end(answer)
        session.save_step_cost(self.profile, target, self.cost)
        if not self.quiet:
            sys.stdout.write("\n")
            sys.stdout.flush()
        verdict = None
        if self.verify:
            with status("decoding again without drafts", quiet=self.quiet):
                verdict = answerer.recheck(answer)
        return Outcome(answer, verdict, self.earlier.keep(answer, self.retriever), explanation)

    def _followers(self, question: str, view: View) -> tuple[Observer | None, OnStep]:
        """Who sees each draft tree, and who is told after each step."""
        tracer = self.tracer
        if tracer is None:
            return None, view.step
        tracer.begin(question, view)
        if tracer.draws:  # its lines would stand where the line of figures does
            return tracer.observe, tracer.step

        def on_step(stats: DecodeStats) -> None:
            tracer.step(stats)
            view.step(stats)

        return tracer.observe, on_step

    def as_json(self, outcome: Outcome) -> dict[str, Any]:
        """The document of an answer."""
        from ragla import render_answer

        answer, decode = outcome.answer, self.answerer.target.tokenizer.decode
        problem = (outcome.problem,) if outcome.problem else ()
        document = render_answer.answer_json(answer, (*self.notices, *answer.notices, *problem))
        if self.verify:
            verdict = outcome.verdict
            document["verify"] = render_answer.verdict_json(verdict, decode) if verdict else None
        if outcome.explanation is not None:
            from ragla.render_search import explanation_json

            document["explain"] = explanation_json(outcome.explanation)
        return document

    def explanation(self, question: str) -> Explanation:
        """How the passages of a question came to be chosen."""
        options = self.profile.retrieve
        return self.retriever.explain(question, options.top_k, options.relevance_floor)

    def show(self, outcome: Outcome) -> None:
        """What follows the streamed text: sources, what did not fit, what it cost."""
        from ragla import render, render_answer
        from ragla.render_copied import wants_style

        answer = outcome.answer
        copied = {span.number for span in answer.provenance}
        rests_on = [source for source in answer.sources if source.cited or source.number in copied]
        if answer.sources:
            errors().print()
        if answer.answered and not rests_on:
            errors().print(
                "the answer names no source; these passages were read:", style="yellow", soft_wrap=True
            )
            rests_on = answer.sources
        links = not self.plain and wants_style(errors())
        lines = render_answer.source_lines(rests_on, answer.text, answer.provenance, links=links)
        for line in (*lines, *render_answer.unsupported_lines(answer.unsupported)):
            errors().print(line, soft_wrap=True)
        for path in answer.left_out:
            errors().print(f"did not fit the prompt: {render.one_line(path)}", style="yellow", soft_wrap=True)
        for notice in (*answer.notices, outcome.problem):
            show_notice(notice)
        if outcome.explanation is not None:
            from ragla.render_search import explanation_lines

            for line in explanation_lines(outcome.explanation):
                errors().print(line, soft_wrap=True)
        for line in render_answer.cost_lines(answer):
            errors().print(line, soft_wrap=True)
        if outcome.verdict is not None:
            target = self.answerer.target
            verdict = render_answer.verdict_line(outcome.verdict, target.tokenizer.decode, target.dtype)
            errors().print(verdict, soft_wrap=True)


@contextmanager
def open_asking(
    profile: Profile,
    index_path: str | None,
    *,
    quiet: bool,
    verify: bool = False,
    exact: bool = False,
    reuse: bool = True,
    trace: TextIO | None = None,
) -> Iterator[Asking]:
    """Open the index and load the model. Raises IndexUnusable, ModelUnavailable, UsageError."""
    from ragla import session

    data_stream()  # without stdout there is no use in an answer
    place = session.find_index(index_path, Path.cwd())
    if verify:
        from ragla.decode.recheck import check_rechecks

        check_rechecks(profile.decode.temperature)
    with status("opening the index", quiet=quiet):
        retriever = session.open_retriever(profile, place)
    target = load_model(profile, quiet=quiet)
    from ragla.answer import Answerer

    cost = session.load_step_cost(profile, target)
    answerer = Answerer(profile, target, cost, reuse=reuse, exact=exact)
    with closing(session.recall_answers(profile, place, answerer)) as earlier:
        draws = profile.decode.debug
        tracer = Tracer(target.tokenizer.decode, draws=draws, file=trace) if draws or trace else None
        notices = [*target.notices, earlier.notice, exact_notice(answerer) if exact else None]
        told = tuple(notice for notice in notices if notice)
        yield Asking(profile, place, retriever, answerer, earlier, cost, verify, quiet, told, tracer=tracer)


def show_interruption(outcome: Outcome) -> None:
    """Say that the answer is not whole."""
    if outcome.answer.interrupted:
        errors().print("interrupted", style="yellow")


def exact_notice(answerer: Answerer) -> str | None:
    """Why ``--exact`` changes nothing, where it does not."""
    if answerer.profile.decode.temperature > 0:
        return "--exact decides greedy text only, decode.temperature is above 0"
    if not answerer.tie:
        return f"--exact changes nothing in {answerer.target.dtype}, which is exact as it is"
    return None
