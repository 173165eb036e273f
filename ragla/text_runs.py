"""What two texts have in common, word by word: runs of equal words, whatever the white space between them.

A text is cut into units: words, single characters of scripts that put no spaces between words, and
punctuation marks. White space and the marks of emphasis (``*`` and the back tick) are none, since a model
that quotes a wrapped or emphasised sentence leaves them out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

UNSPACED = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
SPARSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
MARKS = (  # that belong to the letter before: accents, points, the vowels of Indic scripts
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff"
)
UNIT = re.compile(
    rf"[{UNSPACED}]|[{SPARSE}]|(?:(?![{UNSPACED}{SPARSE}])[\w{MARKS}])+|[^\w\s*`{MARKS}]"
)  # fmt: skip

WORD = 12  # the weight of a word; 12 Chinese characters or 32 Thai ones weigh as much as 8 words
MOST_PLACES = 200
_UNSPACED_WEIGHT, _SPARSE_WEIGHT = 8, 3
_UNSPACED_UNIT, _SPARSE_UNIT = re.compile(f"[{UNSPACED}]"), re.compile(f"[{SPARSE}]")


def weight(unit: str) -> int:
    """How much of a word a unit is, in twelfths; nothing for punctuation."""
    if _UNSPACED_UNIT.match(unit):
        return _UNSPACED_WEIGHT
    if _SPARSE_UNIT.match(unit):
        return _SPARSE_WEIGHT
    return WORD if any(character.isalnum() for character in unit) else 0


class Units:
    """The units of a text that may grow: where each starts and ends, and their weights summed up."""

    def __init__(self, text: str = "", *, ended: bool = True) -> None:
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._weights = [0]
        self.grow(text, ended=ended)

    def __len__(self) -> int:
        return len(self.texts)

    def grow(self, text: str, *, ended: bool) -> None:
        """Take a text that begins with the last one; unless ``ended`` its last unit may grow, and waits."""
        for found in UNIT.finditer(text, self.ends[-1] if self.ends else 0):
            if not ended and found.end() == len(text):
                break
            self.texts.append(found[0])
            self.starts.append(found.start())
            self.ends.append(found.end())
            self._weights.append(self._weights[-1] + weight(found[0]))

    def at(self, offset: int) -> int:
        """The index of the unit at a character, or of the next one where there is none."""
        before = bisect_right(self.starts, offset) - 1
        return before if before >= 0 and offset < self.ends[before] else before + 1

    def weight(self, first: int, end: int) -> int:
        """The weight of the units from ``first`` to before ``end``."""
        return self._weights[end] - self._weights[first]


class Run(NamedTuple):
    """Units ``first`` to before ``end`` of one text equal those from ``source`` on in the other."""

    first: int
    end: int
    source: int


class Runs:
    """The longest runs that a growing text has in common with a source, found while it grows.

    Of a unit that the source has more often than MOST_PLACES only that many can begin a run; such a run is
    found at its next unit, and begins there until it is asked for.
    """

    def __init__(self, source: Units) -> None:
        self.closed: list[Run] = []
        self._source = source.texts
        self._places: dict[str, list[int]] = defaultdict(list)
        for at, unit in enumerate(source.texts):
            if len(self._places[unit]) < MOST_PLACES:
                self._places[unit].append(at)
        self._open: dict[int, int] = {}  # place of a run's last unit in the source: units
        self._read: list[str] = []

    def follow(self, units: Units, least: int) -> None:
        """Read the units that are new. Runs that have ended stay if they weigh ``least``."""
        for unit in units.texts[len(self._read) :]:
            going_on = {
                at + 1: length + 1
                for at, length in self._open.items()
                if at + 1 < len(self._source) and self._source[at + 1] == unit
            }
            self.closed += [
                run
                for run in self.open()
                if run.source + run.end - run.first not in going_on and units.weight(*run[:2]) >= least
            ]
            self._open = going_on
            for at in self._places.get(unit, ()):
                self._open.setdefault(at, 1)
            self._read.append(unit)

    def open(self) -> Iterator[Run]:
        """The runs that the last unit is part of: they may grow."""
        for last, length in self._open.items():
            first, source = len(self._read) - length, last + 1 - length
            while first > 0 and source > 0 and self._read[first - 1] == self._source[source - 1]:
                first, source = first - 1, source - 1
            yield Run(first, len(self._read), source)
