"""Earlier answers on disk: round trips, caps, crashes, neighbours, damage, and nothing left of what left."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import answer_store
from ragla.trie.answer_file import FILE_NAME, SCHEMA_VERSION
from ragla.trie.answer_store import MOST_MODELS, MOST_RANKED, AnswerStore, Lesson, StoredAnswer
from ragla.trie.answers import MOST_USES, answer_name, packed

IDS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20).map(tuple)
DOCUMENT = ("/docs/a.md", "aa")
VOCABULARY = 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    with closing(AnswerStore.open(tmp_path)) as opened:
        yield opened


def lesson(*token_ids: int, uses: int = 0, last_used: float = 1.0, **more: Any) -> Lesson:
    """The lesson of one answer, made from one document."""
    documents = more.pop("documents", (DOCUMENT,))
    answer = StoredAnswer(answer_name(token_ids), token_ids, uses, last_used, documents)
    return Lesson(**{"tokenizer": "t", "model": "m", "answer": answer, "documents": documents} | more)


def contents(store: AnswerStore) -> list[tuple[int, ...]]:
    return [answer.token_ids for answer in store.answers("t")]


def files(folder: Path) -> bytes:
    """All bytes of the store's files."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(FILE_NAME + "*")))


# --- round trips ----------------------------------------------------------------------------------

NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5)
RANKS = st.dictionaries(
    st.integers(0, VOCABULARY - 1), st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8)
)
DOCUMENTS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8")), st.text("abcdef", max_size=3)), max_size=3, unique=True
)


@given(
    st.lists(st.tuples(IDS, st.integers(0, 9), st.floats(0, 1e10), DOCUMENTS), max_size=5),
    st.dictionaries(st.text("abc", max_size=3), NUMBERS, max_size=3),
    RANKS,
)
def test_what_is_saved_is_read_again(
    answers: list[tuple[tuple[int, ...], int, float, list[tuple[str, str]]]],
    beliefs: dict[str, list[float]],
    ranks: dict[int, list[int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            answer_name(ids): StoredAnswer(answer_name(ids), ids, uses, when, tuple(documents))
            for ids, uses, when, documents in answers
        }
        with closing(AnswerStore.open(Path(folder))) as store:
            for answer in kept.values():
                store.save(Lesson("t", "m", answer))
            store.save(Lesson("t", "m", beliefs=beliefs, ranks=ranks))
        with closing(AnswerStore.open(Path(folder))) as store:
            found = store.answers("t")
            assert {answer.name: answer for answer in found} == {
                name: StoredAnswer(name, a.token_ids, a.uses, a.last_used, tuple(sorted(a.documents)), "t")
                for name, a in kept.items()
            }
            order = [(answer.uses, answer.last_used) for answer in found]
            assert order == sorted(order, reverse=True)
            assert store.beliefs("m") == beliefs
            assert list(store.ranks("m", VOCABULARY).items()) == list(ranks.items())
            assert store.documents() == {path for a in kept.values() for path, _ in a.documents}


def test_an_index_without_answers_has_none(store: AnswerStore) -> None:
    assert (store.answers(), store.beliefs("m"), store.ranks("m", 9), store.documents()) == (
        [],
        {},
        {},
        set(),
    )
    assert (store.remove("x"), store.clear(), store.drop_stale({})) == (0, 0, 0)


def test_answers_belong_to_a_tokenizer_beliefs_and_ranks_to_a_model(store: AnswerStore) -> None:
    store.save(lesson(1, 2, beliefs={"b": [0.5]}, ranks={1: [2]}))
    store.save(lesson(1, 2, 3, tokenizer="other", model="n", beliefs={"b": [0.25]}, ranks={1: [3]}))
    assert contents(store) == [(1, 2)]
    assert [answer.token_ids for answer in store.answers("other")] == [(1, 2, 3)]
    assert len(store.answers()) == 2
    assert (store.beliefs("m"), store.beliefs("n")) == ({"b": [0.5]}, {"b": [0.25]})
    assert (store.ranks("m", 9), store.ranks("n", 9)) == ({1: [2]}, {1: [3]})


def test_the_same_answer_is_kept_once_with_all_its_documents(store: AnswerStore) -> None:
    store.save(lesson(1, 2, uses=3))
    store.save(lesson(1, 2, last_used=9.0, documents=(("/docs/b.md", "bb"),)))
    [answer] = store.answers("t")
    assert (answer.uses, answer.last_used) == (3, 9.0)
    assert answer.documents == (DOCUMENT, ("/docs/b.md", "bb"))


def test_uses_are_added_to_those_another_process_counted(store: AnswerStore, tmp_path: Path) -> None:
    name = answer_name((1, 2))
    store.save(lesson(1, 2))
    with closing(AnswerStore.open(tmp_path)) as other:
        other.save(Lesson("t", "m", uses={name: 5, "unknown": 1}))
        store.save(Lesson("t", "m", uses={name: 7}))
    [answer] = store.answers()
    assert answer.uses == 12
    assert answer.last_used > 1.0


def test_ranks_of_two_processes_are_joined(store: AnswerStore) -> None:
    store.save(Lesson("t", "m", ranks={1: [2], 3: [4], 5: [6]}))
    store.save(Lesson("t", "m", ranks={3: [9], 7: [8]}))
    assert list(store.ranks("m", VOCABULARY).items()) == [(1, [2]), (5, [6]), (3, [9]), (7, [8])]


# --- caps -----------------------------------------------------------------------------------------


@pytest.fixture
def small_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_store, "MOST_TOKENS", 6)
    monkeypatch.setattr(answer_store, "MOST_RANKED", 5)


@pytest.mark.usefixtures("small_caps")
def test_the_least_used_answer_leaves_and_a_new_one_starts_level_with_it(store: AnswerStore) -> None:
    for token, uses in ((1, 4), (2, 3), (3, 5)):
        store.save(lesson(token, token, uses=uses, last_used=float(token)))
    store.save(lesson(9, 9, last_used=99.0))
    assert [(answer.token_ids, answer.uses) for answer in store.answers("t")] == [
        ((3, 3), 5), ((1, 1), 4), ((9, 9), 3),
    ]  # fmt: skip
    store.save(lesson(8, 8, last_used=100.0))
    assert contents(store) == [(3, 3), (1, 1), (8, 8)]


@pytest.mark.usefixtures("small_caps")
def test_among_equals_the_longest_unused_leaves(store: AnswerStore) -> None:
    for token, last_used in ((1, 3.0), (2, 1.0), (3, 2.0)):
        store.save(lesson(token, token, last_used=last_used))
    store.save(lesson(9, 9, last_used=99.0))
    assert contents(store) == [(9, 9), (1, 1), (3, 3)]


@pytest.mark.usefixtures("small_caps")
def test_an_answer_larger_than_the_cap_is_not_kept(store: AnswerStore) -> None:
    store.save(lesson(1, 2))
    store.save(lesson(*range(7)))
    store.save(lesson())
    assert contents(store) == [(1, 2)]


@given(st.lists(st.tuples(IDS, st.integers(0, 400)), max_size=12))
def test_the_caps_hold_whatever_is_kept(answers: list[tuple[tuple[int, ...], int]]) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        closing(AnswerStore.open(Path(folder))) as store,
    ):
        patch.setattr(answer_store, "MOST_TOKENS", 30)
        for ids, uses in answers:
            store.save(lesson(*ids, uses=uses))
            kept = store.answers()
            assert sum(len(answer.token_ids) for answer in kept) <= 30
            assert all(answer.uses <= MOST_USES for answer in kept)
            assert ids in contents(store)


def test_uses_fade(store: AnswerStore) -> None:
    store.save(lesson(1, uses=MOST_USES))
    store.save(lesson(2, uses=7))
    assert [answer.uses for answer in store.answers()] == [MOST_USES, 7]
    store.save(Lesson("t", "m", uses={answer_name((1,)): 1}))
    assert [answer.uses for answer in store.answers()] == [MOST_USES // 2, 3]


@pytest.mark.usefixtures("small_caps")
def test_the_oldest_ranks_leave_first(store: AnswerStore) -> None:
    store.save(Lesson("t", "m", ranks={token: [token] for token in range(4)}))
    store.save(Lesson("t", "n", ranks={0: [0]}))
    store.save(Lesson("t", "m", ranks={1: [9], 7: [7]}))
    assert store.ranks("m", VOCABULARY) == {2: [2], 3: [3], 1: [9], 7: [7]}
    assert store.ranks("n", VOCABULARY) == {0: [0]}


def test_as_many_ranks_as_a_drafter_holds_are_kept(store: AnswerStore) -> None:
    store.save(Lesson("t", "m", ranks={token: [token + 1] for token in range(MOST_RANKED + 10)}))
    assert list(store.ranks("m", 1 << 20)) == list(range(10, MOST_RANKED + 10))


def test_beliefs_of_the_last_models_are_kept(store: AnswerStore) -> None:
    for model in range(MOST_MODELS + 3):
        store.save(Lesson("t", str(model), beliefs={"a": [0.5], "b": [0.5]}))
    kept = [model for model in range(MOST_MODELS + 3) if store.beliefs(str(model))]
    assert kept == list(range(3, MOST_MODELS + 3))


# --- documents that change or go ------------------------------------------------------------------


def test_what_was_made_from_a_document_leaves_with_it(store: AnswerStore) -> None:
    store.save(lesson(1, 1, documents=(("/a", "1"),), ranks={1: [1]}, beliefs={"b": [0.5]}))
    store.save(lesson(2, 2, documents=(("/a", "1"), ("/b", "1"))))
    store.save(lesson(3, 3, documents=(("/b", "1"),)))
    assert store.documents() == {"/a", "/b"}
    assert store.drop_stale({"/a": "1", "/b": "1", "/c": "1"}) == 0
    assert len(contents(store)) == 3
    assert store.ranks("m", 9) == {1: [1]}
    assert store.drop_stale({"/b": "1"}) == 2
    assert contents(store) == [(3, 3)]
    assert (store.ranks("m", 9), store.beliefs("m")) == ({}, {"b": [0.5]})
    assert store.drop_stale({"/b": "2"}) == 1
    assert (contents(store), store.documents()) == ([], set())


def test_ranks_leave_with_a_document_that_no_answer_was_kept_of(store: AnswerStore) -> None:
    store.save(lesson(1, 1, documents=(("/a", "1"),), ranks={1: [1]}))
    store.save(Lesson("t", "m", ranks={2: [2]}, documents=(("/b", "1"),)))
    assert store.drop_stale({"/a": "1"}) == 0
    assert (contents(store), store.ranks("m", 9)) == ([(1, 1)], {})


def secret(seed: int, length: int = 300) -> tuple[int, ...]:
    return tuple(random.Random(seed).randrange(1 << 30) for _ in range(length))


@pytest.mark.parametrize("how", ["drop", "remove", "clear", "crowd out"])
def test_no_byte_of_what_left_stays_in_the_file(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = secret(1), secret(2)
    with closing(AnswerStore.open(tmp_path)) as store:
        store.save(lesson(*gone, documents=(("/gone", "1"),), ranks={5: gone[:8]}))
        for other in range(3, 30):
            store.save(lesson(*secret(other), documents=(("/other", "1"),)))
        store.save(lesson(*kept, uses=1))
        fragments = [packed(gone[start : start + 3]) for start in range(0, 300, 3)]
        assert all(fragment in files(tmp_path) for fragment in fragments)
        if how == "drop":
            store.drop_stale(dict([("/other", "1"), DOCUMENT]))
        elif how == "remove":
            assert store.remove(answer_name(gone)) == 1
        elif how == "clear":
            assert store.clear() == 29
        else:
            monkeypatch.setattr(answer_store, "MOST_TOKENS", 600)
            store.save(lesson(*secret(99), ranks={5: [1]}))
    assert not any(fragment in files(tmp_path) for fragment in fragments)
    assert (packed(kept[:3]) in files(tmp_path)) == (how != "clear")


def test_clearing_leaves_nothing(store: AnswerStore) -> None:
    store.save(lesson(1, 2, ranks={1: [2]}, beliefs={"b": [0.5]}))
    assert store.clear() == 1
    assert (store.answers(), store.beliefs("m"), store.ranks("m", 9), store.documents()) == (
        [],
        {},
        {},
        set(),
    )


# --- crashes and neighbours -----------------------------------------------------------------------

SAVE_FOR_EVER = """
import sys
from pathlib import Path
from ragla.trie.answer_store import AnswerStore, Lesson, StoredAnswer
from ragla.trie.answers import answer_name
store = AnswerStore.open(Path(sys.argv[1]))
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
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
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


# --- damage ---------------------------------------------------------------------------------------


@functools.cache
def pages() -> bytes:
    """A file with some pages of answers."""
    with tempfile.TemporaryDirectory() as folder:
        with closing(AnswerStore.open(Path(folder))) as store:
            for number in range(40):
                store.save(lesson(*secret(number), ranks={number: [number]}, beliefs={"b": [0.5]}))
        return files(Path(folder))


def filled(folder: Path) -> Path:
    """That file in a folder of its own."""
    path = folder / FILE_NAME
    path.write_bytes(pages())
    return path


def usable(folder: Path) -> list[StoredAnswer]:
    """What is found; that the file takes new answers."""
    with closing(AnswerStore.open(folder)) as store:
        found = store.answers()
        store.save(lesson(123, 456))
        assert answer_name((123, 456)) in {answer.name for answer in store.answers()}
    with closing(AnswerStore.open(folder)) as store:
        assert answer_name((123, 456)) in {answer.name for answer in store.answers()}
    return found


def write_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE answers (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO answers VALUES (1, 'secret')")
        connection.commit()


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def overwrite(path: Path, start: float) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(int(size * start))
        file.write(b"\xa5" * (size // 4))


REFUSED = {
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_bytes(b"no database" * 1000),
    "half a header": lambda path: os.truncate(path, 50),
    "truncated": lambda path: cut(path, 0.5),
    "a page short": lambda path: os.truncate(path, path.stat().st_size - 4096),
    "header overwritten": lambda path: overwrite(path, 0.0),
    "another program's": lambda path: (path.unlink(), write_foreign(path)),
    "another program's name": lambda path: alter(path, "PRAGMA application_id = 7"),
    "a newer schema": lambda path: alter(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}"),
    "a column more": lambda path: alter(path, "ALTER TABLE answers ADD COLUMN more"),
    "a table less": lambda path: alter(path, "DROP TABLE ranked_from"),
    "a trigger": lambda path: alter(path, "CREATE TRIGGER x AFTER INSERT ON answers BEGIN SELECT 1; END"),
}


@pytest.mark.parametrize("damage", REFUSED.values(), ids=REFUSED)
def test_a_file_that_cannot_be_trusted_is_made_anew(tmp_path: Path, damage: Any) -> None:
    path = filled(tmp_path)
    damage(path)
    assert usable(tmp_path) == []
    assert b"secret" not in files(tmp_path)
    assert [found.name for found in tmp_path.iterdir()] == [FILE_NAME]


@given(st.data())
def test_whatever_bytes_are_overwritten_what_is_read_was_written(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = filled(Path(name))
        size = path.stat().st_size
        start = data.draw(st.integers(0, size - 1))
        garbage = data.draw(st.binary(min_size=1, max_size=200))
        with path.open("r+b") as file:
            file.seek(start)
            file.write(garbage)
        written = {secret(number) for number in range(40)}
        try:
            found = usable(Path(name))
        except sqlite3.DatabaseError:
            found = usable(Path(name))  # found late, and made anew the next time
        assert {answer.token_ids for answer in found} <= written


def test_a_log_of_another_file_does_no_harm(tmp_path: Path) -> None:
    path = filled(tmp_path)
    path.with_name(path.name + "-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(range(256)) * 50)
    assert len(usable(tmp_path)) == 40


WRONG_ANSWERS = {
    "blob of another length": "UPDATE answers SET token_ids = x'0102' WHERE id = 1",
    "other ids": "UPDATE answers SET token_ids = x'01000000' WHERE id = 1",
    "empty": "UPDATE answers SET token_ids = x'' WHERE id = 1",
    "text": "UPDATE answers SET token_ids = 'abcd' WHERE id = 1",
    "negative uses": "UPDATE answers SET uses = -1 WHERE id = 1",
    "uses that are text": "UPDATE answers SET uses = 'many' WHERE id = 1",
    "endless time": "UPDATE answers SET last_used = 9e999 WHERE id = 1",
    "time that is a blob": "UPDATE answers SET last_used = x'00' WHERE id = 1",
    "name that is a blob": "UPDATE answers SET name = x'ff' WHERE id = 1",
    "negative id": (
        "UPDATE answers SET token_ids = x'ffffffff',"
        f" checksum = x'{sha256(bytes([255] * 4)).hexdigest()}' WHERE id = 1"
    ),
}


@pytest.mark.parametrize("statement", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_an_answer_with_a_wrong_value_is_dropped(tmp_path: Path, statement: str) -> None:
    with closing(AnswerStore.open(tmp_path)) as store:
        store.save(lesson(1, 2))
        store.save(lesson(3, 4))
    alter(tmp_path / FILE_NAME, statement)
    with closing(AnswerStore.open(tmp_path)) as store:
        assert [answer.token_ids for answer in store.answers()] == [(3, 4)]
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("SELECT count(*) FROM answers").fetchone() == (1,)


def test_ids_beyond_the_vocabulary_are_not_read(store: AnswerStore) -> None:
    store.save(lesson(1, 99, ranks={1: [99], 98: [1], 99: [1]}))
    assert [answer.token_ids for answer in store.answers("t", 100)] == [(1, 99)]
    assert store.ranks("m", 99) == {98: [1]}
    assert store.answers("t", 99) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ranks SET best_ids = x'01'", "UPDATE ranks SET best_ids = ''", "UPDATE ranks SET token = -1",
        "UPDATE ranks SET best_ids = zeroblob(36)", "UPDATE ranks SET token = 'x'",
        "UPDATE ranks SET best_ids = x'ffffffff'", "UPDATE ranks SET best_ids = 1.5",
    ],
)  # fmt: skip
def test_wrong_ranks_are_not_read(tmp_path: Path, statement: str) -> None:
    with closing(AnswerStore.open(tmp_path)) as store:
        store.save(Lesson("t", "m", ranks={1: [2]}))
    alter(tmp_path / FILE_NAME, statement)
    with closing(AnswerStore.open(tmp_path)) as store:
        assert store.ranks("m", VOCABULARY) == {}


@pytest.mark.parametrize(
    "numbers",
    ["", "{", "{}", "null", "[NaN]", "[Infinity]", "[1]", "[true]", '["0.5"]', "[[0.5]]", "[" * 100_000],
)
def test_beliefs_that_are_no_lists_of_numbers_are_not_read(tmp_path: Path, numbers: str) -> None:
    with closing(AnswerStore.open(tmp_path)) as store:
        store.save(Lesson("t", "m", beliefs={"good": [0.5], "bad": [0.5]}))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("UPDATE beliefs SET numbers = ? WHERE name = 'bad'", (numbers,))
        connection.commit()
    with closing(AnswerStore.open(tmp_path)) as store:
        assert store.beliefs("m") == {"good": [0.5]}


def test_nothing_in_it_is_code(tmp_path: Path) -> None:
    """Token ids are numbers, beliefs JSON; nothing is unpickled."""
    with closing(AnswerStore.open(tmp_path)) as store:
        store.save(lesson(1, 2, beliefs={"b": [0.5]}, ranks={1: [2]}))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("SELECT token_ids FROM answers").fetchone() == (b"\1\0\0\0\2\0\0\0",)
        assert json.loads(connection.execute("SELECT numbers FROM beliefs").fetchone()[0]) == [0.5]
        assert connection.execute("SELECT token, best_ids FROM ranks").fetchone() == (1, b"\2\0\0\0")
