"""A console whose lines end between words: for what a person reads on a terminal, and only there."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ragla.process import hush
from ragla.render import CONTROL, safe

WORD = re.compile(r"\S+\s*")
INDENT = 2  # columns by which what goes on is further right


class PipeConsole(Console):
    """Tells the command when the reader of stdout has left; where that of stderr has, it goes on."""

    def on_broken_pipe(self) -> None:
        """What rich calls where it cannot write."""
        if not self.stderr:
            raise  # the BrokenPipeError that rich has caught
        hush(sys.stderr)


class LineConsole(PipeConsole):
    """Neutralises what would command the terminal, whatever it comes from, and ends lines between words.

    That is for ``soft_wrap`` lines, which the terminal would break anywhere. A word that is longer than the
    line, such as a path, is left to the terminal: it can be copied whole. So is a line with a command. Off a
    terminal every line stays one.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; see the class."""
        objects = tuple(harmless(part) for part in objects)
        line = objects[0] if len(objects) == 1 else None
        wraps = options.get("soft_wrap") and self.file.isatty() and "→" not in str(line)
        if not isinstance(line, (str, Text)) or not wraps:
            super().print(*objects, **options)
            return
        for part in broken(Text(line) if isinstance(line, str) else line, self):
            super().print(part, **options)


def harmless(part: Any) -> Any:
    """Text without control characters, its styles as they were; anything else as it is."""
    if isinstance(part, str):
        return safe(part)
    if isinstance(part, Text) and CONTROL.search(part.plain):
        part = part.copy()
        part.plain = CONTROL.sub("\ufffd", part.plain)
    return part


def broken(text: Text, console: Console) -> list[Text]:
    """The text as lines that fit, those that go on indented."""
    broken_lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= console.width:
            broken_lines.append(line)
            continue
        indent = len(line.plain) - len(line.plain.lstrip()) + INDENT
        ends = breaks(line.plain, console.width, indent)
        for at, (start, end) in enumerate(pairwise([0, *ends, len(line.plain)])):
            part = line[start:end]
            part.rstrip()
            broken_lines.append(Text(" " * indent).append_text(part) if at else part)
    return broken_lines


def breaks(line: str, width: int, indent: int) -> list[int]:
    """Where words begin that no longer fit: the first line is ``width`` wide, the others less."""
    ends: list[int] = []
    start = 0
    for word in WORD.finditer(line):
        room = width - (indent if ends else 0)
        if word.start() > start and cell_len(line[start : word.end()].rstrip()) > room:
            ends.append(word.start())
            start = word.start()
    return ends
