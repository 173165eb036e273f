"""The two streams of a terminal: what is written to them, and what moves on them while something takes time.

Data goes to stdout, everything else to stderr; off a terminal nothing moves. rich is imported when
something is drawn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ragla.retrieve.events import OnEvent

UNLIMITED = 1000  # columns, where stdout is no terminal: nothing is folded or cut


def output() -> Console:
    """stdout; never wraps or reads markup out of data."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(width=width, markup=False, highlight=False, emoji=False)


def errors() -> Console:
    """stderr, likewise."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    sys.stdout.flush()


@contextmanager
def reading(quiet: bool) -> Iterator[Any]:
    """Yields the receiver of the answer's text; a status line stands until the first piece arrives."""
    from ragla import render

    if quiet:
        yield None
        return
    console = errors()
    waiting = console.status("reading", spinner="dots")
    if console.is_terminal:
        waiting.start()

    begun = False

    def write(text: str) -> None:
        nonlocal begun
        begun = True
        waiting.stop()
        sys.stdout.write(render.safe(text))
        sys.stdout.flush()

    try:
        yield write
    except BaseException:
        if begun:  # what is said next is no part of the answer's last line
            sys.stdout.write("\n")
        raise
    finally:
        waiting.stop()


@contextmanager
def status(text: str, quiet: bool) -> Iterator[None]:
    """A line on stderr while something takes time; nothing off a terminal."""
    console = errors()
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(text, spinner="dots"):
        yield


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr that leaves no trace; None off a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = errors()
    if quiet or not console.is_terminal:
        yield None
        return
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress


@contextmanager
def index_progress(quiet: bool) -> Iterator[OnEvent]:
    """Draws what happens while folders are indexed."""
    from ragla.retrieve import events

    with progress_bar(quiet) as progress:
        task = progress.add_task("looking for files", total=None) if progress else None

        def on_event(event: events.Event) -> None:
            if progress is None or task is None:
                return
            if isinstance(event, events.FilesFound):
                progress.update(task, total=event.to_read, description="reading")
            elif isinstance(event, (events.FileRead, events.FileSkipped)):
                progress.advance(task)
            elif isinstance(event, events.PassagesEmbedded):
                progress.update(task, description=f"{event.passages} passages")

        yield on_event


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
