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
from ragla.terminal import data_stream, errors, interruptible, output, status
from ragla.trace import Tracer

if TYPE_CHECKING:
    from ragla.answer import Answer, Answerer, OnStep
    from ragla.answering import Answering
    from ragla.config import Profile
    from ragla.conversation import Conversation
    from ragla.decode.budget import StepCost
    from ragla.decode.decoder import Observer
    from ragla.decode.recheck import Verdict
    from ragla.decode.stats import DecodeStats
    from ragla.earlier import EarlierAnswers
    from ragla.live import View
    from ragla.recorder import Recorder
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
    """The open index at ``place`` and a model, loaded here or on a server.

    ``notices`` say in a line each what is not done as asked. ``earlier`` and ``cost``: None for a server.
    """

    profile: Profile
    place: Path
    retriever: Retriever
    answerer: Answering
    earlier: EarlierAnswers | None
    cost: StepCost | None
    verify: bool
    quiet: bool
    notices: tuple[str, ...]
    explain: bool = False
    plain: bool = False
    tracer: Tracer | None = None
    recorder: Recorder | None = None

    @property
    def local(self) -> Answerer:
        """The answerer with a model on this machine, where it is one."""
        from ragla.answer import Answerer

        assert isinstance(self.answerer, Answerer)
        return self.answerer

    def ask(self, question: str, conversation: Conversation | None = None) -> Outcome:
        """Answer a question, its text on stdout as it comes unless quiet. Raises RaglaError."""
        from ragla import session
        from ragla.render_copied import copied_text

        answerer = self.answerer
        tracer = self.tracer
        explanation = None
        with (
            answering(self.quiet) as view,
            copied_text(None if self.quiet else view.write, output(), plain=self.plain) as on_text,
            interruptible() as stopped,
        ):
            answerer.tell_reading(view.reading)
            observe, on_step = self._followers(question, view)
            if self.recorder is not None:
                on_text = self.recorder.begin(on_text)
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
        if self.cost is not None:
            session.save_step_cost(self.profile, self.local.target, self.cost)
        if not self.quiet:
            sys.stdout.write("\n")
            sys.stdout.flush()
        verdict = None
        if self.verify:
            with status("decoding again without drafts", quiet=self.quiet):
                verdict = self.local.recheck(answer)
        problem = self.earlier.keep(answer, self.retriever) if self.earlier is not None else None
        return Outcome(answer, verdict, problem, explanation)

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

        answer = outcome.answer
        problem = (outcome.problem,) if outcome.problem else ()
        document = render_answer.answer_json(answer, (*self.notices, *answer.notices, *problem))
        if self.verify:
            document["verify"] = self._verify_json(outcome)
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
        from ragla.panel import show_panel

        show_panel(
            outcome.answer,
            plain=self.plain,
            problem=outcome.problem,
            explanation=outcome.explanation,
            verify=self._verify_json(outcome),
        )

    def _verify_json(self, outcome: Outcome) -> dict[str, Any] | None:
        from ragla.render_answer import verdict_json

        if outcome.verdict is None:
            return None
        target = self.local.target
        return verdict_json(outcome.verdict, target.tokenizer.decode, target.dtype)


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
    recorder: Recorder | None = None,
) -> Iterator[Asking]:
    """Open the index and load the model, or find its server.

    Raises IndexUnusable, ModelUnavailable, UsageError.
    """
    from ragla import session

    data_stream()  # without stdout there is no use in an answer
    place = session.searched_index(index_path, Path.cwd(), profile)
    remote = None
    if profile.decode.backend == "remote":
        from ragla.remote.opening import check_possible, open_server

        flags = {
            "--verify": verify,
            "--exact": exact,
            "--no-reuse": not reuse,
            "--trace-json": trace is not None,
        }
        check_possible(profile, flags)
        with status("asking the server for its model", quiet=quiet):
            remote = open_server(profile, None if quiet else tell_pause)
    if verify:
        from ragla.decode.recheck import check_rechecks

        check_rechecks(profile.decode.temperature)
    with status("opening the index", quiet=quiet):
        retriever = session.open_retriever(profile, place)
    if remote is not None:
        told = remote.notices
        yield Asking(profile, place, retriever, remote, None, None, False, quiet, told, recorder=recorder)
        return
    target = load_model(profile, quiet=quiet)
    from ragla.answer import Answerer

    cost = session.load_step_cost(profile, target)
    answerer = Answerer(profile, target, cost, reuse=reuse, exact=exact)
    with closing(session.recall_answers(profile, place, answerer)) as earlier:
        draws = profile.decode.debug
        tracer = None
        if draws or trace or recorder:
            tracer = Tracer(target.tokenizer.decode, draws=draws, file=trace, recorder=recorder)
        notices = [*target.notices, earlier.notice, exact_notice(answerer) if exact else None]
        told = tuple(notice for notice in notices if notice)
        yield Asking(
            profile, place, retriever, answerer, earlier, cost, verify, quiet, told, tracer=tracer,
            recorder=recorder,
        )  # fmt: skip


def show_interruption(outcome: Outcome) -> None:
    """Say that the answer is not whole."""
    if outcome.answer.interrupted:
        errors().print("interrupted", style="yellow")


def tell_pause(seconds: float) -> None:
    """Say that a busy server is asked again."""
    errors().print(
        f"the server is busy or not there: asked again in {seconds:g} s", style="dim", soft_wrap=True
    )


def exact_notice(answerer: Answerer) -> str | None:
    """Why ``--exact`` changes nothing, where it does not."""
    if answerer.profile.decode.temperature > 0:
        return "--exact decides greedy text only, decode.temperature is above 0"
    if not answerer.tie:
        return f"--exact changes nothing in {answerer.target.dtype}, which is exact as it is"
    return None
