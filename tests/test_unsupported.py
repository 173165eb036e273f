"""Numbers and names that were read nowhere are found; no right one is accused for how it is written."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.numerals import numerals, values_in
from ragla.unsupported import WhatWasRead

PASSAGE = (
    "The limits are EUR 1,500 per night in Paris; the U.S.A. have their own. Ask Owen Griffiths, who answers "
    "within sixty-five days, or Meridian's line +353 20 914 0118. Reviewed 5 August 2025. Version "
    "3.11.2, form F-44."
)
CHINESE = (
    "酒店每晚上限为一百八十欧元。请在三十天内提交。2025年8月起，共1.5亿元，3万人，二〇二四年，两千零五名。"
)


def flagged(text: str, *read: str) -> list[str]:
    found = WhatWasRead(read).unsupported(text)
    assert all(text[one.start : one.end] == one.text for one in found)
    assert [one.start for one in found] == sorted(one.start for one in found)
    return [one.text for one in found]


@pytest.mark.parametrize(
    "text",
    [
        "It is 1500, 1,500.00, 1.500, 1 500 or 1’500 euros.",
        "Within 65 days, or ６５.",
        "On 5.8.2025, or 2025-08-05, at 5:00.",
        "Python 3.11.2 and form F-44.",
        "Call 353 20 914 0118.",
        "[12] and [7, 9] and passage 8 say so.",
        "1. First.\n 2) Second.\n- 3. Third.",
        "Nothing in words: ninety-nine.",
        "",
    ],
)
def test_a_number_that_was_read_is_supported_however_it_is_written(text: str) -> None:
    assert flagged(text, PASSAGE) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is 1600 euros.", ["1600"]),
        ("180", ["180"]),
        ("Use F-45 by 6.8.2025.", ["45", "6.8.2025"]),
        ("1,500,000 euros", ["1,500,000"]),
        ("Up to 15 % of 150", ["15", "150"]),
        ("The 20 and the 353", []),
        ("Version 3.12", ["3.12"]),
        ("2 million", ["2"]),
        ("1.5 thousand", []),
    ],
)
def test_a_number_that_was_not_read_is_flagged(text: str, found: list[str]) -> None:
    assert flagged(text, PASSAGE) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("上限是180欧元，30天内提交，150000000元，30000人，2024年，2005名。", []),
        ("上限是190欧元，31天内。", ["190", "31"]),
        ("8月，3万，1.5亿", []),
        ("４０天", ["４０"]),
        ("1、先看。\n2、再做。", []),
    ],
)
def test_chinese_numerals_are_read(text: str, found: list[str]) -> None:
    assert flagged(text, CHINESE) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("You may ask Owen Griffiths, or the Parisian, in the USA.", []),
        ("You may ask Angela Merkel or Owen Smith.", ["Angela Merkel", "Smith"]),
        ("Berlin is first. Rome is next: Madrid. “Lisbon”", []),  # sentences may begin with anything
        ("It holds in berlin, and I'm sure.", []),
        ("It holds in O'Brien's and in Saint-Denis as well.", ["O'Brien's", "Saint-Denis"]),
        ("It is NOT so, see Passage [1] and Table 5.", []),
        ("The Rules Of Hotels In Berlin\nsay nothing.", []),  # a title
        ("Frag nicht die Frau Merkel und den Hausmeister mit der Karte.", []),  # German nouns
        ("It ends in May or in August.", []),
        ("It ends in Mai, says Merkel", ["Mai", "Merkel"]),
        ("请问 Angela Merkel 女士。", ["Angela Merkel"]),
    ],
)
def test_names_are_words_with_a_capital_that_begin_no_sentence(text: str, found: list[str]) -> None:
    assert flagged(text, PASSAGE, "Is it in May?") == found


def test_an_answer_in_another_script_than_its_passages_has_other_names() -> None:
    assert flagged("The limit in Hangzhou is 190.", CHINESE) == ["190"]
    assert flagged("The limit in Москва is 190.", "Предел в Москве 190") == []


def test_the_question_and_the_titles_count_as_read() -> None:
    assert flagged("It is 42 in Berlin.", PASSAGE, "Why 42?", "Rules > Berlin") == []


def test_nothing_read_supports_nothing() -> None:
    assert flagged("It is 42 in Berlin.") == ["42", "Berlin"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("sixty-five", [60, 5, 65]),
        ("two hundred", [2, 100, 200]),
        ("twice a year, the third time", [2, 3]),
        ("十五", [15, 5]),
        ("三万二千", [32000]),
        ("一亿零三", [100000003]),
        ("万一", [1]),
        ("2.5 million", [2500000]),
        ("1.234.567", [1234567]),
        ("1,5", [Decimal("1.5")]),
        ("12 345 678", [12345678, 12, 345, 678]),
        ("٣٤", [34]),
    ],
)
def test_values(text: str, values: list[int | Decimal]) -> None:
    assert {Decimal(value) for value in values} <= values_in(text)


@given(st.text(st.sampled_from("0123456789.,' 万亿千十一-\nMayThe [x]٣"), max_size=60), st.text(max_size=30))
def test_any_text_is_supported_by_itself(text: str, other: str) -> None:
    for numeral in numerals(text + other):
        assert 0 <= numeral.start < numeral.end <= len(text + other)
    assert flagged(text + other, text + other) == []
