"""What moves on stderr while folders are indexed: which phase it is, and how far that is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragla.terminal import progress_bar, tell_more

if TYPE_CHECKING:
    from rich.progress import Progress

    from ragla.retrieve.events import Event, OnEvent


class _Phases:
    """Follows the events of a run. The bar counts files, or passages while these are embedded."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._task = progress.add_task("looking for files", total=None) if progress else None
        self._told: set[str] = set()
        self._files = self._to_read = 0
        self._passages = self._embedded = 0

    def __call__(self, event: Event) -> None:
        from ragla.retrieve import events

        match event:
            case events.FilesFound():
                self._to_read = event.to_read
                self._show("reading", self._files, self._to_read)
            case events.EmbedderLoading():
                self._show(f"loading the embedder {event.name}", self._files, self._to_read)
            case events.FileRead() | events.FileSkipped():
                self._files += 1
                self._passages += event.passages if isinstance(event, events.FileRead) else 0
                self._show("reading", self._files, self._to_read)
            case events.EmbeddingBegun():
                self._show("embedding passages", self._embedded, self._passages)
            case events.PassagesEmbedded():
                self._embedded = event.passages
                self._show("embedding passages", self._embedded, self._passages)
            case events.BatchStored():
                self._show("reading", self._files, self._to_read)
            case events.VectorsBegun():
                self._show("preparing the search", self._passages, self._passages)

    def _show(self, phase: str, done: int, total: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=phase, completed=done, total=total)
        elif phase not in self._told:
            self._told.add(phase)
            tell_more(phase)


@contextmanager
def index_progress(quiet: bool) -> Iterator[OnEvent]:
    """Draws what happens while folders are indexed; off a terminal, who asked for more is told the phases."""
    with progress_bar(quiet) as progress:
        yield _ignore if quiet else _Phases(progress)


def _ignore(event: Event) -> None:
    """Nobody is told."""
