"""A document to passages: sized in the embedder's tokens, cut where sense ends, at exact offsets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from ragla.errors import UsageError
from ragla.retrieve.definitions import OUTLINES
from ragla.retrieve.document import Document
from ragla.retrieve.headings import MARKUP
from ragla.retrieve.sections import Segment, segments
from ragla.retrieve.tables import Table

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    from ragla.retrieve.embed import Embedder

# Part of the fingerprint: raise it when the same text would be cut differently.
CHUNKER = "2"
# Room left for the title that is embedded with a passage.
TITLE_TOKENS = 32
# A tokenizer may read any run without spaces as one unknown token; such a run has no size in tokens.
_CHARACTERS_PER_TOKEN = 12
_BATCH = 256
_NOT_MARKDOWN = ("rst", "asciidoc", "org", "mail")

_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANK_LINES = re.compile(r"(?:[^\S\r\n]*(?:\r\n|\n|\r))+")


@dataclass(frozen=True)
class Chunk:
    """``document.text[start:end]``; lines count from 1.

    ``title`` is the path of headings above it, and for rows of a table cut off from it, the table's header.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    title: str
    page: int | None


@dataclass(frozen=True)
class _Piece:
    """A chunk in the making. ``joins``: it may be one with the piece before it, unless that is ``closed``."""

    start: int
    end: int
    path: tuple[str, ...]
    level: int
    joins: bool
    size: int
    closed: bool = False


class Chunker:
    """Cuts documents for one embedder into chunks of at most ``max_tokens``, neighbours sharing ``overlap``.

    Raises UsageError when the embedder cannot read that many tokens beside its prompt and a title, or when
    the overlap leaves nothing to advance by.
    """

    def __init__(self, embedder: Embedder, max_tokens: int, overlap: int) -> None:
        room = embedder.max_tokens - embedder.overhead_tokens - TITLE_TOKENS
        if max_tokens > room:
            raise UsageError(
                f"retrieve.chunk_tokens {max_tokens} is more than {embedder.name} reads ({room})",
                hint=f"set retrieve.chunk_tokens to {room} or less",
            )
        if overlap >= max_tokens:
            raise UsageError(
                f"retrieve.chunk_overlap {overlap} is not below retrieve.chunk_tokens {max_tokens}",
                hint=f"set retrieve.chunk_overlap below {max_tokens}",
            )
        self._embedder = embedder  # its tokenizer is asked for when there is something to cut
        self._room = embedder.max_tokens - embedder.overhead_tokens
        self._max_tokens = max_tokens
        self._overlap = overlap

    def chunks(self, document: Document) -> list[Chunk]:
        """The chunks of a document, in order; none is blank.

        Headings that the splitter parts from their text are left out: they are the title of what follows.
        """
        text = document.text
        line_starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        return [
            Chunk(
                piece.start,
                piece.end,
                bisect_right(line_starts, piece.start),
                bisect_right(line_starts, piece.end - 1),
                " > ".join(piece.path),
                bisect_right(document.page_starts, piece.start) or None,
            )
            for piece in self._joined(self._pieces(document), text)
        ]

    def _pieces(self, document: Document) -> Iterator[_Piece]:
        markdown = document.kind in MARKUP and document.kind not in _NOT_MARKDOWN
        for segment in segments(document):
            if segment.table is not None:
                yield from self._of_table(segment, segment.table, document.text)
                continue
            pieces = list(self._of_text(segment, document.text, markdown))
            if len(pieces) > 1 and document.kind in OUTLINES:
                # A part of a definition stays by itself: with its neighbour it would lose its name.
                pieces = [replace(piece, joins=False, closed=True) for piece in pieces]
            yield from pieces

    def _of_text(self, segment: Segment, text: str, markdown: bool) -> Iterator[_Piece]:
        spans = list(self._spans(segment.start, segment.end, text, self._max_tokens, markdown))
        for number, (start, end) in enumerate(spans):
            if start < segment.body and number + 1 < len(spans) and not text[segment.body : end].strip():
                continue  # headings alone
            joins = segment.joins and number == 0
            # Only the outer ones can be joined with anything.
            outer = number in (0, len(spans) - 1)
            size = self._size(text[start:end]) if outer else self._max_tokens
            yield _Piece(start, end, segment.path, segment.level, joins, size)

    def _of_table(self, segment: Segment, table: Table, text: str) -> Iterator[_Piece]:
        """One piece when all of it fits; else rows, each piece but the first titled with the header too."""
        whole = _trimmed(segment.start, text[segment.start : segment.end])
        if (
            whole
            and whole[1] - whole[0] <= self._max_tokens * _CHARACTERS_PER_TOKEN
            and (size := self._size(text[slice(*whole)])) <= self._max_tokens
        ):
            yield _Piece(*whole, segment.path, segment.level, segment.joins, size)
            return
        header = self._shortened(table.header, self._max_tokens // 2)
        limit = min(self._max_tokens, self._room - self._size(header + "\n"))
        joins, path = segment.joins, segment.path
        for start, end, size in self._rows(segment, table, text, limit):
            # What follows the table is not what its header says.
            yield _Piece(start, end, path, segment.level, joins, size, closed=True)
            joins, path = False, (*segment.path, header) if header else segment.path

    def _rows(self, segment: Segment, table: Table, text: str, limit: int) -> Iterator[tuple[int, int, int]]:
        """Runs of whole rows of at most ``limit`` tokens; a row that alone is longer is split as text is."""
        bounds = [segment.start, *table.rows, segment.end]
        start, size = segment.start, 0
        for (left, right), row in zip(pairwise(bounds), self._sizes(text, bounds), strict=True):
            if size and size + row > limit:
                yield from self._measured(start, left, text, limit)
                start, size = left, 0
            size += row
            if right == segment.end:
                yield from self._measured(start, right, text, limit)

    def _measured(self, start: int, end: int, text: str, limit: int) -> Iterator[tuple[int, int, int]]:
        for left, right in self._spans(start, end, text, limit, markdown=False):
            yield left, right, self._size(text[left:right])

    def _spans(
        self, start: int, end: int, text: str, limit: int, markdown: bool
    ) -> Iterator[tuple[int, int]]:
        """``text[start:end]`` as one span when it fits, or as the splitter cuts it."""
        piece = text[start:end]
        span = _trimmed(start, piece)
        if span is None:
            return
        if span[1] - span[0] <= limit * _CHARACTERS_PER_TOKEN and self._size(text[slice(*span)]) <= limit:
            yield span
            return
        for offset, part in self._splitter(limit, markdown).chunk_indices(piece):
            if inner := _trimmed(start + offset, part):
                yield inner

    def _joined(self, pieces: Iterable[_Piece], text: str) -> Iterator[_Piece]:
        """Neighbours as one where they may be, fit, and the later one does not lie further out."""
        last: _Piece | None = None
        outermost = 0
        for piece in pieces:
            if last is not None and piece.level >= outermost and self._fit(last, piece, text):
                path = _common(last.path, piece.path)
                last = replace(last, end=piece.end, path=path, size=last.size + piece.size)
                continue
            if last is not None:
                yield last
            last, outermost = piece, piece.level
        if last is not None:
            yield last

    def _fit(self, last: _Piece, piece: _Piece, text: str) -> bool:
        if not piece.joins or last.closed or last.size + piece.size > self._max_tokens:
            return False
        return self._size(text[last.start : piece.end]) <= self._max_tokens

    def _size(self, text: str) -> int:
        """Tokens of a text, and no fewer than its characters make likely."""
        tokens = len(self._embedder.tokenizer.encode(text, add_special_tokens=False).ids)
        return max(tokens, -(-len(text) // _CHARACTERS_PER_TOKEN))

    def _sizes(self, text: str, bounds: list[int]) -> Iterator[int]:
        for first in range(0, len(bounds) - 1, _BATCH):
            part = bounds[first : first + _BATCH + 1]
            rows = [text[left:right] for left, right in pairwise(part)]
            for row, encoded in zip(
                rows, self._embedder.tokenizer.encode_batch(rows, add_special_tokens=False), strict=True
            ):
                yield max(len(encoded.ids), -(-len(row) // _CHARACTERS_PER_TOKEN))

    def _shortened(self, header: str, limit: int) -> str:
        """The header, or as much of it as leaves room for rows, with a sign that it goes on."""
        if self._size(header) <= limit:
            return header
        names = header.split(" | ")
        while len(names) > 1 and self._size(" | ".join(names) + " | …") > limit:
            names.pop()
        shorter = " | ".join(names) + " | …"
        return shorter if self._size(shorter) <= limit else ""

    def _splitter(self, limit: int, markdown: bool) -> TextSplitter | MarkdownSplitter:
        """Sized by a callback, because a splitter with a tokenizer of its own takes 0.1 s to make."""
        from semantic_text_splitter import MarkdownSplitter, TextSplitter

        splitter = MarkdownSplitter if markdown else TextSplitter

        def size(piece: str) -> int:
            rough = -(-len(piece) // _CHARACTERS_PER_TOKEN)
            return rough if rough > limit else self._size(piece)  # too long whatever its tokens are

        # Untrimmed, because trimming would take the indentation of a chunk's first line of code.
        return splitter.from_callback(size, limit, min(self._overlap, limit - 1), trim=False)


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    return tuple(name for name, _ in same)


def _trimmed(start: int, piece: str) -> tuple[int, int] | None:
    """The span without blank lines before and white space after; nothing when all is white space."""
    end = start + len(piece.rstrip())
    blank = _BLANK_LINES.match(piece)
    start += blank.end() if blank else 0
    return (start, end) if start < end else None


def embedded_text(embedder: Embedder, title: str, text: str) -> str:
    """What is embedded for a passage: its title, then its text.

    The outer headings of the title give way until all fits, so that the embedder cuts nothing off.
    """
    limit = embedder.max_tokens - embedder.overhead_tokens
    names = title.split(" > ") if title else []
    while names:
        whole = " > ".join(names) + "\n" + text
        if len(embedder.tokenizer.encode(whole, add_special_tokens=False).ids) <= limit:
            return whole
        names.pop(0)
    return text
