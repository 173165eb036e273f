"""How far an answer's text agrees with reference answers; words, or single characters in Chinese."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ragla.prompt import CJK

# a CJK character, or a run of letters and digits without any
TOKEN = re.compile(rf"{CJK.pattern}|(?:(?!{CJK.pattern})\w)+")


def contains(text: str, expected: Sequence[str], references: Sequence[str] = ()) -> float:
    """The share of expected phrases in the text; without any, 1 if it holds a whole reference, else 0."""
    haystack = _plain(text)
    if expected:
        return sum(_plain(phrase) in haystack for phrase in expected) / len(expected)
    return float(any(_plain(reference) in haystack for reference in references))


def token_f1(text: str, references: Sequence[str]) -> float:
    """Overlap with the best reference: harmonic mean of precision and recall (SQuAD, arXiv 1606.05250)."""
    return max(_f1(_tokens(text), _tokens(reference)) for reference in references)


def _f1(ours: Counter[str], theirs: Counter[str]) -> float:
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def _tokens(text: str) -> Counter[str]:
    return Counter(TOKEN.findall(text.casefold()))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
