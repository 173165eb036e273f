"""The seam between the file of earlier answers, a drafter and an index."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragla.answer import Answer
from ragla.decode.stats import DecodeStats
from ragla.earlier import EarlierAnswers, forget_stale
from ragla.retrieve.store import FileRecord, IndexedFile, Store
from ragla.trie import Answers, Drafter, DraftLimits
from ragla.trie.answer_file import FILE_NAME
from ragla.trie.answer_store import AnswerStore
from ragla.trie.answers import answer_name

ANSWER = [1, 2, 3, 4, 5, 6]
NAME = answer_name(ANSWER)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index of two documents, numbered 1 and 2."""
    with closing(Store.write(tmp_path / "passages-1.sqlite", {})) as store:
        for name in ("a", "b"):
            record = FileRecord(f"/{name}", "/", name, 1, 0, 0, 0, 0, f"digest {name}", "indexed", None)
            store.put([IndexedFile(record, "text", [], [])])  # type: ignore[arg-type]
    (tmp_path / "current").write_text("passages-1.sqlite")
    return tmp_path


class Documents:
    """The part of a retriever that is asked which documents there are."""

    def __init__(self, *names: str) -> None:
        self.here = {number: (f"/{name}", f"digest {name}") for number, name in enumerate(names, 1)}

    def documents(self, ids: list[int]) -> list[tuple[str, str]]:
        return [self.here[number] for number in ids if number in self.here]


BOTH: Any = Documents("a", "b")


def earlier(index: Path, max_nodes: int = 1000) -> tuple[EarlierAnswers, Drafter]:
    """What a new process recalls."""
    drafter = Drafter(8, Answers(8, max_nodes) if max_nodes else None)
    answers = EarlierAnswers(drafter, "t", "m", vocabulary=100)
    answers.recall(index)
    return answers, drafter


def answered(drafter: Drafter, token_ids: list[int], *documents: int) -> Answer:
    """An answer decoded one token a step, as ``Answerer`` leaves it."""
    drafter.begin([90, token_ids[0]])
    for before, token in zip([90, *token_ids], token_ids, strict=False):
        tree = drafter.draft(before, DraftLimits(budget=2))
        hit = len(tree) > 1 and tree.token_ids[1] == token
        drafter.learn(tree, [1] if hit else [])
        drafter.commit([token])
        drafter.recycle([before], [[token, 50]])
    drafter.end(token_ids)
    stats = DecodeStats(tokens=len(token_ids))
    return Answer("", "", True, token_ids, stats=stats, document_ids=frozenset(documents), kept=True)


def test_a_later_process_knows_what_this_one_learned(index: Path) -> None:
    first, drafter = earlier(index)
    assert first.notice is None
    assert first.keep(answered(drafter, ANSWER, 1, 2), BOTH) is None
    first.close()
    second, later = earlier(index)
    assert later.answers is not None
    assert later.learned() == drafter.learned() != Drafter(8, Answers(8, 9)).learned()
    assert list(later.ranks.items()) == [(token, list(best)) for token, best in drafter.ranks.items()]
    assert {name: kept.token_ids for name, kept in later.answers.kept.items()} == {NAME: tuple(ANSWER)}
    later.begin([90, 3])
    assert later.draft(3, DraftLimits(budget=4)).token_ids == [3, 4, 5, 6]
    second.close()


def test_uses_and_new_ranks_are_added_each_time(index: Path) -> None:
    answers, drafter = earlier(index)
    for _ in range(3):
        assert answers.keep(answered(drafter, ANSWER, 1), BOTH) is None
    drafter.recycle([42], [[43]])
    answers.keep(answered(drafter, [7, 8, 9], 2), BOTH)
    answers.close()
    with closing(AnswerStore.open(index)) as store:
        found = {answer.name: answer for answer in store.answers("t")}
        assert store.ranks("m", 100)[42] == [43]
    assert found[NAME].uses > 2 * 4
    assert found[NAME].documents == (("/a", "digest a"),)
    assert found[answer_name([7, 8, 9])].documents == (("/b", "digest b"),)


def test_nothing_is_kept_of_a_document_that_was_changed_meanwhile(index: Path) -> None:
    answers, drafter = earlier(index)
    one: Any = Documents("a")
    assert answers.keep(answered(drafter, ANSWER, 1, 2), one) is None
    answers.close()
    with closing(AnswerStore.open(index)) as store:
        assert (store.answers(), store.ranks("m", 100), store.beliefs("m")) == ([], {}, {})


def test_an_answer_that_is_not_kept_still_teaches(index: Path) -> None:
    answers, drafter = earlier(index)
    answers.keep(replace(answered(drafter, ANSWER, 1), kept=False), BOTH)
    answers.close()
    with closing(AnswerStore.open(index)) as store:
        assert store.answers() == []
        assert store.ranks("m", 100)
        assert store.beliefs("m") == drafter.learned()


def test_without_a_trie_of_answers_ranks_and_beliefs_are_kept(index: Path) -> None:
    answers, drafter = earlier(index, max_nodes=0)
    answers.keep(replace(answered(drafter, ANSWER, 1), kept=False), BOTH)
    answers.close()
    _, later = earlier(index, max_nodes=0)
    assert list(later.ranks) == list(drafter.ranks)


def test_an_answer_longer_than_the_trie_holds_is_kept_whole(index: Path) -> None:
    answers, drafter = earlier(index, max_nodes=20)
    answers.keep(answered(drafter, ANSWER, 1), BOTH)
    answers.close()
    with closing(AnswerStore.open(index)) as store:
        assert [answer.token_ids for answer in store.answers()] == [tuple(ANSWER)]


def test_where_nothing_was_decoded_nothing_is_kept(index: Path) -> None:
    answers, _ = earlier(index)
    assert answers.keep(Answer("", "", False), BOTH) is None
    answers.close()
    with closing(AnswerStore.open(index)) as store:
        assert store.beliefs("m") == {}


def test_what_came_of_a_document_leaves_with_it(index: Path) -> None:
    answers, drafter = earlier(index)
    answers.keep(answered(drafter, ANSWER, 1), BOTH)
    answers.keep(answered(drafter, [7, 8, 9], 2), BOTH)
    answers.close()
    assert forget_stale(index) == (0, None)
    with closing(Store.write(index / "passages-1.sqlite", {})) as store:
        store.remove(["/a"])
    assert forget_stale(index) == (1, None)
    assert forget_stale(index) == (0, None)
    _, later = earlier(index)
    assert later.answers is not None
    assert list(later.answers.kept) == [answer_name([7, 8, 9])]
    assert later.ranks == {}


def test_where_nothing_was_kept_nothing_is_made(index: Path) -> None:
    assert forget_stale(index) == (0, None)
    assert not (index / FILE_NAME).exists()


def test_without_an_index_nothing_is_recalled(tmp_path: Path) -> None:
    """For it could not be known whether the documents are still there."""
    answers, drafter = earlier(tmp_path)
    assert answers.notice is None  # nothing was kept, so nothing had to be looked up
    answers.keep(answered(drafter, ANSWER, 1), BOTH)
    answers.close()
    answers, drafter = earlier(tmp_path)
    assert answers.notice is not None
    assert "no index here" in answers.notice
    assert drafter.answers is not None
    assert drafter.answers.kept == {}
    count, problem = forget_stale(tmp_path)
    assert count == 0
    assert "earlier answers could not be checked" in (problem or "")


def test_a_file_that_fails_on_the_way_is_a_line_not_an_error(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, drafter = earlier(index)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(AnswerStore, "_put_ranks", full)
    problem = answers.keep(answered(drafter, ANSWER, 1), BOTH)
    assert problem == "this answer is not kept for later ones: database or disk is full"
    answers.close()
    with closing(AnswerStore.open(index)) as store:
        assert store.answers() == []
