"""What reading makes of a file: its text, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "text", "markdown", "rst", "asciidoc", "org", "html", "pdf", "word", "slides", "sheet", "table", "book",
    "notebook", "mail", "json", "yaml", "toml", "code",
]  # fmt: skip


class NotIndexable(Exception):
    """This file has no text to index; the message is the reason a user reads."""


@dataclass(frozen=True)
class Document:
    """The text of a file. For files of text it is the decoded file itself, so that offsets are the file's.

    ``page_starts``: offsets of the pages of a PDF or of the slides of a presentation. ``remark``: what is
    amiss although there is text.
    """

    kind: Kind
    text: str
    page_starts: tuple[int, ...] = ()
    remark: str | None = None


def paged(kind: Kind, pages: list[str], remark: str | None = None) -> Document:
    """A document of numbered pages, a blank line between them."""
    starts, position = [], 0
    for page in pages:
        starts.append(position)
        position += len(page) + 2
    return Document(kind, "".join(page + "\n\n" for page in pages), tuple(starts), remark)


def counted(count: int, noun: str) -> str:
    """``1 page``, ``2 pages``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
