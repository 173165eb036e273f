"""What went wrong, as a user sees it: one line, the command that mends it, an exit code."""

from __future__ import annotations

import difflib
import errno
import sys
from dataclasses import dataclass
from typing import Any

from ragla.errors import RaglaError
from ragla.secrets import redact
from ragla.terminal import JsonForm, errors, print_json

INTERRUPTED = 130
FULL = (errno.ENOSPC, errno.EDQUOT)
TOO_LARGE = "choose a smaller model: ragla models list"


@dataclass(frozen=True)
class Failure:
    """Why a command did not do what was asked: one line, what mends it, the exit code."""

    message: str
    hint: str | None
    exit_code: int

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What an error means to the user."""
        if isinstance(error, RaglaError):
            hint = redact(error.hint) if error.hint else None
            return cls(redact(str(error)), hint, error.exit_code)
        # torch is not loaded for its name
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return cls("not enough memory", TOO_LARGE, 1)
        if isinstance(error, OSError) and error.errno in FULL:
            return cls("no space left where this is written", "make room, or write it elsewhere", 1)
        first_line = next(iter(str(error).splitlines()), "") or type(error).__name__
        return cls(f"unexpected: {redact(first_line)}", "see where: ragla --debug …", 1)

    @classmethod
    def of_usage(cls, error: Any) -> Failure:
        """What the parser could not make sense of, with what is nearest to it."""
        message, _, near = error.format_message().partition(". Did you mean ")
        called = getattr(getattr(error, "ctx", None), "command_path", "").split()
        hint = " ".join(["ragla", *called[1:], "--help"])  # whatever name it was started under
        if option := getattr(error, "option_name", None):
            message = f"No such option: {option}"
            found = difflib.get_close_matches(option, getattr(error, "possibilities", None) or (), n=1)
            near = found[0] if found else ""
        near = near.strip("?'\" ").partition("'")[0]  # the nearest of several
        if near:
            hint = f"did you mean {near}? {hint}"
        return cls(message[:1].lower() + message[1:].rstrip("."), hint, error.exit_code)

    def report(self, form: JsonForm | None = None) -> None:
        """Lines for a person and, in a JSON form, one document for a script."""
        from ragla.render import one_line

        console = errors(always=True)
        prefix, style = ("", "yellow") if self.exit_code == INTERRUPTED else ("error: ", "red")
        console.print(prefix + one_line(self.message), style=style, soft_wrap=True)
        if self.hint:
            console.print(f"  → {one_line(self.hint)}", soft_wrap=True)
        if form is not None and sys.stdout is not None:
            try:
                print_json(self.as_json(), form)
            except OSError:  # stdout may be what failed; the lines above have said it
                return

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": "ragla.error/1",
            "error": self.message,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


INTERRUPTION = Failure("interrupted", None, INTERRUPTED)


def is_control_flow(error: BaseException) -> bool:
    """Whether an exception is the parser's own way to say a wrong usage, or to leave."""
    return hasattr(error, "exit_code") and not isinstance(error, RaglaError)


def is_wrong_usage(error: BaseException) -> bool:
    """Whether it is the parser's complaint about what was typed, not its way to show a help."""
    return (
        is_control_flow(error)
        and hasattr(error, "format_message")
        and type(error).__name__ not in ("NoArgsIsHelpError",)
    )
