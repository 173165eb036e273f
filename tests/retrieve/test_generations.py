"""The index as it was before the last run that changed it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import IndexLocked, IndexUnusable, RaglaError
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve import generations as generations_module
from ragla.retrieve import update as update_module
from ragla.retrieve.check import check_index, checks, content_hash
from ragla.retrieve.events import BatchStored, Event, FileRead
from ragla.retrieve.generations import Sitting, rollback
from ragla.retrieve.layout import generations, leftovers, point_to, writing
from ragla.retrieve.selection import Selection

Index = Callable[..., IndexReport]
Found = Callable[[str], list[str]]


pytestmark = pytest.mark.usefixtures("no_tick")


def stop_after(kind: type[Event]) -> Callable[[Event], None]:  # type: ignore[valid-type]
    def stop(event: Event) -> None:
        if isinstance(event, kind):
            raise KeyboardInterrupt

    return stop


def add(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def test_a_rollback_and_a_second_one(index: Index, folder: Path, place: Path, found: Found) -> None:
    index()
    first = content_hash(place)
    add(folder, "zebra.txt", "A zebra.")
    (folder / "guides" / "boats.txt").unlink()
    index()
    second = content_hash(place)
    assert first != second
    made = rollback(place)
    assert (made.files, made.passages, content_hash(place)) == (3, 3, first)
    assert found("boats pier")
    assert not found("zebra")
    assert made.changed_at
    rollback(place)
    assert content_hash(place) == second
    assert check_index(place) == []


def test_after_a_rollback_the_next_run_reads_what_the_folder_holds(
    index: Index, folder: Path, place: Path
) -> None:
    index()
    add(folder, "zebra.txt", "A zebra.")
    index()
    second = content_hash(place)
    rollback(place)
    assert index().indexed == 1
    assert content_hash(place) == second
    rollback(place)
    assert content_hash(place) != second
    assert check_index(place) == []


def test_a_run_without_a_change_leaves_it(index: Index, folder: Path, place: Path) -> None:
    index()
    first = content_hash(place)
    add(folder, "zebra.txt", "A zebra.")
    index()
    os.utime(folder / "travel.md")
    index()
    rollback(place)
    assert content_hash(place) == first


def test_an_interrupted_run_and_the_one_that_goes_on_are_one(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    first = content_hash(place)
    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)
    for name in "abc":
        add(folder, f"{name}.txt", f"A zebra {name}.")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            index(on_event=stop_after(BatchStored))
    index()
    last = content_hash(place)
    rollback(place)
    assert content_hash(place) == first
    rollback(place)
    assert content_hash(place) == last


def test_runs_of_one_sitting_are_undone_together(index: Index, folder: Path, place: Path) -> None:
    index()
    first = content_hash(place)
    sitting = Sitting()
    index(sitting=sitting)
    for number in range(3):
        add(folder, f"{number}.txt", f"Zebra {number}.")
        index(sitting=sitting)
    rollback(place)
    assert content_hash(place) == first


def test_an_interrupted_first_run_is_nothing_to_go_back_to(
    index: Index, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)
    with pytest.raises(KeyboardInterrupt):
        index(on_event=stop_after(BatchStored))
    index()
    with pytest.raises(RaglaError, match="nothing to go back to") as caught:
        rollback(place)
    assert caught.value.hint


def test_what_was_chosen_comes_back_too(index: Index, place: Path, found: Found) -> None:
    index()
    first = content_hash(place)
    index(selection=Selection(exclude=("guides/",)))
    assert not found("boats pier")
    rollback(place)
    assert index().indexed == 0
    assert content_hash(place) == first


def test_a_rebuild_can_be_undone(index: Index, folder: Path, place: Path) -> None:
    index()
    first = content_hash(place)
    with pytest.raises(KeyboardInterrupt):
        index(rebuild=True, embedder=HashingEmbedder("other"), on_event=stop_after(FileRead))
    assert content_hash(place) == first
    index(rebuild=True, embedder=HashingEmbedder("other", dimension=32))
    assert content_hash(place) != first
    assert check_index(place) == []
    rollback(place)
    assert content_hash(place) == first
    assert index().unchanged == 3


def test_an_interrupted_rebuild_goes_on_with_the_same_folders_only(
    index: Index, folder: Path, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)
    with pytest.raises(KeyboardInterrupt):
        index(rebuild=True, on_event=stop_after(BatchStored))
    report = index(rebuild=True)
    assert (report.indexed, report.unchanged) == (2, 1)
    with pytest.raises(KeyboardInterrupt):
        index(rebuild=True, on_event=stop_after(BatchStored))
    other = tmp_path / "other"
    other.mkdir()
    add(other, "zebra.txt", "A zebra.")
    assert index([other], rebuild=True).total_passages == 1


def test_a_reader_goes_on_with_what_it_has_open(
    index: Index, folder: Path, place: Path, embedder: HashingEmbedder
) -> None:
    index()
    add(folder, "zebra.txt", "A zebra.")
    index()
    reader = Retriever.open(place, embedder)
    rollback(place)
    add(folder, "giraffe.txt", "A giraffe.")
    index()  # what the reader has open is no longer kept
    assert [hit.passage.text for hit in reader.search("zebra", 1)] == ["A zebra."]
    reader.close()


def test_one_generation_is_kept_or_none(index: Index, folder: Path, place: Path) -> None:
    for number in range(4):
        add(folder, f"{number}.txt", f"Zebra {number}.")
        index()
        assert len(list(place.glob("passages-*.sqlite"))) == min(number + 1, 2)
        assert leftovers(place) == []
    add(folder, "more.txt", "Giraffe.")
    index(settings=RetrieveSettings(keep_previous=False))
    assert len(list(place.glob("passages-*"))) == len(list(place.glob("vectors-*"))) == 1
    with pytest.raises(RaglaError, match="nothing to go back to"):
        rollback(place)


def test_the_copy_has_its_file_of_vectors(index: Index, folder: Path, place: Path) -> None:
    index()
    add(folder, "zebra.txt", "A zebra.")
    index()
    rollback(place)
    kept = generations(place)
    assert kept
    assert kept.current.with_name(kept.current.stem.replace("passages", "vectors") + ".faiss").is_file()
    assert check_index(place) == []


def test_a_full_disk_says_how_to_do_without(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    first = content_hash(place)
    add(folder, "zebra.txt", "A zebra.")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RaglaError, match="disk is full") as caught:
            index()
    assert "retrieve.keep_previous=false" in str(caught.value.hint)
    assert content_hash(place) == first
    assert not list(place.glob("*.tmp"))
    index()
    rollback(place)
    assert content_hash(place) == first


def test_an_interrupt_while_the_copy_is_made(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    first = content_hash(place)
    add(folder, "zebra.txt", "A zebra.")
    parts: list[int] = []

    def interrupt(status: int, remaining: int, total: int) -> None:
        parts.append(remaining)
        if len(parts) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(generations_module, "_PAGES_AT_ONCE", 1)
        patch.setattr(generations_module, "_look_up", interrupt)
        with pytest.raises(KeyboardInterrupt):
            index()
    assert parts[-1] > 0
    assert content_hash(place) == first
    assert leftovers(place) == []
    assert check_index(place) == []
    index()
    rollback(place)
    assert content_hash(place) == first


def test_a_rollback_while_another_writes_or_without_an_index(index: Index, place: Path) -> None:
    with pytest.raises(IndexUnusable):
        rollback(place)
    assert not place.exists()
    index()
    with writing(place), pytest.raises(IndexLocked):
        rollback(place)


def test_a_damaged_previous_generation_is_not_gone_back_to(index: Index, folder: Path, place: Path) -> None:
    index()
    add(folder, "zebra.txt", "A zebra.")
    index()
    now = content_hash(place)
    kept = generations(place)
    assert kept
    assert kept.previous
    kept.previous.write_bytes(b"x" * 5000)
    with pytest.raises(IndexUnusable):
        rollback(place)
    assert content_hash(place) == now
    assert check_index(place) == []
    (waiting,) = [problem for check in checks(place) for problem in check.waiting]
    assert waiting.where == str(kept.previous)
    add(folder, "giraffe.txt", "A giraffe.")
    index()
    rollback(place)
    assert content_hash(place) == now


@pytest.mark.parametrize(
    "damage", ["", "passages-7.sqlite", "passages-1.sqlite\npassages-2.sqlite\nx\n", "\0"]
)
def test_where_nothing_says_what_is_current_a_run_takes_the_latest(
    index: Index, folder: Path, place: Path, damage: str, embedder: HashingEmbedder
) -> None:
    index()
    add(folder, "zebra.txt", "A zebra.")
    index()
    now = content_hash(place)
    (place / "current").write_text(damage, encoding="utf-8")
    with pytest.raises(IndexUnusable, match="nothing says") as caught:
        Retriever.open(place, embedder)
    assert "ragla doctor --repair" in str(caught.value.hint)
    assert index().unchanged == 4
    assert content_hash(place) == now


def test_a_crash_before_anything_was_current_is_a_first_run(index: Index, place: Path) -> None:
    place.mkdir()
    sqlite3.connect(place / "passages-1.sqlite").close()
    assert index().indexed == 3
    assert len(list(place.glob("passages-*.sqlite"))) == 1


def test_a_pointer_to_a_missing_previous_is_none(index: Index, place: Path) -> None:
    index()
    kept = generations(place)
    assert kept
    point_to(kept.current, place / "passages-9.sqlite")
    assert generations(place) == kept
