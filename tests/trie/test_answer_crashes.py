"""The file of earlier answers when processes die, compete or find no room."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ragla.trie.answer_file import FILE_NAME
from ragla.trie.answer_store import AnswerStore
from tests.trie.stored_answers import contents, lesson


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    with closing(AnswerStore.open(tmp_path)) as opened:
        yield opened


SAVE_FOR_EVER = """
import sys
from pathlib import Path
from ragla.trie.answer_store import AnswerStore, Lesson, StoredAnswer
from ragla.trie.answers import answer_name
store = AnswerStore.open(Path(sys.argv[1]), wait_s=60)  # a busy machine is no failure
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    ids = tuple(range(number, number + 50))
    ranks = {token: [token + number] for token in range(500)}
    documents = (("/a", "1"),)
    answer = StoredAnswer(answer_name(ids), ids, 0, float(number), documents)
    store.save(Lesson("t", "m", answer, {}, {"b": [0.5] * 40}, ranks, documents))
    print(number, flush=True)
"""


def saving(folder: Path, start: int, end: int) -> subprocess.Popen[str]:
    """A process that keeps answers and says which are kept."""
    command = [sys.executable, "-c", SAVE_FOR_EVER, str(folder), str(start), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_process_loses_nothing_that_it_kept(tmp_path: Path) -> None:
    """Killed at some moment, eight times over; what was kept before is whole, and at most one more."""
    kept = 0
    chance = random.Random(7)
    for _ in range(8):
        with saving(tmp_path, kept, kept + 10_000) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(2, 12)):
                kept = int(process.stdout.readline()) + 1
            os.kill(process.pid, signal.SIGKILL)
            kept += len(process.stdout.read().splitlines())
        with closing(AnswerStore.open(tmp_path)) as store:
            found = store.answers("t", 1 << 20)
            numbers = sorted(answer.token_ids[0] for answer in found)
            assert numbers in (list(range(kept)), list(range(kept + 1)))
            assert all(answer.documents == (("/a", "1"),) for answer in found)
            assert len(store.ranks("m", 1 << 20)) == 500
            kept = len(numbers)


def test_several_processes_keep_answers_at_once(tmp_path: Path) -> None:
    """All begin without a file, so they also race to make it."""
    processes = [saving(tmp_path, 1000 * number, 1000 * number + 20) for number in range(4)]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert errors == [""] * len(processes)
    assert [process.returncode for process in processes] == [0] * len(processes)
    with closing(AnswerStore.open(tmp_path)) as store:
        numbers = {answer.token_ids[0] for answer in store.answers("t", 1 << 20)}
    assert numbers == {1000 * number + place for number in range(4) for place in range(20)}


def test_a_lock_that_lasts_is_an_error_soon_and_changes_nothing(tmp_path: Path) -> None:
    with closing(AnswerStore.open(tmp_path, wait_s=0.05)) as store:
        store.save(lesson(1, 2))
        with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                store.save(lesson(3, 4))
            assert contents(store) == [(1, 2)]
            with closing(AnswerStore.open(tmp_path, wait_s=0.05)) as third:
                assert contents(third) == [(1, 2)]
        store.save(lesson(3, 4))
        assert len(contents(store)) == 2


def test_a_full_disk_changes_nothing(store: AnswerStore) -> None:
    store.save(lesson(1, 2, ranks={1: [2]}))
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.save(lesson(*range(60_000), ranks={1: [3]}))
    assert (contents(store), store.ranks("m", 9)) == ([(1, 2)], {1: [2]})


def test_an_interrupt_changes_nothing(store: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(lesson(1, 2))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_put_ranks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.save(lesson(3, 4))
    assert contents(store) == [(1, 2)]
    store.save(lesson(3, 4))
    assert len(contents(store)) == 2


@pytest.mark.parametrize("what", ["no folder", "a file for a folder", "a folder for the file"])
def test_where_nothing_can_be_kept_it_is_an_error_of_the_two_documented(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "index"
    if what == "a file for a folder":
        folder.write_text("")
    elif what == "a folder for the file":
        (folder / FILE_NAME).mkdir(parents=True)
    with pytest.raises((sqlite3.Error, OSError)):
        AnswerStore.open(folder)
    assert not (what == "no folder" and folder.exists())


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody may read and nobody but root may write."""
    hidden = {path: path.stat().st_mode for path in tmp_path.parents if path.stat().st_mode & 5 != 5}
    with closing(AnswerStore.open(tmp_path)) as store:
        store.save(lesson(1, 2))
    for path, mode in hidden.items():
        path.chmod(mode | 0o055)
    tmp_path.chmod(0o555)
    yield tmp_path
    tmp_path.chmod(0o755)
    for path, mode in hidden.items():
        path.chmod(mode)


OPEN_AS_NOBODY = """
import os, sqlite3, sys
from pathlib import Path
from ragla.trie.answer_store import AnswerStore
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
try:
    AnswerStore.open(Path(sys.argv[1]))
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions as Unix has them")
def test_a_folder_that_may_not_be_written(closed_folder: Path) -> None:
    command = [sys.executable, "-c", OPEN_AS_NOBODY, str(closed_folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in (
        "attempt to write a readonly database", "unable to open database file",
    )  # fmt: skip
    closed_folder.chmod(0o755)
    with closing(AnswerStore.open(closed_folder)) as store:
        assert contents(store) == [(1, 2)]
