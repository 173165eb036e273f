"""Whether the passages that an answer names are those that its words stand in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragla.prompt import CITATION

if TYPE_CHECKING:
    from ragla.evidence import Evidence
    from ragla.prompt import Prompt
    from ragla.provenance import CopySpan

MARKERS = re.compile(rf"{CITATION.pattern}(?:[\s,;、，]*{CITATION.pattern})*")  # [1] or [1], [2]
COPIED_SHARE = 0.8  # of the letters of a sentence: less may be the model's own, and rest on what it names
LEAST_COPIED = 12  # letters that say where they come from


class Named(NamedTuple):
    """A part of an answer, its characters from ``start`` to ``end``, and the passages it names."""

    start: int
    end: int
    numbers: frozenset[int]


def misplaced(text: str, spans: Sequence[CopySpan], evidence: Evidence, prompt: Prompt) -> tuple[str, ...]:
    """A line for each passage that is named where the words were copied from another one alone."""
    read = {number: evidence.passages[at].text for number, at in enumerate(prompt.used, 1)}
    found: dict[str, None] = {}
    for part in named(text):
        from_where: Counter[int] = Counter()
        for span in spans:
            start, end = max(part.start, span.start), min(part.end, span.end)
            copied = text[start:end]
            if start < end and not any(copied.strip() in read.get(number, "") for number in part.numbers):
                from_where[span.number] += letters(copied)
            elif start < end:
                from_where[0] += letters(copied)
        elsewhere = from_where.total() - from_where.pop(0, 0)
        if elsewhere < max(LEAST_COPIED, COPIED_SHARE * letters(text[part.start : part.end])):
            continue
        cited = ", ".join(f"[{number}]" for number in sorted(part.numbers))
        there = from_where.most_common(1)[0][0]
        found[f"the answer names {cited} for words that stand in [{there}]"] = None
    return tuple(found)


def named(text: str) -> Iterator[Named]:
    """The parts that name passages: behind the numbers where a line begins with them, else before them."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield from _named(text, at, at + len(line))
        at += len(line)


def _named(text: str, first: int, last: int) -> Iterator[Named]:
    markers = list(MARKERS.finditer(text, first, last))
    leads = bool(markers) and not letters(text[first : markers[0].start()])
    for place, marker in enumerate(markers):
        numbers = frozenset(int(number) for number in re.findall(r"\d+", marker[0]))
        if leads:
            yield Named(
                marker.end(), markers[place + 1].start() if place + 1 < len(markers) else last, numbers
            )
        else:
            yield Named(markers[place - 1].end() if place else first, marker.start(), numbers)


def letters(text: str) -> int:
    """How many letters and digits there are."""
    return sum(character.isalnum() for character in text)
