"""An embedder that is known from a note, and loaded only to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hashing_embedder import HashingEmbedder

from ragla.retrieve.lazy import LazyEmbedder


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., tuple[LazyEmbedder, list[HashingEmbedder]]]:
    """A lazy embedder of the model folder, and what it has loaded."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_bytes(b"weights")

    def make(prompts: tuple[str | None, str | None] = (None, None)) -> Any:
        loaded: list[HashingEmbedder] = []

        def load() -> HashingEmbedder:
            loaded.append(HashingEmbedder())
            return loaded[-1]

        return LazyEmbedder(model, "fake", prompts, tmp_path / "notes", load), loaded  # type: ignore[arg-type]

    return make


def facts(embedder: Any) -> tuple[Any, ...]:
    return (
        embedder.name, embedder.dimension, embedder.max_tokens, embedder.overhead_tokens, embedder.identity,
    )  # fmt: skip


def test_the_second_time_it_is_known_without_being_loaded(made: Any) -> None:
    first, loaded = made()
    assert first.is_loaded
    assert len(loaded) == 1
    again, loaded = made()
    assert facts(again) == facts(HashingEmbedder())
    assert not again.is_loaded
    assert again.encode_query("a").shape == (64,)
    assert again.encode_passages(["a", "b"]).shape == (2, 64)
    assert again.readable_share("a") == 1.0
    assert again.tokenizer is loaded[0].tokenizer
    assert len(loaded) == 1


def test_other_files_and_other_prompts_are_another_embedder(made: Any, tmp_path: Path) -> None:
    made()
    assert made(("query: ", None))[0].is_loaded
    (tmp_path / "model" / "weights").write_bytes(b"others!")
    assert made()[0].is_loaded


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", b'{"dimension": 3, "surprise": 1}'])
def test_a_damaged_note_is_written_anew(made: Any, tmp_path: Path, damage: bytes) -> None:
    made()
    [note] = (tmp_path / "notes").iterdir()
    note.write_bytes(damage)
    assert facts(made()[0]) == facts(HashingEmbedder())
    assert not made()[0].is_loaded


def test_where_no_note_can_be_kept_it_is_loaded(made: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file where the folder would be", encoding="utf-8")
    assert facts(made()[0]) == facts(HashingEmbedder())


def test_closing_what_was_not_loaded_does_nothing(made: Any) -> None:
    made()
    again, loaded = made()
    assert again.notice is None
    again.close()
    assert loaded == []


def test_loading_is_told_before_it_is_done(made: Any) -> None:
    made()
    embedder, loaded = made()
    told: list[int] = []
    embedder.watch(lambda: told.append(len(loaded)), lambda passages: None)
    assert not told
    embedder.encode_query("a")
    embedder.encode_query("b")
    assert told == [0]
