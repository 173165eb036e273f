"""Runs a command on a terminal in this process and writes down what the screen shows.

A clock that goes a hundredth of a second a look stands in for the real one, and the folder's random name is
taken out before the terminal wraps it, so that a recording is the same on every machine.
"""

from __future__ import annotations

import io
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, groupby
from types import SimpleNamespace
from typing import Any

import pyte
import pytest

from ragla.cli import app
from ragla.live import View
from tests.cli.screens import Screen, Terminal, terminal

CLOCKS = (
    "answer", "answering", "asking", "conversation", "live", "recorder", "replaying", "decode.decoder",
    "decode.greedy", "decode.budget",
)  # fmt: skip
MARK = b"\0step\0"
ROWS = 300
MADE_UP = (
    (re.compile(rb"/tmp/ragla-[a-z0-9_]{8}"), b"/tmp/ragla-XXXXXXXX"),
    (re.compile(rb"20\d\d-\d\d-\d\d \d\d:\d\d"), b"2026-01-01 00:00"),
    (re.compile(rb"\d\d kB"), b"12 kB"),
    (re.compile(rb"revision [0-9a-f]{16}"), b"revision 0123456789abcdef"),
)


def still_clock(patch: pytest.MonkeyPatch) -> None:
    """Time goes on by looks, not by itself."""
    looks = count()

    def perf_counter() -> float:
        return next(looks) / 100

    for module in CLOCKS:
        patch.setattr(f"ragla.{module}.perf_counter", perf_counter, raising=False)
    patch.setattr("ragla.replaying.sleep", lambda seconds: None)
    real = vars(time)
    patch.setattr("ragla.retrieve.indexer.time", SimpleNamespace(**real | {"monotonic": perf_counter}))


@contextmanager
def pumped(screen: Terminal) -> Iterator[bytearray]:
    """What is written to a terminal while a command runs."""
    written, done = bytearray(), threading.Event()

    def pump() -> None:
        while True:
            ended = done.is_set()
            while select.select([screen.master], [], [], 0)[0]:
                written.extend(os.read(screen.master, 65_536))
            if ended:
                return
            select.select([screen.master], [], [], 0.05)

    reader = threading.Thread(target=pump)
    reader.start()
    try:
        yield written
    finally:
        done.set()
        reader.join()


def run(words: list[str]) -> int:
    """The exit code."""
    try:
        app(words, prog_name="ragla")
    except SystemExit as leaving:
        return int(leaving.code or 0)
    raise AssertionError("a command always leaves")


class Typist(io.TextIOBase):
    """A person at the keyboard: what is typed is seen, and then nothing more comes."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines_to_come = iter(lines)

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        line = next(self.lines_to_come, "")
        sys.stdout.write(line)
        sys.stdout.flush()
        return line


def on_a_terminal(
    words: list[str], columns: int, *, step: int | None = None, typed: Iterable[str] = ()
) -> str:
    """The screen after a command or, with ``step``, in the middle of its answer, behind so many steps."""
    with pytest.MonkeyPatch.context() as patch, terminal(patch, columns) as screen:
        still_clock(patch)
        patch.setattr(sys, "stdin", Typist(typed))
        if step is not None:
            mark_step(patch, step)
        with pumped(screen) as written:
            code = run(words)
            sys.stdout.flush()
            sys.stderr.flush()
    seen = masked(bytes(written).partition(MARK)[0])
    return shown(seen, columns) + (f"exit code {code}\n" if step is None else "")


def mark_step(patch: pytest.MonkeyPatch, step: int) -> None:
    """Mark what was written up to a step of an answer."""
    steps = count(1)
    honest = View.step

    def marked(view: View, *told: Any) -> None:
        honest(view, *told)
        if next(steps) == step:
            sys.stderr.write(MARK.decode())
            sys.stderr.flush()

    patch.setattr(View, "step", marked)


def masked(written: bytes) -> bytes:
    """What differs from run to run, replaced by as many characters."""
    for pattern, replacement in MADE_UP:
        written = pattern.sub(replacement, written)
    return written


def shown(written: bytes, columns: int) -> str:
    """The lines of a screen, then its styles: line, first and last column, style."""
    screen = Screen(columns, ROWS)
    pyte.ByteStream(screen).feed(written)
    assert not screen.history.top, "more lines than the recorder looks at"
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    text = "\n".join(lines)
    styles = "\n".join(styles_of(screen, len(lines)))
    return f"{text}\n\n{styles}\n"


def styles_of(screen: Screen, lines: int) -> Iterator[str]:
    """``line:first-last style`` for whatever is not plain."""
    for at in range(lines):
        row = screen.buffer[at]
        cells = [
            (column, style_of(row[column])) for column in range(screen.columns) if row[column].data.strip()
        ]
        for style, run_of in groupby(cells, key=lambda cell: cell[1]):
            places = [column for column, _ in run_of]
            if style:
                yield f"{at + 1}:{places[0] + 1}-{places[-1] + 1} {style}"


def style_of(cell: pyte.screens.Char) -> str:
    """Colour and form of a cell; empty where it is plain."""
    forms = [name for name in ("bold", "italics", "underscore", "reverse") if getattr(cell, name)]
    colours = [cell.fg] if cell.fg != "default" else []
    colours += [f"on {cell.bg}"] if cell.bg != "default" else []
    return " ".join([*forms, *colours])


def in_a_pipe(words: list[str]) -> str:
    """Both streams, each by itself."""
    with pytest.MonkeyPatch.context() as patch:
        still_clock(patch)
        streams = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        code = run(words)
        texts = []
        for stream in streams:
            stream.flush()
            texts.append(masked(stream.buffer.getvalue()).decode())  # type: ignore[attr-defined]
    return f"stdout:\n{texts[0]}\nstderr:\n{texts[1]}\nexit code {code}\n"
