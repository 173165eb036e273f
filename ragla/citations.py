"""Whether the passages that an answer names are those that its words stand in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragla.prompt import CITATION, cited_numbers

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
    for part in named(text, [range(span.start, span.end) for span in spans]):
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


def named(text: str, copied: Sequence[range]) -> Iterator[Named]:
    """The parts of a text between the numbers that it names, each with those on either side of it.

    What begins a line without being copied leads to the number behind it (``As [2] says``), and then the
    last part of the line belongs to the last number; else that is before the text that it speaks of.
    """
    at = 0
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        markers = list(MARKERS.finditer(text, at, end))
        edges = [at, *(place for marker in markers for place in marker.span()), end]
        parts = [range(*edges[place : place + 2]) for place in range(0, len(edges), 2)]
        leads = not any(_meet(parts[0], one) for one in copied)
        for place, part in enumerate(parts):
            beside = markers[max(0, place - 1) : place + 1]
            if beside and (place < len(markers) or leads):
                yield Named(
                    part.start, part.stop, frozenset(cited_numbers("".join(one[0] for one in beside)))
                )
        at = end


def _meet(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def letters(text: str) -> int:
    """How many letters and digits there are."""
    return sum(character.isalnum() for character in text)
