"""A terminal in this process: what is written to the two streams, as pyte shows it."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import pyte
import pytest
from wcwidth import wcwidth

ROWS = 10


class Screen(pyte.HistoryScreen):
    """Wraps a wide character that the last column has no room for, as terminals do and pyte does not."""

    def draw(self, data: str) -> None:
        for character in data:
            if wcwidth(character) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            super().draw(character)


class Terminal:
    """A pseudo terminal of so many columns; ``rows`` above the screen are kept too."""

    def __init__(self, columns: int, rows: int = ROWS) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        attributes = termios.tcgetattr(self.slave)
        attributes[1] |= termios.OPOST | termios.ONLCR
        termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        os.set_blocking(self.master, False)
        self.screen = Screen(columns, rows, history=10_000)
        self.stream = pyte.ByteStream(self.screen)
        self.resize(columns)

    def resize(self, columns: int) -> None:
        """Another width."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self.screen.resize(columns=columns)

    def read(self) -> bytes:
        """Show what has been written since the last time, and return it."""
        written = b""
        while True:
            try:
                part = os.read(self.master, 65_536)
            except BlockingIOError:
                break
            written += part
        self.stream.feed(written)
        return written

    def lines(self) -> list[str]:
        """All lines, those that were scrolled away first."""
        self.read()
        width = self.screen.columns
        above = ["".join(row[at].data for at in range(width)) for row in self.screen.history.top]
        lines = [line.rstrip() for line in (*above, *self.screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self.master)
        os.close(self.slave)


@contextmanager
def terminal(
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    *,
    rows: int = ROWS,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Iterator[Terminal]:
    """Both streams on one terminal, but for those that are given as descriptors."""
    made = Terminal(columns, rows)
    for name in ("NO_COLOR", "FORCE_COLOR", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))  # rich asks the descriptors of the test run
    monkeypatch.setenv("TERM", "xterm-256color")
    streams = [
        os.fdopen(os.dup(made.slave if given is None else given), "w", encoding="utf-8", errors="replace")
        for given in (stdout, stderr)
    ]  # fmt: skip
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    try:
        yield made
    finally:
        monkeypatch.undo()
        for stream in streams:
            stream.close()
        made.close()
