"""An answer on a terminal as it is written: words copied from a passage are underlined, in its colour.

Numbers and names that stand in nothing the model read are reversed. Off a terminal, on a dumb one and
where plain text is asked for, the text is written as it comes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import COLOR_SYSTEMS
from rich.style import Style

from ragla.render import safe

if TYPE_CHECKING:
    from rich.console import Console

    from ragla.following import Followed
    from ragla.text_stream import OnText

COLOURS = ("cyan", "green", "magenta", "blue")  # of the terminal's own palette: readable on dark and on light
NUMBER = re.compile(r"\d[\d.,]*$")  # one that may go on
FLAGGED = Style(reverse=True)


class Write(Protocol):
    """Receives text and the same text with escape sequences, where it has any."""

    def __call__(self, text: str, shown: str | None = None) -> None:
        """Write it."""


def wants_style(console: Console) -> bool:
    """Whether a console can show styled text and links: a real terminal that is not dumb."""
    return console.file.isatty() and not console.is_dumb_terminal and console.color_system is not None


def style_of(number: int) -> Style:
    """How words copied from a passage look: never by colour alone."""
    return Style(color=COLOURS[(number - 1) % len(COLOURS)], underline=True)


class CopiedWriter:
    """A receiver of an answer's text that follows where it was copied from.

    Words wait, eight at most, until it is certain whether they begin a copy.
    """

    def __init__(self, write: Write, console: Console) -> None:
        self._write = write
        self._console = console
        self._trace: Followed | None = None
        self._written = 0

    def follow(self, trace: Followed) -> None:
        """An answer begins; ``trace`` has its text when a piece of it arrives."""
        self._trace = trace
        self._written = 0

    def __call__(self, text: str) -> None:
        """More of the answer has come."""
        if self._trace is None:
            self._write(text)
        else:
            self._show(self._trace, ended=False)

    def finish(self) -> None:
        """No more comes: write what waits."""
        if self._trace is not None:
            self._show(self._trace, ended=True)
            self._trace = None

    def _show(self, trace: Followed, *, ended: bool) -> None:
        pieces = list(trace.pieces(ended=ended))
        growing = None if ended else NUMBER.search(trace.text)
        settled = growing.start() if growing else len(trace.text)
        certain = trace.text[: min(pieces[-1].end, settled)] if pieces else ""
        flagged = trace.unsupported(certain)
        for start, end, number in pieces:
            if number is not None:
                self._put(trace, end, style_of(number))
                continue
            end = min(end, settled)
            for one in flagged:
                if start <= one.start and one.end <= end:
                    self._put(trace, one.start, None)
                    self._put(trace, one.end, FLAGGED)
            self._put(trace, end, None)

    def _put(self, trace: Followed, end: int, style: Style | None) -> None:
        """Write the answer up to ``end``, but for what is written."""
        text = trace.text[self._written : end]
        if text:
            self._write(text, None if style is None else self._styled(text, style))
            self._written = end

    def _styled(self, text: str, style: Style) -> str:
        colours = COLOR_SYSTEMS.get(self._console.color_system or "")
        if self._console.no_color:
            style = style.without_color
        lines = safe(text).split("\n")  # an underline that ends with its line stays off the margin
        return "\n".join(style.render(line, color_system=colours) for line in lines)


@contextmanager
def copied_text(write: Write | None, console: Console, *, plain: bool) -> Iterator[OnText | None]:
    """What receives an answer's text for ``write``: styled where the console of stdout can show it."""
    if write is None or plain or not wants_style(console):
        yield write
        return
    writer = CopiedWriter(write, console)
    try:
        yield writer
    finally:
        writer.finish()


def file_link(absolute: str) -> str:
    """The address of a file for a terminal's link; empty for a path that has none."""
    try:
        return Path(absolute).as_uri().replace("file://", f"file://{socket.gethostname()}", 1)
    except ValueError:
        return ""
