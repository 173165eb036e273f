"""A document as segments that each have one title: sections, definitions, tables and what lies between."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from ragla.retrieve.definitions import OUTLINES
from ragla.retrieve.document import Document
from ragla.retrieve.headings import MARKUP, Heading, paths
from ragla.retrieve.tables import Table, tables

# A segment is split in one call, which an interrupt waits for; longer ones are cut before.
_LONGEST = 100_000


@dataclass(frozen=True)
class Segment:
    """``text[start:end]``, with the names of the headings above it.

    ``text[start:body]`` is headings that ``path`` has all of, so that a chunk may do without them. ``level``
    is how deep it lies. ``table`` is set when all of it is one table. ``joins``: a chunk may hold the end of
    the segment before and this one.
    """

    start: int
    end: int
    body: int
    path: tuple[str, ...]
    level: int
    joins: bool
    table: Table | None = None


def segments(document: Document) -> Iterator[Segment]:
    """The segments of a document, in order and without gaps."""
    found = tables(document.kind, document.text)
    starts = [table.start for table in found]
    for section in _sections(document):
        inside = found[bisect_left(starts, section.start) : bisect_left(starts, section.end)]
        for segment in _around_tables(section, inside):
            yield from [segment] if segment.table else _bounded(segment, document.text)


def _sections(document: Document) -> Iterator[Segment]:
    """Where a heading of markup stands nothing joins; definitions and keys may share a chunk."""
    text, kind = document.text, document.kind
    joins = kind in OUTLINES
    outline = MARKUP.get(kind) or OUTLINES.get(kind)
    headings = list(paths(outline(text))) if outline else []
    if not joins:
        headings = _with_bodies(headings, text)
    first = headings[0][0].start if headings else len(text)
    yield Segment(0, first, 0, (), 0, joins=False)
    ends = [*(heading.start for heading, _ in headings), len(text)][1:]
    for (heading, path), end in zip(headings, ends, strict=True):
        body = heading.start if joins else heading.body
        yield Segment(heading.start, end, body, path, heading.level, joins)


def _with_bodies(
    headings: list[tuple[Heading, tuple[str, ...]]], text: str
) -> list[tuple[Heading, tuple[str, ...]]]:
    """Headings that follow each other directly begin one section, which is titled by the last of them."""
    kept: list[tuple[Heading, tuple[str, ...]]] = []
    group: list[Heading] = []
    following = [*(heading.start for heading, _ in headings), None][1:]
    for (heading, path), after in zip(headings, following, strict=True):
        group.append(heading)
        if after is None or text[heading.body : after].strip():
            start = group[0].start
            told = all(one.name in path for one in group)
            kept.append((Heading(start, heading.body if told else start, heading.level, heading.name), path))
            group = []
    return kept


def _around_tables(section: Segment, inside: list[Table]) -> Iterator[Segment]:
    """The section cut before and after each table that lies in it wholly."""
    at, joins = section.start, section.joins
    for table in sorted(inside, key=attrgetter("start")):
        if table.start < at or table.end > section.end:
            continue
        if table.start > at:
            yield Segment(at, table.start, section.body, section.path, section.level, joins)
            joins = True
        yield Segment(table.start, table.end, section.body, section.path, section.level, joins, table)
        at, joins = table.end, True
    if at < section.end:
        yield Segment(at, section.end, section.body, section.path, section.level, joins)


def _bounded(segment: Segment, text: str) -> Iterator[Segment]:
    """The segment in parts of at most ``_LONGEST`` characters, cut where a paragraph or a line ends."""
    at, joins = segment.start, segment.joins
    while segment.end - at > _LONGEST:
        cut = _last_break(text, at + _LONGEST // 2, at + _LONGEST)
        yield Segment(at, cut, segment.body, segment.path, segment.level, joins)
        at, joins = cut, False
    yield Segment(at, segment.end, segment.body, segment.path, segment.level, joins)


def _last_break(text: str, low: int, high: int) -> int:
    for mark in ("\n\n", "\r\n\r\n", "\n", "\r", "。", " "):
        found = text.rfind(mark, low, high)
        if found >= 0:
            return found + len(mark)
    return high
