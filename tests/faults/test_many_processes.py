"""Two writers and eight readers at once: one writes, the other is told, readers see whole states."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fault_children import Child, Process, finished
from fault_corpus import Documents, check_answers
from fault_jobs import Job
from fault_readers import read_until_told, write_when_told
from index_state import check_clean, content

pytestmark = pytest.mark.usefixtures("children")

READERS = 8
VERSIONS = 5


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    made = Documents(tmp_path / "docs", seed=21)
    made.fill(6)
    return made


@pytest.mark.parametrize("verb", ["update", "rebuild"])
def test_two_writers_and_eight_readers(tmp_path: Path, documents: Documents, verb: str) -> None:
    """Half of the readers keep the index open, half open it for every question."""
    index_dir = tmp_path / "index"
    assert finished(Job(documents.folder, index_dir)).report
    names = documents.here
    for _ in range(VERSIONS):  # all versions are known before anybody reads
        for name in names:
            documents.write(name, 3)
    readers = [
        Process(
            read_until_told, index_dir, documents.versions, "harbour ferry keel paragraph", bool(number % 2)
        )
        for number in range(READERS)
    ]
    outcomes = []
    for version in range(1, VERSIONS + 1):
        for name in names:
            (documents.folder / name).write_text(documents.versions[name][version], encoding="utf-8")
        writers = [Process(write_when_told, documents.folder, index_dir, verb) for _ in range(2)]
        moment = time.time() + 0.05
        for writer in writers:
            writer.pipe.send(moment)
        outcomes.append(sorted(writer.ended() for writer in writers))
    for reader in readers:
        reader.pipe.send("stop")
    told = [reader.ended() for reader in readers]
    assert [one for one in told if isinstance(one, str)] == []
    # one wins; the other is told, or came after the first had finished
    assert all(outcome in (["", "IndexLocked"], ["", ""]) for outcome in outcomes), outcomes
    assert ["", "IndexLocked"] in outcomes
    assert all(searches > VERSIONS for searches, _ in told)
    assert max(len(seen) for _, seen in told) > len(names), "no reader saw two versions"
    assert finished(Job(documents.folder, index_dir)).report
    assert check_answers(documents, index_dir) == len(names)
    check_clean(index_dir)


def test_two_first_runs_at_once_make_one_index(tmp_path: Path, documents: Documents) -> None:
    for number in range(5):
        index_dir = tmp_path / f"index{number}"
        writers = [Process(write_when_told, documents.folder, index_dir, "update") for _ in range(3)]
        for writer in writers:
            writer.pipe.send(time.time() + 0.05)
        outcomes = [writer.ended() for writer in writers]
        assert "" in outcomes
        assert set(outcomes) <= {"", "IndexLocked"}, outcomes
        assert content(index_dir) == content(tmp_path / "index0")


def test_a_killed_writer_leaves_no_lock_behind(tmp_path: Path, documents: Documents) -> None:
    index_dir = tmp_path / "index"
    seconds = finished(Job(documents.folder, index_dir)).seconds
    documents.change_some()
    assert Child(Job(documents.folder, index_dir)).kill_after(seconds / 4) is None
    assert (index_dir / "index.lock").exists()
    assert finished(Job(documents.folder, index_dir)).report
