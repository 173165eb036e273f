"""A document to passages: sized in the embedder's tokens, cut where sense ends, at exact offsets."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from ragla.errors import UsageError
from ragla.retrieve.headings import heading_paths
from ragla.retrieve.read import Document

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    from ragla.retrieve.embed import Embedder

# Part of the fingerprint: raise it when the same text would be cut differently.
CHUNKER = "1"
# Room left for the title that is embedded with a passage.
TITLE_TOKENS = 32
# A tokenizer may read any run without spaces as one unknown token; such a chunk has no size in tokens.
_CHARACTERS_PER_TOKEN = 12

_LINE_END = re.compile(r"\r\n|\n|\r")
# What a heading consists of: its line, and the underline of a setext heading.
_HEADING_BLOCK = re.compile(r"\A[^\r\n]*(?:\r\n|\n|\r|\Z)(?: {0,3}(?:=+|-+)[ \t]*(?:\r\n|\n|\r|\Z))?")
_BLANK_LINES = re.compile(r"(?:[^\S\r\n]*(?:\r\n|\n|\r))+")


@dataclass(frozen=True)
class Chunk:
    """``document.text[start:end]``; lines count from 1; ``title`` is the path of headings above it."""

    start: int
    end: int
    first_line: int
    last_line: int
    title: str
    page: int | None


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
        self._tokenizer = embedder.tokenizer
        self._max_tokens = max_tokens
        self._overlap = overlap

    def chunks(self, document: Document) -> list[Chunk]:
        """The chunks of a document, in order; none is blank.

        Headings that the splitter parts from their text are left out: they are the title of what follows.
        """
        text = document.text
        line_starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        outline = _Outline(text) if document.kind in ("markdown", "html") else _Outline("")
        return [
            Chunk(
                start,
                end,
                bisect_right(line_starts, start),
                bisect_right(line_starts, end - 1),
                outline.title(start),
                bisect_right(document.page_starts, start) or None,
            )
            for start, end in outline.sectioned(self._spans(document), text)
        ]

    def _spans(self, document: Document) -> Iterator[tuple[int, int]]:
        for start, piece in self._splitter(document.kind).chunk_indices(document.text):
            limit = self._max_tokens * _CHARACTERS_PER_TOKEN
            if len(piece) <= limit:
                yield from _trimmed(start, piece)
                continue
            for inner, part in _by_characters(limit).chunk_indices(piece):
                yield from _trimmed(start + inner, part)

    def _splitter(self, kind: str) -> TextSplitter | MarkdownSplitter:
        from semantic_text_splitter import MarkdownSplitter, TextSplitter

        splitter = MarkdownSplitter if kind in ("markdown", "html") else TextSplitter
        # Untrimmed, because trimming would take the indentation of a chunk's first line of code.
        return splitter.from_huggingface_tokenizer(
            self._tokenizer, self._max_tokens, self._overlap, trim=False
        )


def _by_characters(limit: int) -> TextSplitter:
    from semantic_text_splitter import TextSplitter

    return TextSplitter(limit, trim=False)


def _trimmed(start: int, piece: str) -> Iterator[tuple[int, int]]:
    """The span without blank lines before and white space after; nothing when all is white space."""
    end = start + len(piece.rstrip())
    blank = _BLANK_LINES.match(piece)
    start += blank.end() if blank else 0
    if start < end:
        yield start, end


class _Outline:
    """The headings of a text and the sections they begin."""

    def __init__(self, text: str) -> None:
        self._headings = heading_paths(text)
        offsets = [offset for offset, _ in self._headings]
        # Headings that follow each other directly begin one section.
        self._sections = offsets[:1] + [
            right for left, right in pairwise(offsets) if _without_heading(text[left:right]).strip()
        ]
        self._offsets = frozenset(offsets)

    def _next_section(self, position: int) -> float:
        following = bisect_right(self._sections, position)
        return self._sections[following] if following < len(self._sections) else math.inf

    def title(self, position: int) -> str:
        """Path of the innermost heading of the section at ``position``."""
        above = bisect_left(self._headings, self._next_section(position), key=itemgetter(0)) - 1
        return self._headings[above][1] if above >= 0 and self._sections[0] <= position else ""

    def sectioned(self, spans: Iterable[tuple[int, int]], text: str) -> list[tuple[int, int]]:
        """The spans, cut where a section begins, so that no passage carries the title of another."""
        cut: list[tuple[int, int]] = []
        for start, end in spans:
            inside = self._sections[bisect_right(self._sections, start) : bisect_left(self._sections, end)]
            for left, right in pairwise([start, *inside, end]):
                cut.extend(_trimmed(left, text[left:right]))
        following = [*(start for start, _ in cut), math.inf][1:]
        return [
            span
            for span, after in zip(cut, following, strict=True)
            if self._has_body(span, text) or after >= self._next_section(span[0])
        ]

    def _has_body(self, span: tuple[int, int], text: str) -> bool:
        start, end = span
        first, last = (bisect_right(self._headings, at, key=itemgetter(0)) for at in (start, end - 1))
        inside = [offset for offset, _ in self._headings[first:last]]
        return any(
            (_without_heading(text[left:right]) if left in self._offsets else text[left:right]).strip()
            for left, right in pairwise([start, *inside, end])
        )


def _without_heading(text: str) -> str:
    return _HEADING_BLOCK.sub("", text, count=1)


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
