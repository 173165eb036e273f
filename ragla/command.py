"""What every command has: the flags of how much is said, and a help that can be read at 40 columns.

Examples come first, then what the command takes. Nothing heavy is loaded for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ragla.terminal import Loudness, data_stream, set_loudness

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

SIDE_BY_SIDE = 64  # columns from which names and meanings stand beside each other
WIDEST = 100
NAMES = 26  # columns of the names
SPEECH = "How much is said"
EXAMPLE = re.compile(r"\[bold\](.*?)\[/\]")


def _at(loudness: Loudness) -> Callable[[bool], None]:
    def choose(chosen: bool) -> None:
        if chosen:
            set_loudness(loudness)

    return choose


def _flag(*names: str, loudness: Loudness, meaning: str) -> Any:
    return typer.Option(
        *names,
        is_eager=True,
        expose_value=False,
        callback=_at(loudness),
        help=meaning,
        rich_help_panel=SPEECH,
    )


def speech(
    say_less: Annotated[
        bool, _flag("--quiet", "-q", loudness=Loudness.QUIET, meaning="Data and errors only.")
    ] = False,
    say_more: Annotated[
        bool,
        _flag(
            "--verbose", "-v", loudness=Loudness.VERBOSE, meaning="Also what is used and how long it took."
        ),
    ] = False,
    say_all: Annotated[
        bool, _flag("--debug", loudness=Loudness.DEBUG, meaning="The same, and tracebacks.")
    ] = False,
) -> None:
    """Only its flags are of use: they are added to every command, and hold wherever they stand.

    Their names are no command's own: the parser keeps values by name.
    """


def speech_options() -> list[Any]:
    """``-q``, ``-v`` and ``--debug`` as options of the parser."""
    bare = typer.Typer(add_completion=False)
    bare.command()(speech)
    return [param for param in typer.main.get_command(bare).params if param.name != "help"]


class Command(TyperCommand):
    """A command of ragla."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params = [*self.params, *speech_options()]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        show_help(self, ctx)


class Group(TyperGroup):
    """Several commands under one name."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params = [*self.params, *speech_options()]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        show_help(self, ctx)


Row = tuple[str, str]


def show_help(command: Any, ctx: Any) -> None:
    """Usage, what it does, examples; then arguments, options and commands."""
    from rich.text import Text

    from ragla.lines import PipeConsole

    width = min(PipeConsole(file=data_stream()).width, WIDEST)
    console = PipeConsole(file=data_stream(), width=width, markup=False, highlight=False, emoji=False)
    usage = " ".join(["Usage: ragla", *ctx.command_path.split()[1:], *command.collect_usage_pieces(ctx)])
    show_wrapped(console, Text(usage), 0, hang=4)
    paragraphs = [" ".join(part.split()) for part in (command.help or "").strip().split("\n\n")]
    examples = [part for part in paragraphs if EXAMPLE.fullmatch(part)]
    said = [part for part in paragraphs if part not in examples]
    for part in said[:1]:
        console.print()
        show_wrapped(console, Text.from_markup(part), 0)
    if examples:
        console.print()
    for part in examples:  # as they are, to be copied
        console.print(Text("  ").append_text(Text.from_markup(part)), soft_wrap=True)
    for part in [*said[1:], *filter(None, [command.epilog])]:
        console.print()
        show_wrapped(console, Text.from_markup(part), 0)
    for title, rows in sections(command, ctx):
        console.print()
        console.print(Text(title, style="bold"))
        for name, meaning in rows:
            show_row(console, name, meaning)


def show_wrapped(console: Console, text: Text, indent: int, hang: int = 0) -> None:
    """Text on lines that begin at a column, those after the first ``hang`` further right."""
    from rich.text import Text

    for at, line in enumerate(text.wrap(console, console.width - indent - hang)):
        line.rstrip()
        console.print(Text(" " * (indent + (hang if at else 0))).append_text(line), soft_wrap=True)


def show_row(console: Console, name: str, meaning: str) -> None:
    """A name and what it means, beside or below it."""
    from rich.text import Text

    head = Text(f"  {name}", style="cyan")
    indent = NAMES + 2 if console.width >= SIDE_BY_SIDE else 6
    if indent < NAMES or len(head) > NAMES:
        console.print(head, soft_wrap=True)
        show_wrapped(console, Text(meaning), indent)
        return
    first, *rest = Text(meaning).wrap(console, console.width - indent) or [Text()]
    first.rstrip()
    beside = Text(f"  {name}".ljust(indent))
    beside.stylize("cyan", 0, len(head))
    console.print(beside.append_text(first), soft_wrap=True)
    for line in rest:
        line.rstrip()
        console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def sections(command: Any, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
    """Titles with their rows; sections without rows are left out."""
    shown = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    own = [param for param in options if getattr(param, "rich_help_panel", None) is None]
    panels = dict.fromkeys(getattr(param, "rich_help_panel", None) for param in options if param not in own)
    commands = [
        (name, first_sentence(found))
        for name in _names(command, ctx)
        if (found := command.get_command(ctx, name))
    ]
    every = [
        ("Commands", commands),
        ("Arguments", [(argument_name(param), param.help or "") for param in arguments]),
        ("Options", [option_row(param) for param in own]),
        *(
            (panel, [option_row(param) for param in options if param.rich_help_panel == panel])
            for panel in panels
        ),
    ]
    yield from ((str(title), rows) for title, rows in every if rows)


def _names(command: Any, ctx: Any) -> Iterable[str]:
    return command.list_commands(ctx) if isinstance(command, TyperGroup) else ()


def first_sentence(command: Any) -> str:
    """What a command does, in a list of commands."""
    return " ".join((command.help or "").strip().split("\n\n")[0].split())


def argument_name(argument: Any) -> str:
    """As the usage line has it."""
    return f"{argument.metavar or argument.name}{'' if argument.nargs == 1 else '...'}"


def option_row(option: Any) -> Row:
    """Names, short ones first, with what they take; the meaning, with the default where it says something."""
    names = ", ".join(sorted(option.opts, key=len))
    takes = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    default = option.default
    known = default not in (None, False, True, ()) and not callable(default)
    ending = f" [{default}]" if known else ""
    return f"{names}{takes}", f"{option.help or ''}{ending}"
