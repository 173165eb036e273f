from __future__ import annotations

import pytest

from ragla.bench.quality import contains, token_f1


def test_the_share_of_expected_phrases_ignores_case_and_line_breaks() -> None:
    text = "Claims are paid\nwithin 60 Days. [1]"
    assert contains(text, ["60 days", "120 days"]) == 0.5
    assert contains(text, ["paid within"]) == 1.0


def test_without_expected_phrases_one_whole_reference_is_enough() -> None:
    assert contains("It is in the cellar. [1]", [], ["On the roof", "in the cellar."]) == 1.0
    assert contains("It is in the attic.", [], ["in the cellar"]) == 0.0


@pytest.mark.parametrize(
    ("text", "references", "f1"),
    [
        ("the red fox", ["The red fox!"], 1.0),
        ("red fox", ["a red dog"], 0.4),
        ("red red", ["red"], 2 / 3),
        ("red", ["blue", "red"], 1.0),
        ("五日前交", ["五日交"], 6 / 7),
        ("EUR165住宿", ["EUR165 住"], 0.8),
        ("", ["red"], 0.0),
        ("…", ["!"], 1.0),
    ],
)
def test_token_f1_against_the_best_reference(text: str, references: list[str], f1: float) -> None:
    assert token_f1(text, references) == pytest.approx(f1)
