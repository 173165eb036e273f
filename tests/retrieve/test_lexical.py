from __future__ import annotations

import math
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragla.retrieve.lexical import (
    TOKENIZE,
    best_matches,
    coverage,
    frequencies,
    indexed_text,
    query_tokens,
    telling,
    tokens,
    weights_of,
)


def database(*texts: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZE}')")
    connection.execute("CREATE TABLE chunks (id INTEGER PRIMARY KEY)")
    for number, text in enumerate(texts, 1):
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (number, indexed_text("", text)))
        connection.execute("INSERT INTO chunks VALUES (?)", (number,))
    return connection


TEXTS = (
    "Don't @mention multi-agent systems.",
    "差旅报销需要发票。",
    "Café prices and policies",
    "数据 data 表格",
)


def weighed(
    connection: sqlite3.Connection, words: list[str], known: dict[str, int] | None = None
) -> dict[str, float]:
    """The weights of words among all passages, as a search weighs them."""
    total = connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
    return weights_of(total, frequencies(connection, words, known))


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("@mention", 1), ("multi-agent", 1), ("don't", 1), ("报销", 2), ("报销标准是什么？", 2), ("cafe", 3),
        ("policy", 3), ("POLICIES", 3), ("ＤＡＴＡ", 4), ("票", 0), ("发", 2),
    ],
)  # fmt: skip
def test_words_of_both_languages_are_found(query: str, best: int) -> None:
    found = best_matches(database(*TEXTS), query_tokens(query), 5)
    assert next(iter(found), 0) == best


@given(st.text(alphabet="ab\"*^(){}:+-@' \x00差旅AND OR NOT NEAR", max_size=30))
@settings(deadline=None)
def test_no_question_is_a_syntax_error(query: str) -> None:
    connection = database(*TEXTS)
    weights = weighed(connection, query_tokens(query))
    best_matches(connection, list(weights), 5)
    assert all(0 <= share <= 1 + 1e-9 for share in coverage(connection, weights, [1, 2]).values())


def test_cjk_runs_become_pairs() -> None:
    assert tokens("用GPU差旅费 Booking_ref") == ["用", "gpu", "差旅", "旅费", "booking", "ref"]


def test_coverage_counts_words_nobody_has() -> None:
    connection = database("trains run daily", "boats")
    assert coverage(connection, weighed(connection, ["trains", "tungsten"]), [1])[1] < 0.5
    assert coverage(connection, weighed(connection, ["trains", "daily"]), [1])[1] == pytest.approx(1)


def test_chinese_question_words_do_not_count() -> None:
    assert query_tokens("差旅费怎么报销吗？") == ["差旅", "旅费", "报销"]
    assert query_tokens("什么？") == ["什么"]


def test_only_the_passages_allowed_are_matched() -> None:
    connection = database("boat one", "boat two", "boat boat", "tree")
    assert list(best_matches(connection, ["boat"], 9)) == [3, 1, 2]
    assert list(best_matches(connection, ["boat"], 9, [2, 4])) == [2]
    assert best_matches(connection, ["boat"], 9, []) == {}


def test_words_that_stand_everywhere_are_left_out_of_a_large_index_only() -> None:
    connection = database("the otter", "the heron")
    weights = weighed(connection, ["the", "otter"])
    assert telling(9_999, weights) == ["the", "otter"]
    everywhere = {"the": 0.01, "otter": 9.0}
    assert telling(10_000, everywhere) == ["otter"]
    assert telling(10_000, {"the": 0.01}) == ["the"]


def test_a_large_index_is_searched_for_rare_words_and_for_no_more_rows_than_pay() -> None:
    def weight(frequency: int) -> float:
        return math.log(1 + (100_000 - frequency + 0.5) / (frequency + 0.5))

    weights = {"common": weight(20_000), "often": weight(15_000), "rare": weight(10), "some": weight(9_000)}
    assert telling(100_000, weights) == ["rare", "some"]
    assert telling(100_000, {"common": weight(24_000), "often": weight(23_000)}) == ["often"]


@pytest.mark.parametrize("passages", [3, 10_001])
def test_a_large_index_covers_as_a_small_one_does(passages: int) -> None:
    connection = database("The otters swim", "Die Straße ist naß", "差旅报销需要发票")
    connection.executemany("INSERT INTO chunks VALUES (?)", ((number,) for number in range(4, passages + 1)))
    weights = {"otter": 1.0, "swimming": 2.0, "strasse": 3.0, "报销": 4.0, "发": 5.0, "absent": 5.0}
    assert coverage(connection, weights, [1, 2, 3, 77]) == pytest.approx({1: 0.15, 2: 0.15, 3: 0.45, 77: 0.0})


def test_counts_that_are_known_are_not_counted_again() -> None:
    connection = database("the otter", "the heron")
    known = {"otter": 2}
    weights = weighed(connection, ["the", "otter"], known)
    assert known == {"otter": 2, "the": 2}
    assert weights["otter"] == weights["the"]


@given(st.text(max_size=60))
def test_the_short_way_for_ascii_gives_the_same_tokens(text: str) -> None:
    plain = text.encode("ascii", "ignore").decode()
    assert [*tokens(plain), "é"] == tokens(f"{plain} é")
