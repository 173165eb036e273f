"""The live view of an answer: its text on stdout as it comes, below it one line on stderr on how it goes.

Where both streams are one terminal the line stands under the cursor and is gone before more text is
written, so that what stays on the screen is the text. Off a terminal there is the text alone.
"""

from __future__ import annotations

import os
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from ragla.terminal import Phase, data_stream, moves, phase

if TYPE_CHECKING:
    from ragla.decode.stats import DecodeStats

ERASE_BELOW = "\x1b[J"  # from the cursor to the end of the screen
ERASE_LINE = "\r\x1b[K"
ROOM_BELOW = "\x1bD\x1b[A"  # down, which scrolls on the last line, and up again, in the same column
SAVE, RESTORE = "\x1b7", "\x1b8"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
SPARK_STEPS = 24
FIRST_EMOJI = 0x1F000
# emoji that terminals have long drawn two columns wide, but for those that change the one before them
OLD_EMOJI = frozenset([*range(0x1F300, 0x1F3FB), *range(0x1F400, 0x1F650), *range(0x1F680, 0x1F6D0)])
JOINER, AS_EMOJI = "\u200d", "\ufe0f"
WIDE_SPEAKERS = ("zh", "ja", "ko")


class Columns:
    """How many columns the last line of a text takes, as far as the widths of its characters are certain."""

    def __init__(self) -> None:
        self.least = self.most = 0
        self._ambiguous = 2 if ambiguous_may_be_wide() else 1
        self._is_joined = False  # the next character may become one with what stands before it

    def advance(self, text: str, width: int) -> None:
        """Text was written to a terminal of ``width`` columns."""
        for character in text:
            if character == "\n":
                self.least = self.most = 0
            elif character == "\t":
                self._tab(width)
            else:
                least, most = cells(character, self._ambiguous)
                least = 0 if self._is_joined else least
                self._is_joined = character == JOINER
                self.least += least + (least == 2 and self.least % width == width - 1)
                self.most += most + (most == 2 and self.most % width == width - 1)

    def _tab(self, width: int) -> None:
        """On to the next multiple of 8; what a terminal does at its edge is its own affair."""
        stop = self.least % width // 8 * 8 + 8
        if self.least != self.most or stop >= width or self.may_be_full(width):
            self.lose(width)
        else:
            self.least = self.most = self.least // width * width + stop

    def lose(self, width: int) -> None:
        """Nothing is certain before the next line."""
        self.most = self.least + 2 * width

    def may_be_full(self, width: int) -> bool:
        """Whether the cursor may stand behind the last column, where moving it loses a character."""
        slack = self.most > self.least
        first, last = max(self.least - slack, 1), self.most + slack
        return last // width > (first - 1) // width


def ambiguous_may_be_wide() -> bool:
    """Whether a terminal may draw quotes, dashes and the like two columns wide: in East Asia."""
    language = next(filter(None, (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return language.startswith(WIDE_SPEAKERS)


def cells(character: str, ambiguous: int = 2) -> tuple[int, int]:
    """The least and the most columns that terminals give a character; ``ambiguous``: the most to those of
    ambiguous width.
    """
    if character.isascii():
        return 1, 1
    breadth = unicodedata.east_asian_width(character)
    if character == AS_EMOJI:  # makes the one before it wide, where it is known
        return 0, 1
    category = unicodedata.category(character)
    if ord(character) < FIRST_EMOJI:
        if category == "Mn":
            return 0, 0
        if breadth == "A":
            return 1, ambiguous
        if category[0] in "LNPSZ":
            return (2, 2) if breadth in "WF" else (1, 1)
    if ord(character) in OLD_EMOJI and breadth == "W":
        return 2, 2
    return 0, 2


class View:
    """An answer on a terminal, or its text alone.

    ``on_text`` receives the text; it is None where nobody reads along.
    """

    def __init__(self, waiting: Phase | None, *, quiet: bool) -> None:
        self.on_text: Callable[[str], None] | None = None if quiet else self.write
        self.began = perf_counter()
        self.column_known = Columns()
        self._waiting = waiting
        self._begun = self._stands = False
        self._width = 0
        self._place = None if quiet or waiting is None else line_place()

    def reading(self, done: int, total: int) -> None:
        """So many tokens of the prompt have been read."""
        if self._waiting is not None:
            self._waiting.text = f"reading · {done} of {total} tokens" if total > done else "answering"

    def write(self, text: str, shown: str | None = None) -> None:
        """More of the answer; ``shown`` is the same safe text with escape sequences, where it is styled."""
        from ragla.render import safe

        text = safe(text)
        if not self._begun:
            self._begun = True
            if self._waiting is not None:
                self._waiting.stop()
        self.erase()
        sys.stdout.write(text if shown is None else shown)
        sys.stdout.flush()
        if self._place == "below":
            width = columns(sys.stdout)
            self.column_known.advance(text, width)
            if width != self._width and self._width:
                self.column_known.lose(width)  # the terminal was resized and may have moved the text
            self._width = width

    def step(self, stats: DecodeStats, elapsed_s: float | None = None) -> None:
        """What the answer has cost so far: the line is drawn anew; ``elapsed_s``: none means now."""
        if self._place is None or not self._begun:
            return
        self.erase()
        elapsed_s = perf_counter() - self.began if elapsed_s is None else elapsed_s
        line = status_line(stats, elapsed_s, columns(sys.stderr) - 1)
        if self._place == "alone":
            _tell(f"{DIM}{line}{PLAIN}")
        elif self.column_known.may_be_full(self._width) or columns(sys.stdout) != self._width:
            return  # until more text has come
        else:
            _tell(f"{ROOM_BELOW}{SAVE}\r\n{DIM}{line}{PLAIN}{RESTORE}")
        self._stands = True

    def erase(self) -> None:
        """Take the line away."""
        if self._stands:
            _tell(ERASE_LINE if self._place == "alone" else ERASE_BELOW)
            self._stands = False

    def fresh_line(self) -> None:
        """Begin a line on a terminal that shows both streams; the answer on stdout stays as it is."""
        if self._waiting is not None:
            self._waiting.stop()
        if self._place == "below" and self.column_known.most:
            _tell("\n")
            self.column_known = Columns()

    def close(self, *, failed: bool) -> None:
        """Leave the text alone on the screen, its line ended where something else is said now."""
        if self._waiting is not None:
            self._waiting.stop()
        self.erase()
        if failed and self._begun:  # what is said next is no part of the answer's last line
            sys.stdout.write("\n")


@contextmanager
def answering(quiet: bool, doing: str = "searching") -> Iterator[View]:
    """The view of one answer; what is being done stands there until its text begins."""
    if quiet:
        yield View(None, quiet=True)
        return
    data_stream()
    with phase(doing, quiet=False) as waiting:
        view = View(waiting, quiet=False)
        try:
            yield view
        except BaseException:
            view.close(failed=True)
            raise
        view.close(failed=False)


def line_place() -> str | None:
    """Where a status line can stand on stderr without touching what stdout shows.

    ``below`` the text where both are one terminal; ``alone`` where stdout is a file or another terminal; None
    in a pipe, whose reader may write to the same terminal.
    """
    if not moves():
        return None
    try:
        answer, status = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return None
    if sys.stdout.isatty():
        return "below" if answer.st_rdev == status.st_rdev else "alone"
    return "alone" if stat.S_ISREG(answer.st_mode) or stat.S_ISCHR(answer.st_mode) else None


def status_line(stats: DecodeStats, elapsed_s: float, width: int) -> str:
    """Tokens a step, how the last steps went, speed, accepted share and time, as much as ``width`` holds."""
    from ragla.render_answer import sparkline

    rate = stats.decode_tokens_per_s
    figures = (f"{rate:.1f} tokens/s", f"{stats.accepted_share:.0%} accepted", f"{elapsed_s:.1f} s")
    short = (f"{rate:.0f}/s", f"{stats.accepted_share:.0%}", f"{elapsed_s:.0f} s")
    steps = [step.committed for step in stats.steps[-SPARK_STEPS:]]
    for head, rest in (("tokens/step", figures), ("/step", short)):
        gap = " " if head.startswith("t") else ""
        first = f"{stats.tokens_per_step:.1f}{gap}{head}"
        line = " · ".join((first, *rest))
        room = width - len(line) - 1
        if room >= min(len(steps), 4):
            spark = f" {sparkline(steps[-room:])}" if steps and room and draws_bars() else ""
            return " · ".join((first + spark, *rest))
    return first[:width]


def draws_bars() -> bool:
    """Whether stderr can write the characters of a sparkline."""
    return (sys.stderr.encoding or "").lower().replace("-", "").startswith("utf")


def columns(stream: TextIO) -> int:
    """The width of a terminal, as it is now."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
