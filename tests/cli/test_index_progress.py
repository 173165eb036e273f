"""Indexing says which phase it is in and how far that is: files read, passages embedded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragla.index_progress import index_progress
from ragla.retrieve import events
from tests.cli.screens import terminal
from tests.cli.tiny_world import Ragla, World


def test_a_terminal_shows_each_phase_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = (
        (events.FilesFound(3, 2), "reading 0/2"),
        (events.EmbedderLoading("minilm-l6"), "loading the embedder minilm-l6 0/2"),
        (events.FileRead("a.md", 5), "reading 1/2"),
        (events.FileSkipped("b.bin", "no text in it"), "reading 2/2"),
        (events.EmbeddingBegun(), "embedding passages 0/5"),
        (events.PassagesEmbedded(3), "embedding passages 3/5"),
        (events.BatchStored(1), "reading 2/2"),
        (events.VectorsBegun(), "preparing the search 5/5"),
    )
    with terminal(monkeypatch, 80) as screen, index_progress(quiet=False) as on_event:
        for event, shown in happened:
            on_event(event)
            drawn_now(on_event)
            assert re.sub(r"[━╸╺ ]+", " ", screen.lines()[-1]).startswith(shown)


def drawn_now(on_event: object) -> None:
    progress = on_event._progress  # type: ignore[attr-defined]
    assert progress is not None
    progress.refresh()


def test_a_run_tells_its_phases_to_who_asks(ragla: Ragla, world: World, elsewhere: Path) -> None:
    flags = ["--index", elsewhere / "index", "-p", world.profile]
    said = ragla("-v", "index", world.docs, *flags).stderr.splitlines()
    wanted = ["reading", "embedding passages", "preparing the search"]
    assert [line for line in said if line in wanted] == wanted
    assert not any("embedder" in line for line in ragla("-v", "index", *flags).stderr.splitlines())
    assert len(ragla("index", "--rebuild", world.docs, *flags).stderr.splitlines()) == 1
