"""Earlier answers on disk: round trips, caps, and nothing left of what left."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import answer_store
from ragla.trie.answer_rows import StoredAnswer
from ragla.trie.answer_store import MOST_MODELS, MOST_RANKED, AnswerStore, Lesson
from ragla.trie.answers import MOST_USES, answer_name, packed
from tests.trie.stored_answers import DOCUMENT, VOCABULARY, contents, files, lesson, secret

IDS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20).map(tuple)
NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5)
RANKS = st.dictionaries(
    st.integers(0, VOCABULARY - 1), st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8)
)
DOCUMENTS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8")), st.text("abcdef", max_size=3)), max_size=3, unique=True
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    with closing(AnswerStore.open(tmp_path)) as opened:
        yield opened


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
