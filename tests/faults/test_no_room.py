"""An index on a disk that is full, and in a folder that is only to be read."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from fault_children import Child, finished
from fault_corpus import Documents, check_answers
from fault_jobs import Job, SystemFault
from hashing_embedder import HashingEmbedder
from index_state import check_clean, content, is_one_line_with_a_command
from mounts import fill_up, read_only, small_disk

from ragla.errors import RaglaError
from ragla.retrieve import Retriever

pytestmark = pytest.mark.usefixtures("children")
MIB = 1 << 20


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    made = Documents(tmp_path / "docs", seed=11)
    made.fill(8)
    return made


@pytest.mark.parametrize("verb", ["update", "rebuild"])
def test_a_full_disk_costs_nothing_but_the_run(tmp_path: Path, documents: Documents, verb: str) -> None:
    """Full at once, or at some moment of the run."""
    kept = tmp_path / "kept"
    assert finished(Job(documents.folder, kept)).report
    documents.change_some()
    refused = 0
    for left in (0, 8, 24, 40, 64, 96, 128, 192, 256, 512):
        with small_disk(tmp_path / "disk", 2 * MIB) as disk:
            index_dir = shutil.copytree(kept, disk / "index")
            ballast = fill_up(disk, left << 10)
            outcome = finished(Job(documents.folder, index_dir, verb))
            assert not outcome.trace
            if outcome.report is None:
                refused += 1
                assert is_one_line_with_a_command(outcome.error)
                assert outcome.error is not None
                assert "full" in f"{outcome.error[1]} {outcome.error[2]}"
            check_answers(documents, index_dir)
            ballast.unlink()
            assert finished(Job(documents.folder, index_dir)).report
            assert check_answers(documents, index_dir) == len(documents.here)
            check_clean(index_dir)
    assert refused >= 3


def test_a_first_index_that_does_not_fit(tmp_path: Path, documents: Documents) -> None:
    with small_disk(tmp_path / "disk", 2 * MIB) as disk:
        for left in (0, 4, 16, 64, 128):
            ballast = fill_up(disk, left << 10)
            outcome = finished(Job(documents.folder, disk / "index"))
            assert not outcome.trace
            assert outcome.report or is_one_line_with_a_command(outcome.error)
            ballast.unlink()
        assert finished(Job(documents.folder, disk / "index")).report
        assert check_answers(documents, disk / "index") == len(documents.here)


def test_an_index_that_is_only_to_be_read_answers(tmp_path: Path, documents: Documents) -> None:
    index_dir = tmp_path / "index"
    assert finished(Job(documents.folder, index_dir)).report
    before = content(index_dir)
    documents.write(documents.here[0])
    with read_only(index_dir):
        assert check_answers(documents, index_dir) == len(documents.here)
        check_clean(index_dir)
        outcome = finished(Job(documents.folder, index_dir))
        assert not outcome.trace
        assert is_one_line_with_a_command(outcome.error)
        assert content(index_dir) == before
    assert finished(Job(documents.folder, index_dir)).report
    assert content(index_dir) != before


@pytest.mark.usefixtures("system_faults")
def test_a_killed_index_that_is_only_to_be_read_says_so(tmp_path: Path, documents: Documents) -> None:
    """What its log holds cannot be read without writing: never what was there before the log."""
    index_dir, twin = tmp_path / "index", tmp_path / "twin"
    calls = finished(Job(documents.folder, twin), SystemFault("count")).calls
    assert Child(Job(documents.folder, index_dir), SystemFault("kill", calls.rindex("tsu"))).outcome() is None
    log = index_dir / "passages-1.sqlite-wal"
    assert log.stat().st_size
    with read_only(index_dir):
        assert check_answers(documents, index_dir) == len(documents.here)
    (index_dir / "passages-1.sqlite-shm").unlink()
    with read_only(index_dir):
        with pytest.raises(RaglaError) as caught:
            check_answers(documents, index_dir)
        assert is_one_line_with_a_command(("", str(caught.value), caught.value.hint))


def test_an_open_reader_of_an_index_only_to_be_read_goes_on(tmp_path: Path, documents: Documents) -> None:
    index_dir = tmp_path / "index"
    assert finished(Job(documents.folder, index_dir)).report
    with read_only(index_dir), closing(Retriever.open(index_dir, HashingEmbedder())) as retriever:
        for _ in range(3):
            for item in retriever.search("ferry harbour", 5):
                documents.check(item.passage)
