from __future__ import annotations

import math

import pytest

from ragla.evaluate.measures import Ranks, Refusal, faithfulness, quality


def test_ranks_by_hand() -> None:
    found = Ranks.of([1, 2, 4, 11, None])
    assert (found.recall_at_1, found.recall_at_3, found.recall_at_5) == (0.2, 0.4, 0.6)
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 11) / 5)
    assert found.ndcg_at_10 == pytest.approx((1 + 1 / math.log2(3) + 1 / math.log2(5)) / 5)


def test_refusal_by_hand() -> None:
    refusal = Refusal.of([("a", True, False), ("b", True, True), ("c", False, True), ("d", False, False)])
    assert (refusal.precision, refusal.recall, refusal.refused) == (0.5, 0.5, 2)
    assert (refusal.wrongly_refused, refusal.wrongly_answered) == (("b",), ("d",))


def test_nothing_to_take_a_share_of() -> None:
    refusal = Refusal.of([("a", True, False)])
    assert (refusal.precision, refusal.recall) == (None, None)


@pytest.mark.parametrize(
    ("text", "exact", "f1"),
    [
        ("The Denver Broncos [1].", 1.0, 0.8),
        ("denver broncos", 1.0, 1.0),
        ("Broncos", 0.0, 2 / 3),
        ("", 0.0, 0.0),
    ],
)
def test_answers_against_a_reference(text: str, exact: float, f1: float) -> None:
    found = quality(text, (), ("Denver Broncos",), ())
    assert (found.exact_match, found.f1) == (exact, pytest.approx(f1))
    assert found.contains == float("denver" in text.lower())


def test_chinese_is_compared_by_characters() -> None:
    found = quality("丹佛野马队。", (), ("丹佛野马",), ())
    assert (found.exact_match, found.f1, found.contains) == (0.0, pytest.approx(8 / 9), 1.0)


def test_sentences_that_stand_in_a_passage_are_faithful() -> None:
    passages = [
        "Boats are moored\nat the north pier. Keys are in the office.",
        "船停在北码头。钥匙在办公室。",
    ]
    assert faithfulness('"Boats are moored at the north pier." Bring a hat!', passages) == 0.5
    assert faithfulness("船停在北码头。钥匙在办公室。", passages) == 1.0
    assert faithfulness("船停在南码头。", passages) == 0.0
    assert faithfulness("…", passages) is None
