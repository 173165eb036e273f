"""The command line: which commands there are, and what happens when one of them fails.

Answers and data go to stdout, everything else to stderr. torch and the rest are imported inside the
commands that need them, so that ``ragla --help`` is there at once.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ragla import __version__, process
from ragla.cli_answers import answers_app
from ragla.cli_ask import ask
from ragla.cli_bench import bench
from ragla.cli_chat import chat
from ragla.cli_doctor import doctor
from ragla.cli_eval import evaluate
from ragla.cli_index import index
from ragla.cli_info import info
from ragla.cli_models import config_app, models_app
from ragla.cli_remove import remove
from ragla.cli_replay import replay
from ragla.cli_search import search, why_not
from ragla.cli_serve import serve
from ragla.command import Command, Group
from ragla.errors import UsageError
from ragla.failure import INTERRUPTION, Failure, is_control_flow, is_wrong_usage
from ragla.secrets import redact
from ragla.terminal import JsonForm, Loudness, loudness, set_loudness

JSON_WANTED = "ragla.json"  # key of the parser's notes: what a script reads on stdout, whatever happens


class Commands(Group):
    """Runs a command and turns what went wrong into one line, the command that mends it, and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command line; remember whether a script reads it. How loud a process is begins anew."""
        set_loudness(Loudness.NORMAL)
        ctx.meta[JSON_WANTED] = json_form(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except Exception as error:
            if not is_wrong_usage(error):
                raise_or_leave(error)
            Failure.of_usage(error).report(ctx.meta[JSON_WANTED])
            raise SystemExit(UsageError.exit_code) from error
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        process.prepare()
        if sys.stderr is None:  # closed: what goes there is for nobody
            sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  as long as the process
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # paths and answers hold what a terminal may not know
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            failure = INTERRUPTION
        except Exception as error:  # whatever a library raises, a user sees one line
            if is_wrong_usage(error):
                failure = Failure.of_usage(error)
            elif is_left(error) or is_control_flow(error):
                raise_or_leave(error)
            else:
                if loudness() is Loudness.DEBUG:
                    from ragla.render import safe

                    sys.stderr.write(safe(redact(traceback.format_exc())))
                failure = Failure.of(error)
        failure.report(ctx.meta[JSON_WANTED])
        process.flush_or_hush(sys.stdout)
        raise SystemExit(failure.exit_code)


def is_left(error: Exception) -> bool:
    """Whether an error says no more than that a reader has left, who had what it wanted."""
    return isinstance(error, BrokenPipeError) and process.reader_has_left(sys.stdout, sys.stderr)


def raise_or_leave(error: Exception) -> NoReturn:
    """Raise it again, or leave quietly and with 0 where a reader has left."""
    if is_left(error):
        process.hush(sys.stdout)
        raise SystemExit(0) from error
    process.flush_or_hush(sys.stdout)
    raise error


def json_form(args: list[str]) -> JsonForm | None:
    """The JSON that flags ask for, None for words."""
    flags = set(itertools.takewhile(lambda word: word != "--", args))
    return "lines" if "--jsonl" in flags else "document" if "--json" in flags else None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Answers questions from a folder of documents on this machine, several tokens a step, exactly.",
    epilog="Start with: [bold]ragla index ./docs[/] and then [bold]ragla ask 'your question'[/]",
)
for command in (index, info, doctor, remove, search, ask, replay, chat, serve, bench):
    app.command(cls=Command)(command)
app.command("why-not", cls=Command)(why_not)
app.command("eval", cls=Command)(evaluate)
for name, group in (("answers", answers_app), ("models", models_app), ("config", config_app)):
    for registered in group.registered_commands:
        registered.cls = Command
    app.add_typer(group, name=name, cls=Group)


def version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        print(f"ragla {__version__}", flush=True)
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answers questions from a folder of documents on this machine, several tokens a step, exactly."""
