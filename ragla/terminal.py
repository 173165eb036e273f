"""The two streams of a terminal: what is written to them, and what moves on them while something takes time.

Data goes to stdout, everything else to stderr; off a terminal nothing moves. rich is imported when
something is drawn.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TextIO

from ragla.errors import UsageError

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

UNLIMITED = 1000  # columns, where a stream is no terminal: nothing is folded or cut

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"

# What JSON may hold as it is, but a terminal obeys or a reader of lines takes for an end of line.
ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029]")

JsonForm = Literal["document", "lines"]
"""``--json`` writes one document, ``--jsonl`` one a line."""


def data_stream() -> TextIO:
    """stdout. Raises UsageError where the process was started without one."""
    if sys.stdout is None:
        raise UsageError("stdout is closed, there is nowhere to write to", "redirect it instead: > FILE")
    return sys.stdout


def output() -> Console:
    """stdout; never wraps or reads markup out of data. Raises UsageError where there is none."""
    from ragla.lines import LineConsole

    width = None if data_stream().isatty() else UNLIMITED
    return LineConsole(width=width, markup=False, highlight=False, emoji=False)


def errors(*, always: bool = False) -> Console:
    """stderr, likewise; after ``--quiet`` it says nothing but what is said ``always``."""
    from ragla.lines import LineConsole

    quiet = _loudness is Loudness.QUIET and not always
    width = None if sys.stderr is None or sys.stderr.isatty() else UNLIMITED
    return LineConsole(stderr=True, width=width, markup=False, highlight=False, emoji=False, quiet=quiet)


class Loudness(IntEnum):
    """How much is said on stderr."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2
    DEBUG = 3


_loudness = Loudness.NORMAL


def set_loudness(chosen: Loudness) -> None:
    """From here on in this process."""
    global _loudness
    _loudness = chosen


def loudness() -> Loudness:
    """What was chosen."""
    return _loudness


def tell_more(text: str) -> None:
    """A line for who asked for more: what is used, how long it took."""
    from ragla import render

    if _loudness >= Loudness.VERBOSE:
        errors().print(render.one_line(text), style="dim", soft_wrap=True)


def escaped(text: str) -> str:
    """JSON as it is written: nothing in it commands a terminal or ends a line."""
    return ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(document: dict[str, Any], form: JsonForm = "document") -> None:
    """One JSON document on stdout, as several lines or as one. Raises UsageError where there is none."""
    stdout = data_stream()
    text = json.dumps(document, ensure_ascii=False, indent=2 if form == "document" else None)
    stdout.write(escaped(text) + "\n")
    stdout.flush()


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yields what says, after each step of an answer, whether Ctrl-C was pressed since the last time.

    Before the first step and at a second Ctrl-C it raises KeyboardInterrupt at once, as everywhere else.
    Where interrupts are ignored or not Python's to handle, nothing changes.
    """
    pressed = begun = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed or not begun:
            raise KeyboardInterrupt
        pressed = True

    def stopped() -> bool:
        nonlocal begun
        begun = True
        return pressed

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, press)
        try:
            yield stopped
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        yield stopped


class Phase:
    """What is being done and for how long, as a line that moves on stderr; ``text`` may change."""

    def __init__(self, text: str) -> None:
        from rich.live import Live

        self.text = text
        self.began = perf_counter()
        console = errors()
        self._frames = FRAMES if console.encoding.lower().startswith("utf") else PLAIN_FRAMES
        self._live = Live(self, console=console, transient=True, refresh_per_second=10)

    def __rich__(self) -> Text:
        """The line as it is now."""
        from rich.text import Text

        from ragla.render import one_line

        elapsed = perf_counter() - self.began
        frame = self._frames[int(elapsed * 10) % len(self._frames)]
        return Text(
            f"{frame} {one_line(self.text)} · {elapsed:.1f} s", "dim", no_wrap=True, overflow="ellipsis"
        )

    def start(self) -> None:
        """Draw it."""
        self._live.start()

    def stop(self) -> None:
        """Take it away."""
        self._live.stop()


def moves() -> bool:
    """Whether stderr is a terminal on which something may move, whatever colours are asked for."""
    console = errors()
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    return at_terminal and console.is_interactive and not console.is_dumb_terminal and not console.quiet


@contextmanager
def phase(text: str, quiet: bool) -> Iterator[Phase | None]:
    """A line on stderr that says what takes time; None off a terminal."""
    if quiet or not moves():
        yield None
        return
    doing = Phase(text)
    doing.start()
    try:
        yield doing
    finally:
        doing.stop()


@contextmanager
def status(text: str, quiet: bool) -> Iterator[None]:
    """The same where what is being done stays the same; who asked for more is told how long it took."""
    began = perf_counter()
    with phase(text, quiet):
        yield
    tell_more(f"{text} · {perf_counter() - began:.1f} s")


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr that leaves no trace; None off a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if quiet or not moves():
        yield None
        return
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=errors(), transient=True) as progress:
        yield progress


@contextmanager
def pull_progress(name: str, quiet: bool) -> Iterator[Any]:
    """Draws the stages of a pull; a line a stage off a terminal."""
    seen: set[str] = set()
    with progress_bar(quiet) as progress:
        task = progress.add_task(name, total=None) if progress else None

        def on_progress(stage: str, done: int, total: int) -> None:
            if progress is not None and task is not None:
                scale = 1 << 20 if total > 1 << 20 else 1
                progress.update(
                    task,
                    description=f"{name}: {stage}",
                    completed=done // scale,
                    total=total // scale or None,
                )
            elif not quiet and stage not in seen:
                seen.add(stage)
                errors().print(f"{name}: {stage}", soft_wrap=True)

        yield on_progress


@contextmanager
def bench_progress(quiet: bool) -> Iterator[Any]:
    """Draws how far a bench is."""
    with progress_bar(quiet) as progress:
        task = progress.add_task("warming up", total=None) if progress else None

        def on_progress(done: int, total: int, decoder: str) -> None:
            if progress is not None and task is not None:
                progress.update(task, completed=done, total=total, description=decoder)

        yield on_progress


def show_notice(notice: str | None) -> None:
    """A line about what was not done as asked, if there is one."""
    from ragla import render

    if notice:
        errors().print(f"note: {render.one_line(notice)}", style="yellow", soft_wrap=True)
