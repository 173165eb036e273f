"""``ragla ask``: answers a question, or those of a file one after the other."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla.asking import (
    Asking,
    ExactFlag,
    JsonlFlag,
    NoReuseFlag,
    Outcome,
    PlainFlag,
    VerifyFlag,
    open_asking,
    show_interruption,
)
from ragla.errors import NothingRelevant, RaglaError, UsageError
from ragla.exchange import ContinueFlag, Exchange
from ragla.failure import INTERRUPTED, Failure
from ragla.flags import (
    CHECK_AT,
    CheckFlag,
    ExplainFlag,
    IndexFlag,
    JsonFlag,
    ModelFlag,
    PathFlag,
    ProfileFlag,
    SetFlag,
    TypeFlag,
    load_profile,
)
from ragla.question_file import AskedLine, question_text, read_questions
from ragla.terminal import errors, print_json, show_notice
from ragla.trace import trace_file
from ragla.user_path import user_path

if TYPE_CHECKING:
    from ragla.profiles import LoadedProfile
    from ragla.recorder import Recorder


def ask(
    question: Annotated[str | None, typer.Argument(help="The question; - reads it from stdin.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="QUESTIONS", help="Text or JSON lines, - for stdin: answer each."
        ),
    ] = None,
    continued: ContinueFlag = False,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    verify: VerifyFlag = False,
    exact: ExactFlag = False,
    no_reuse: NoReuseFlag = False,
    plain: PlainFlag = False,
    paths: PathFlag = None,
    types: TypeFlag = None,
    explain: ExplainFlag = False,
    check: CheckFlag = False,
    debug: Annotated[bool, typer.Option("--trace", help="Draw each step's draft tree on stderr.")] = False,
    trace_json: Annotated[
        str | None, typer.Option("--trace-json", metavar="FILE", help="Keep each step as a line of JSON.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            "--record", metavar="FILE", help="Keep the answer with its steps; ragla replay shows it again."
        ),
    ] = None,
    as_json: JsonFlag = False,
    as_lines: JsonlFlag = False,
) -> None:
    """Answer a question from the indexed documents, with its sources.

    [bold]ragla ask 'How many days may I work from home?'[/]

    Or all questions of a file, with the model loaded once:

    [bold]ragla ask --file questions.txt --jsonl[/]
    """
    flags = {
        "decode.model": model,
        "decode.debug": True if debug else None,
        "retrieve.judge": CHECK_AT if check else None,
    }
    loaded = load_profile(profile, settings, flags)
    check_forms(question, file, as_json=as_json, as_lines=as_lines)
    check_continues(file, continued=continued, explain=explain)
    recorder = open_recorder(record, file, trace_json, loaded)
    asked = [AskedLine(1, question_text(question))] if file is None else read_questions(file)
    quiet = as_json or as_lines
    with (
        trace_file(trace_json) as trace,
        open_asking(
            loaded.profile, index_path, quiet=quiet, verify=verify, exact=exact, reuse=not no_reuse,
            trace=trace, recorder=recorder,
        ) as opened,
    ):  # fmt: skip
        asking = replace(opened, explain=explain, plain=plain)
        asking.retriever.restrict(paths or (), types or ())
        if file is None:
            exchange = Exchange.open(asking, continued=continued, alone=True)
            code = ask_one(asked[0].text, exchange)
        else:
            code = ask_each(asking, asked)
    if code:
        raise typer.Exit(code)


def check_forms(question: str | None, file: str | None, *, as_json: bool, as_lines: bool) -> None:
    """Raises UsageError for flags that exclude each other."""
    if question is not None and file is not None:
        raise UsageError("a question and --file: which of them?", "ragla ask --file QUESTIONS")
    if as_lines and file is None:
        raise UsageError("--jsonl is for --file", "for one question: --json")
    if as_json and file is not None:
        raise UsageError("--json is for one question", "for --file: --jsonl")


def open_recorder(
    record: str | None, file: str | None, trace_json: str | None, loaded: LoadedProfile
) -> Recorder | None:
    """What records the answer, None where that was not asked.

    Raises UsageError for a file that cannot be written, and where ``--record`` has no place.
    """
    if record is None:
        return None
    if file is not None:
        raise UsageError("--record is for one question", "for --file: --jsonl, or --trace-json FILE")
    from ragla.recorder import Recorder

    recorder = Recorder(record, loaded)
    if trace_json is not None and user_path(trace_json).resolve() == recorder.path:
        raise UsageError("--record and --trace-json name the same file", "name two: the forms differ")
    return recorder


def check_continues(file: str | None, *, continued: bool, explain: bool) -> None:
    """Raises UsageError for what a conversation is not told with."""
    if continued and file is not None:
        raise UsageError("--continue is for one question", "several that follow each other: ragla chat")
    if continued and explain:
        raise UsageError("--explain is for a question that stands alone", "leave --continue away")


def ask_one(question: str, exchange: Exchange) -> int:
    """Answer, record and show it; the exit code."""
    asking, outcome = exchange.asking, exchange.ask(question)
    document = asking.as_json(outcome) | exchange.as_json()
    failure = keep_recording(asking, document)
    if asking.quiet:
        print_json(document)
    else:
        for notice in asking.notices:
            show_notice(notice)
        asking.show(outcome)
        show_interruption(outcome)
        if asking.recorder is not None and failure is None:
            show_notice(asking.recorder.lacks)
            again = f"recorded, see it again: ragla replay {asking.recorder.name}"
            errors().print(again, style="dim", soft_wrap=True)
    if failure is not None:
        failure.report()
    return outcome.exit_code or (failure.exit_code if failure else 0)


def keep_recording(asking: Asking, document: dict[str, Any]) -> Failure | None:
    """Record an answer with its document; why that was not possible.

    What of it is not recorded becomes one of the document's ``notices``.
    """
    recorder = asking.recorder
    if recorder is None:
        return None
    failure = None
    try:
        recorder.save(document, asking.answerer.model_name)
    except RaglaError as error:
        failure = Failure.of(error)
    problem = recorder.lacks if failure is None else failure.message
    if problem:
        document["notices"].append(problem)
    return failure


def ask_each(asking: Asking, asked: list[AskedLine]) -> int:
    """Answer in turn; the exit code.

    It is 1 where one was found to be no plain decoding's, else that of the first question that failed, else
    4 where one was not answered. An interrupt ends the list.
    """
    from ragla.render import one_line

    codes: list[int] = []
    outcomes: list[Outcome] = []
    for notice in asking.notices if not asking.quiet else ():
        show_notice(notice)
    for line in asked:
        if not asking.quiet:
            errors().print(f"› {one_line(line.text)}", style="bold", soft_wrap=True)
        try:
            outcome = asking.ask(line.text)
        except RaglaError as error:
            failure = Failure.of(error)
            if asking.quiet:
                print_json({"line": line.at, "question": line.text, **failure.as_json()}, "lines")
            else:
                failure.report()
            codes.append(failure.exit_code)
            continue
        outcomes.append(outcome)
        codes.append(outcome.exit_code)
        if asking.quiet:
            print_json({"line": line.at, **asking.as_json(outcome)}, "lines")
        else:
            asking.show(outcome)
            show_interruption(outcome)
        if outcome.answer.interrupted:
            break
        if not asking.quiet:
            errors().print()
    if outcomes and not asking.quiet:
        errors().print(summary(outcomes, len(asked)), style="dim", soft_wrap=True)
    return worst(codes)


def worst(codes: list[int]) -> int:
    """The exit code of several answers."""
    for code in (INTERRUPTED, RaglaError.exit_code):
        if code in codes:
            return code
    failed = [code for code in codes if code not in (0, NothingRelevant.exit_code)]
    return next(iter(failed), NothingRelevant.exit_code if any(codes) else 0)


def summary(outcomes: list[Outcome], asked: int) -> str:
    """How many were answered, how soon, and how much of the prompts had been read before."""
    answers = [outcome.answer for outcome in outcomes]
    answered = sum(answer.answered for answer in answers)
    ttft = [answer.ttft_s for answer in answers if answer.stats.tokens]
    prompts = sum(answer.stats.prompt_tokens for answer in answers)
    reused = sum(answer.stats.reused for answer in answers)
    parts = [f"{answered} of {asked} answered"]
    if ttft:
        parts.append(f"first token {median(ttft):.1f} s (median)")
    if prompts:  # a server elsewhere may not say
        parts.append(f"{reused} of {prompts} prompt tokens kept from before")
    return " · ".join(parts)
