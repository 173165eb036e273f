"""The numbers of a text as values, in any of the ways of writing them that a passage and an answer may mix.

1,000 is 1000, 1.000, 1 000, 一千 and a thousand. Where a writing has two readings, both count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

SPACES = " '’\u00a0\u2009\u202f"  # that group digits by three
WRITTEN = re.compile(rf"\d{{1,3}}(?:[{SPACES}]\d{{3}})+(?!\d)|\d+(?:[.,]\d+)*")
MULTIPLIER = re.compile(r"[ \u00a0-]?(万|亿|thousand\b|million\b|billion\b)", re.IGNORECASE)
MULTIPLIERS = {"万": 10**4, "亿": 10**8, "thousand": 10**3, "million": 10**6, "billion": 10**9}
PARTED = 2  # separators from which on a number is a date, a version or the like: 5.8.2025

CHINESE = re.compile("[零〇一二两三四五六七八九十百千万亿]+")
CHINESE_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}

WORDS = re.compile(r"[a-z]+(?:-[a-z]+)?", re.IGNORECASE)
SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
MONTHS = "january february march april may june july august september october november december"
MONTH = MONTHS.replace(" ", "|")
DATED = re.compile(rf"\d(?:st|nd|rd|th)?,? ({MONTH})\b|\b({MONTH}) \d", re.IGNORECASE)
VALUES = {
    **{word: value for value, word in enumerate(SMALL.split())},
    **{word: value for value, word in enumerate(ORDINALS.split())},
    **{word: 10 * value for value, word in enumerate(TENS.split(), 2)},
    "once": 1, "twice": 2, "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6,
}  # fmt: skip


class Numeral(NamedTuple):
    """A number written in digits at ``text[start:end]``, and what it may mean.

    ``digits``: the values of the digits alone, without the million behind them. ``parts``: the numbers it is
    made of, where it may be several: a date, a version, two numbers in a row.
    """

    start: int
    end: int
    values: frozenset[Decimal]
    digits: frozenset[Decimal]
    parts: frozenset[Decimal]


def numerals(text: str) -> Iterator[Numeral]:
    """The numbers that are written in digits, in order."""
    for found in WRITTEN.finditer(text):
        plain = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in found[0])
        digits = frozenset(_values(plain))
        times = MULTIPLIER.match(text, found.end())
        values = frozenset(value * MULTIPLIERS[times[1].lower()] for value in digits) if times else digits
        split = re.split(r"\D", plain)
        several = len(split) > PARTED or any(space in plain for space in SPACES)
        parts = frozenset(map(Decimal, split)) if several else frozenset()
        yield Numeral(found.start(), found.end(), values, digits, parts)


def _values(plain: str) -> set[Decimal]:
    """What digits with separators may mean: a comma or a point can group digits or begin a fraction."""
    plain = re.sub(f"[{SPACES}]", "", plain)
    found = set()
    for grouping, point in ((",", "."), (".", ",")):
        whole, _, fraction = plain.partition(point)
        if point not in fraction and grouping not in fraction:
            found.add(Decimal(f"{whole.replace(grouping, '')}.{fraction or 0}"))
    joined = re.split("[.,]", plain)
    if all(len(group) == 3 for group in joined[1:]):
        found.add(Decimal("".join(joined)))
    return found


def values_in(text: str) -> set[Decimal]:
    """Every value that a number of the text may have, those in Chinese and English words among them."""
    found: set[Decimal] = set()
    for numeral in numerals(text):
        found |= numeral.values | numeral.digits | numeral.parts
    for written in CHINESE.findall(text):
        found |= {Decimal(_chinese(written)), *(Decimal(CHINESE_DIGITS.get(c, 0)) for c in written)}
        if all(c in CHINESE_DIGITS for c in written):  # 二〇二五
            found.add(Decimal("".join(str(CHINESE_DIGITS[c]) for c in written)))
    found |= {Decimal(MONTHS.split().index((one or other).lower()) + 1) for one, other in DATED.findall(text)}
    return found | set(_spelled(text))


def _chinese(written: str) -> int:
    """The value of a Chinese numeral."""
    total = section = digit = 0
    for character in written:
        if character in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[character]
        elif character in CHINESE_UNITS:
            section += (digit or 1) * CHINESE_UNITS[character]
            digit = 0
        else:
            total = (total + section + digit or 1) * MULTIPLIERS[character]
            section = digit = 0
    return total + section + digit


def _spelled(text: str) -> Iterator[Decimal]:
    """English number words, alone and with the one before: sixty, sixty-five, two hundred."""
    words = [part for word in WORDS.findall(text.lower()) for part in word.split("-")]
    values = [VALUES.get(word) for word in words]
    yield from (Decimal(value) for value in values if value is not None)
    for first, second in pairwise(values):
        if first is not None and second is not None:
            yield Decimal(first + second if first > second else first * second)
