"""A file of earlier answers that cannot be trusted is made anew; of a wrong row nothing is believed."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie.answer_file import FILE_NAME, SCHEMA_VERSION
from ragla.trie.answer_rows import StoredAnswer
from ragla.trie.answer_store import AnswerStore, Lesson
from ragla.trie.answers import answer_name
from tests.trie.stored_answers import VOCABULARY, files, lesson, secret


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    with closing(AnswerStore.open(tmp_path)) as opened:
        yield opened


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
