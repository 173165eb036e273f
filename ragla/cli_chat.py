"""``ragla chat``: questions that follow each other, with the model loaded once."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ragla.asking import ExactFlag, JsonlFlag, NoReuseFlag, PlainFlag, open_asking, show_interruption
from ragla.errors import RaglaError, UsageError
from ragla.exchange import ContinueFlag, Exchange
from ragla.failure import INTERRUPTION, Failure
from ragla.flags import IndexFlag, ModelFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import JsonForm, errors, output, print_json, show_notice

if TYPE_CHECKING:
    from ragla.answer import Answer

import typer

PROMPT = "> "
COMMANDS = {
    "/new": "forget what was said",
    "/sources": "all passages the last answer was made from",
    "/help": "this list",
    "/quit": "end, as Ctrl-D does; Ctrl-C ends an answer",
}


def chat(
    continued: ContinueFlag = False,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    exact: ExactFlag = False,
    no_reuse: NoReuseFlag = False,
    plain: PlainFlag = False,
    as_lines: JsonlFlag = False,
) -> None:
    """Ask questions one after the other; what was said before counts. /help lists the commands.

    [bold]ragla chat[/]
    """
    if sys.stdin is None:
        raise UsageError("there is no stdin to read questions from", "ragla ask 'your question'")
    loaded = load_profile(profile, settings, {"decode.model": model})
    with open_asking(loaded.profile, index_path, quiet=as_lines, exact=exact, reuse=not no_reuse) as opened:
        asking = replace(opened, plain=plain)
        exchange = Exchange.open(asking, continued=continued)
        code = Chat(exchange).run()
    if code:
        raise typer.Exit(code)


class Chat:
    """Reads lines and answers them until there are no more."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.asking = exchange.asking
        self.interactive = sys.stdin.isatty()
        self.form: JsonForm | None = "lines" if self.asking.quiet else None
        self.last: Answer | None = None
        self.failed = 0

    def run(self) -> int:
        """Talk; the exit code: 0, or that of the first line that failed where no person typed it."""
        for notice in self.asking.notices if not self.asking.quiet else ():
            show_notice(notice)
        if self.interactive:
            prepare_typing()
            from ragla.render import counted

            passages = counted(self.asking.retriever.passage_count, "passage")
            errors().print(
                f"{passages}, {self.asking.answerer.model_name}; /help lists the commands",
                style="dim",
                soft_wrap=True,
            )
        for text in self.lines():
            if text == "/quit":
                break
            try:
                if text.startswith("/"):
                    self.command(text)
                else:
                    self.question(text)
            except KeyboardInterrupt:  # before the first word of an answer, or behind its last
                INTERRUPTION.report(self.form)
        return 0 if self.interactive else self.failed

    def lines(self) -> Iterator[str]:
        """What is asked, without white space around it and without empty lines."""
        first = True
        while (line := read_line(interactive=self.interactive)) is not None:
            text = line.removeprefix("\ufeff" if first else "").strip()  # a file's byte-order mark
            first = False
            if text:
                yield text

    def command(self, text: str) -> None:
        """What a line with a slash asks for."""
        if text == "/new":
            self.exchange.begin()
            self.last = None
        elif text == "/sources":
            self.show_sources()
        elif text == "/help":
            for name, meaning in COMMANDS.items():
                errors().print(f"{name:<9} {meaning}", soft_wrap=True)
        else:
            self.fail(Failure.of(UsageError(f"{text}: no such command", "/help lists the commands")))

    def question(self, text: str) -> None:
        """Answer; whatever goes wrong, the next line can be asked."""
        try:
            outcome = self.exchange.ask(text)
        except RaglaError as error:
            self.fail(Failure.of(error))
            return
        self.last = outcome.answer
        if self.asking.quiet:
            print_json(self.asking.as_json(outcome), "lines")
        else:
            self.asking.show(outcome)
            show_interruption(outcome)

    def fail(self, failure: Failure) -> None:
        """Say what went wrong."""
        failure.report(self.form)
        self.failed = self.failed or failure.exit_code

    def show_sources(self) -> None:
        """All passages of the last answer's prompt, also those it does not name."""
        from ragla import render_answer
        from ragla.render_copied import wants_style

        console = errors() if self.asking.quiet else output()
        last = self.last
        if last is not None and last.sources:
            links = not self.asking.plain and wants_style(console)
            for line in render_answer.source_lines(last.sources, last.text, last.provenance, links=links):
                console.print(line, soft_wrap=True)
        else:
            errors().print("no passages were read yet", style="yellow")


def prepare_typing() -> None:
    """Line editing and a history where Python has them; a byte that is no character ends nothing."""
    with contextlib.suppress(ImportError):  # it works by being imported
        import readline  # noqa: F401
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")


def read_line(*, interactive: bool) -> str | None:
    """The next line, None at the end; where a person types, behind a prompt, and Ctrl-C drops the line."""
    if not interactive:
        line = sys.stdin.buffer.readline()
        return line.decode("utf-8", errors="replace") if line else None
    while True:
        try:
            if sys.stdout.isatty():
                return input(PROMPT)
            sys.stderr.write(PROMPT)  # stdout has the answers only
            sys.stderr.flush()
            return sys.stdin.readline() or None
        except EOFError:
            sys.stderr.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stderr.write("\n")
