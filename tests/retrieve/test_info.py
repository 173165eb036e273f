"""What an index says of itself, and which FAISS index is advised for its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragla.errors import IndexUnusable
from ragla.retrieve.advice import advise, on_sample
from ragla.retrieve.selection import Selection
from ragla.retrieve.statistics import IndexStatistics, index_statistics


@pytest.fixture
def statistics(tmp_path: Path) -> Callable[[], IndexStatistics]:
    return lambda: index_statistics(tmp_path / "index")


def test_files_are_counted_by_type_and_state(
    folder: Path, index: Callable[..., object], statistics: Callable[[], IndexStatistics]
) -> None:
    (folder / "empty.txt").write_bytes(b"")
    (folder / "photo.PNG").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "README").write_text("Read this first.\n", encoding="utf-8")
    index()
    found = statistics()
    counted = {one.suffix: (one.indexed, one.skipped) for one in found.types}
    assert counted == {"md": (2, 0), "txt": (1, 1), "": (1, 0), "png": (0, 1)}
    assert found.indexed_files == 4
    assert found.passages == sum(one.passages for one in found.types) == 4
    assert found.reasons == {"binary file (PNG image)": 1, "empty file": 1}
    assert dict(found.skipped)[str(folder / "empty.txt")] == "empty file"


def test_reasons_that_differ_in_numbers_are_one(
    folder: Path, index: Callable[..., object], statistics: Callable[[], IndexStatistics]
) -> None:
    for size in (2_000, 3_000):
        (folder / f"{size}.txt").write_bytes(b"a" * size)
    index(max_bytes=1_000)
    assert statistics().reasons == {"too large: … bytes, the limit is …": 2}


def test_it_says_what_the_index_was_made_of_and_with(
    folder: Path, tmp_path: Path, index: Callable[..., object], statistics: Callable[[], IndexStatistics]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "note.txt").write_text("A note.\n", encoding="utf-8")
    index(selection=Selection(exclude=("guides/",)))
    index([other])
    (other / "note.txt").unlink()
    other.rmdir()
    found = statistics()
    assert [(one.folder, one.is_there, one.indexed) for one in found.folders] == [
        (str(folder), True, 2),
        (str(other), False, 1),
    ]
    assert found.folders[0].selection == Selection(exclude=("guides/",))
    assert found.made_with["embedder"] == "fake"
    assert not found.is_outdated
    assert found.changed_at is not None
    assert found.bytes["database"] > found.bytes["vectors"] > 0


def test_the_index_of_before_is_counted_by_itself(
    folder: Path, tmp_path: Path, index: Callable[..., object], statistics: Callable[[], IndexStatistics]
) -> None:
    index()
    assert statistics().bytes["previous"] == 0
    (folder / "more.txt").write_text("More.\n", encoding="utf-8")
    index()
    found = statistics().bytes
    assert found["previous"] >= found["vectors"]
    on_disk = [path for path in (tmp_path / "index").iterdir() if not path.name.endswith("-shm")]
    assert sum(found.values()) == sum(path.stat().st_size for path in on_disk)


def test_vectors_older_than_the_passages_are_said(
    tmp_path: Path, index: Callable[..., object], statistics: Callable[[], IndexStatistics]
) -> None:
    index()
    assert statistics().dense.is_current
    next((tmp_path / "index").glob("*.faiss")).unlink()
    found = statistics().dense
    assert (found.is_current, found.bytes) == (False, 0)
    assert found.record is not None


def test_an_empty_folder_makes_an_index_that_can_be_looked_at(
    tmp_path: Path, index: Callable[..., object], statistics: Callable[[], IndexStatistics]
) -> None:
    empty = tmp_path / "nothing"
    empty.mkdir()
    index([empty])
    found = statistics()
    assert (found.types, found.passages, found.folders) == ([], 0, [])


def test_no_index_is_an_error_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(IndexUnusable) as caught:
        index_statistics(tmp_path)
    assert caught.value.hint == "ragla index FOLDER"


def test_a_small_index_is_advised_to_compare_all() -> None:
    assert advise(200_000, 384, 8_000).factory == "Flat"


def test_a_large_index_is_advised_inverted_lists_and_8_bit_when_memory_is_short() -> None:
    roomy = advise(1_000_000, 384, 64_000)
    assert roomy.factory == "IVF4096,Flat"
    assert roomy.mebibytes == pytest.approx(1_000_000 * 384 * 4 / 2**20)
    tight = advise(1_000_000, 384, 4_000)
    assert tight.factory == "IVF4096,SQ8"
    assert tight.mebibytes == roomy.mebibytes / 4


def test_a_sample_gets_as_many_lists_as_suit_it() -> None:
    assert on_sample("IVF4096,SQ8", 65_536) == "IVF1024,SQ8"
    assert on_sample("Flat", 65_536) == "Flat"
