"""The commands: what each is for, its arguments and options, and the exit codes of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main
from rich.text import Text

from ragla import errors
from ragla.cli import app
from ragla.command import SPEECH
from ragla.failure import INTERRUPTED
from reference.markdown import code, table

MEANINGS = {
    0: "done, or answered",
    errors.RaglaError.exit_code: "an error",
    errors.UsageError.exit_code: "wrong usage: a flag, a setting or a value that makes no sense",
    errors.IndexUnusable.exit_code: "no index, or one that cannot be used as it is",
    errors.NothingRelevant.exit_code: "nothing relevant was found, or the documents do not answer",
    errors.ModelUnavailable.exit_code: "a model is neither here nor to be had",
    errors.IndexLocked.exit_code: "another process is writing the index",
    INTERRUPTED: "interrupted",
}
# besides 0, and 1, 2 and 130, which any command can end with
EXIT_CODES: dict[str, tuple[int, ...]] = {
    "index": (3, 5, 6),
    "info": (3,),
    "doctor": (3, 5, 6),
    "remove": (3, 6),
    "search": (3, 4, 5),
    "ask": (3, 4, 5),
    "replay": (),
    "chat": (3, 4, 5),
    "bench": (3, 4, 5),
    "serve": (3, 5),
    "why-not": (3, 5),
    "eval": (3, 5),
    "answers": (),
    "answers list": (3, 6),
    "answers remove": (3, 6),
    "answers clear": (3, 6),
    "models": (),
    "models list": (),
    "models pull": (5,),
    "models path": (5,),
    "config": (),
    "config show": (),
}


def exit_codes() -> str:
    """The table of exit codes."""
    return table(("exit code", "meaning"), ((str(number), text) for number, text in MEANINGS.items()))


def reference() -> str:
    """Every command in the order of ``ragla --help``."""
    root: Any = typer.main.get_command(app)
    parts = ["## ragla", *described(root)]
    for words, command in every_command(root, ("ragla",)):
        parts += [f"## {' '.join(words)}", *described(command, words)]
    return "\n\n".join(parts)


def every_command(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command below a group with the words that call it; a group before its own."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from every_command(command, (*words, name))


def described(command: Any, words: tuple[str, ...] = ("ragla",)) -> Iterator[str]:
    """What is said of a command: its use, its help, its arguments and its options."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if (is_own if words[1:] else is_option)(one)]
    yield f"```console\n$ {usage(command, words, arguments)}\n```"
    yield from paragraphs(command.help or "")
    if arguments:
        yield table(("argument", "meaning"), ([code(placeholder(one)), said(one)] for one in arguments))
    if options:
        yield table(("option", "value", "meaning"), (option_row(one) for one in options))
    if codes := EXIT_CODES.get(" ".join(words[1:])):
        yield f"Exit codes: 0, 1, 2, {', '.join(map(str, codes))}, 130."
    if hasattr(command, "commands"):
        names = (name for name, below in command.commands.items() if not below.hidden)
        yield "Commands: " + ", ".join(code(name) for name in names) + "."


def is_option(parameter: Any) -> bool:
    """Whether it is an option that help shows."""
    return parameter.param_type_name == "option" and not parameter.hidden


def is_own(parameter: Any) -> bool:
    """Whether it is an option of a command alone, not one that every command has."""
    return is_option(parameter) and parameter.rich_help_panel != SPEECH


def usage(command: Any, words: tuple[str, ...], arguments: list[Any]) -> str:
    """The line that calls it."""
    last = ["COMMAND …"] if hasattr(command, "commands") else [placeholder(one) for one in arguments]
    return " ".join([*words, "[OPTIONS]", *last])


def placeholder(argument: Any) -> str:
    """An argument as the usage line names it."""
    name = str(argument.metavar or argument.name).upper()
    name += " …" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def paragraphs(text: str) -> Iterator[str]:
    """The help's paragraphs; those that are examples, bold as a whole, as code, neighbours together."""
    examples: list[str] = []
    for paragraph in filter(None, (part.strip() for part in text.split("\n\n"))):
        if is_example(paragraph):
            examples += Text.from_markup(paragraph).plain.splitlines()
            continue
        if examples:
            yield block(examples)
            examples = []
        yield inline(paragraph)
    if examples:
        yield block(examples)


def is_example(paragraph: str) -> bool:
    """Whether a paragraph is nothing but commands to type."""
    return all(line.strip().startswith("[bold]ragla ") for line in paragraph.splitlines())


def block(lines: list[str]) -> str:
    """Commands as a block."""
    return "```console\n" + "\n".join(f"$ {line.strip()}" for line in lines) + "\n```"


def inline(paragraph: str) -> str:
    """A paragraph of prose on one line; what is bold in it is code."""
    text = Text.from_markup(" ".join(paragraph.split()))
    plain = text.plain
    for span in sorted(text.spans, key=lambda span: span.start, reverse=True):
        plain = f"{plain[: span.start]}`{plain[span.start : span.end]}`{plain[span.end :]}"
    return plain


def option_row(option: Any) -> list[str]:
    """An option: its names, what it takes, what it does."""
    names = ", ".join(map(code, option.opts))
    if option.secondary_opts:
        names += " / " + ", ".join(map(code, option.secondary_opts))
    return [names, value(option), said(option)]


def value(option: Any) -> str:
    """What an option takes; nothing for a switch."""
    if option.is_flag or option.count:
        return ""
    described = option.type_descriptor.annotation
    choices = getattr(described, "__args__", ()) if not option.multiple else ()
    kind = option.metavar or "|".join(map(str, choices)) or str(option.name).upper()
    return code(kind) + (", repeatable" if option.multiple else "")


def said(parameter: Any) -> str:
    """The help of a parameter, with its default and its least value where it has them."""
    text = Text.from_markup(parameter.help or "").plain
    default = parameter.default
    if default is not None and not callable(default) and default is not False and default != ():
        text += f" Default: {default}."
    if parameter.min is not None:
        text += f" At least {parameter.min}."
    return text
