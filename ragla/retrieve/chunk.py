"""A document to passages: sized in the embedder's tokens, cut where sense ends, at exact offsets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
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
        """The chunks of a document, in order; none is blank."""
        text = document.text
        line_starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        has_headings = document.kind in ("markdown", "html")
        heading_starts, paths = heading_paths(text) if has_headings else ([], [])
        made: list[Chunk] = []
        for start, end in self._spans(document):
            above = bisect_right(heading_starts, start) - 1
            made.append(
                Chunk(
                    start,
                    end,
                    bisect_right(line_starts, start),
                    bisect_right(line_starts, end - 1),
                    paths[above] if above >= 0 else "",
                    bisect_right(document.page_starts, start) or None,
                )
            )
        return made

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
