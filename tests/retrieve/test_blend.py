from __future__ import annotations

import pytest

from ragla.retrieve.blend import DENSE_SHARE, Evidence, blend

IDS = [1, 2, 3]
COSINES = {1: 0.9, 2: 0.3, 3: 0.1}
BM25 = {2: 8.0, 3: 4.0}
COVERED = {1: 0.0, 2: 1.0, 3: 0.5}


def order(evidence: Evidence) -> list[int]:
    return [part.chunk_id for part in blend(IDS, COSINES, BM25, COVERED, evidence)]


def test_a_dense_search_that_cannot_read_has_no_say() -> None:
    for blind in (Evidence(0.0, 1.0, 0.0), Evidence(1.0, 0.1, 0.0)):
        assert blind.trust == 0.0
        assert order(blind) == [2, 3, 1]


def test_one_that_can_read_has_most_of_it() -> None:
    evidence = Evidence(1.0, 1.0, 0.0)
    assert evidence.trust == DENSE_SHARE
    assert order(evidence) == [2, 1, 3]
    parts = {part.chunk_id: part for part in blend(IDS, COSINES, BM25, COVERED, evidence)}
    assert parts[1].score == pytest.approx(DENSE_SHARE * 0.9)
    assert parts[2].score == pytest.approx(DENSE_SHARE * 0.3 + (1 - DENSE_SHARE) * 1.0)
    assert parts[3].lexical == pytest.approx((0.5 + 4 / 8 * 1.0) / 2)


def test_what_a_question_shares_with_everything_does_not_count() -> None:
    parts = blend(IDS, COSINES, {}, dict.fromkeys(IDS, 0.0), Evidence(1.0, 1.0, 0.8))
    assert [part.dense for part in parts] == [pytest.approx(0.5), 0.0, 0.0]


def test_no_word_found_anywhere() -> None:
    parts = blend(IDS, COSINES, {}, dict.fromkeys(IDS, 0.0), Evidence(1.0, 1.0, 0.0))
    assert [part.chunk_id for part in parts] == [1, 2, 3]
    assert all(part.lexical == 0.0 for part in parts)
