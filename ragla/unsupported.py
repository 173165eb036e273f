"""Numbers and names of an answer that stand in nothing it was made from.

The rules rather miss one than accuse a right one: a number may be written in any way, a name may have
another ending, and where capitals say little no name is judged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from ragla.numerals import MONTHS, numerals, values_in

# numbers that are the answer's own: of passages, of items of a list
OWN = re.compile(
    r"[\[【［][\d ,;，、–-]+[\]】］]|^[ \t]*(?:[-*•] *)?\(?\d{1,2}(?:[.)](?=\s)|[、．])"
    r"|(?:passages?|sources?|documents?|段落|文档|资料)[ #:]*(?:number )?\d{1,3}",
    re.MULTILINE | re.IGNORECASE,
)
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
PART = re.compile(r"[^\W\d_]+")
INITIALS = re.compile(r"\b(?:[^\W\d_]\.){2,}")
BEGINNING = re.compile(r"(?:^|[.!?:;…\n\"'“”‘’«»„()\[\]*_#>|•/]|\s[-–—])\s*$")
GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|ein|eine|einen|mit|von|für|dem|den|wird|sind)\b")
DATE = re.compile(r"\d{1,4}[-./年]\d{1,2}[-./月]")
UNJUDGED = (
    "passage passages document documents source sources section question answer table figure page note "
    "not no yes must only never and or am pm"
)
ENDS = (*".!?])。！？",)
LEAST_STEM = 4  # letters that two forms of a name have in common
ENDING = 3  # letters at most that the longer form has behind them
CROWDED = 0.5  # share of words with a capital above which a line that ends no sentence is a title


@dataclass(frozen=True)
class Unsupported:
    """``answer[start:end]`` is ``text``, which stands in no passage of the prompt, nor in the question."""

    start: int
    end: int
    text: str
    kind: Literal["number", "name"]


class WhatWasRead:
    """The numbers and words that an answer may have: those of passages, their titles, and the question."""

    def __init__(self, texts: Sequence[str]) -> None:
        read = "\n".join(texts)
        self._values = values_in(read) | {Decimal()}  # which is what is left of 9:00
        self._words = {part.casefold() for part in PART.findall(read)}
        self._words |= {found.replace(".", "").casefold() for found in INITIALS.findall(read)}
        self._knows = functools.cache(self._find)  # an answer is looked through anew as it grows
        self._dated = bool(DATE.search(read))
        letters = [letter for letter in read if letter.isalpha()]
        cased = sum(letter.lower() != letter.upper() for letter in letters)
        self._has_capitals = 2 * cased >= len(letters)  # else a name in Latin letters is a translation

    def unsupported(self, text: str) -> tuple[Unsupported, ...]:
        """What an answer has beyond that, in its order."""
        found = [*self._numbers(text), *self._names(text)]
        return tuple(sorted(found, key=lambda one: one.start))

    def _numbers(self, text: str) -> Iterator[Unsupported]:
        own = [found.span() for found in OWN.finditer(text)]
        for start, end, values, _, parts in numerals(text):
            if any(first <= start and end <= last for first, last in own):
                continue
            if self._values.isdisjoint(values) and not (parts and parts <= self._values):
                yield Unsupported(start, end, text[start:end], "number")

    def _names(self, text: str) -> Iterator[Unsupported]:
        """Words with a capital that begin no sentence; neighbours are one name."""
        if not self._has_capitals or len(set(GERMAN.findall(text)) - {"die"}) > 1:
            return
        last: Unsupported | None = None
        for start, end in _capitalised(text):
            if self._knows(text[start:end]):
                continue
            if last is not None and not text[last.end : start].strip(" "):
                start = last.start
            elif last is not None:
                yield last
            last = Unsupported(start, end, text[start:end], "name")
        if last is not None:
            yield last

    def _find(self, word: str) -> bool:
        """Whether a word was read, in one form or another, or is none to judge."""
        parts = [part.casefold() for part in PART.findall(word)]
        whole = "".join(parts)
        if len(whole) == 1 or parts[0] == "i" or whole in UNJUDGED.split():
            return True
        if self._dated and whole in MONTHS.split():
            return True
        return whole in self._words or all(len(part) == 1 or self._knows_form(part) for part in parts)

    def _knows_form(self, word: str) -> bool:
        return word in self._words or any(_are_forms(word, other) for other in self._words)


def _capitalised(text: str) -> Iterator[tuple[int, int]]:
    """Where words with a capital stand, but for the beginnings of sentences and for titles."""
    for line in re.finditer(r"[^\n]+", text):
        inner = [
            word
            for word in WORD.finditer(text, *line.span())
            if not BEGINNING.search(text, max(0, word.start() - 3), word.start())
        ]
        upper = [word for word in inner if word[0][0].isupper()]
        if len(upper) > CROWDED * len(inner) and len(inner) > 1 and not line[0].rstrip().endswith(ENDS):
            continue
        yield from (word.span() for word in upper)


def _are_forms(one: str, other: str) -> bool:
    """Whether two words differ in their ending only."""
    stem = max(LEAST_STEM, len(one) - ENDING, len(other) - ENDING)
    return min(len(one), len(other)) >= stem and one[:stem] == other[:stem]
