"""Bytes of one file to the text of one document, by what they are rather than what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from ragla.retrieve.decoding import decode

Kind = Literal["markdown", "text", "html", "pdf", "code"]

MAX_BYTES = 50_000_000

_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_CODE = frozenset(
    {
        ".bash", ".c", ".cc", ".cfg", ".cjs", ".cpp", ".cs", ".css", ".go", ".h", ".hpp", ".ini",
        ".java", ".jl", ".js", ".json", ".jsonl", ".jsx", ".kt", ".lua", ".m", ".mjs", ".php", ".pl",
        ".proto", ".ps1", ".py", ".pyi", ".r", ".rb", ".rs", ".scala", ".scss", ".sh", ".sql", ".swift",
        ".tf", ".toml", ".ts", ".tsx", ".vue", ".xml", ".yaml", ".yml", ".zsh",
    }
)  # fmt: skip


class NotIndexable(Exception):
    """This file has no text to index; the message is the reason a user reads."""


@dataclass(frozen=True)
class Document:
    """The text of a file. ``page_starts``: offsets of the pages of a PDF. ``remark``: what is amiss."""

    kind: Kind
    text: str
    page_starts: tuple[int, ...] = ()
    remark: str | None = None


def read_document(name: str, raw: bytes) -> Document:
    """Turn the bytes of the file called ``name`` into a document.

    Raises NotIndexable for anything without text: binary, empty, encrypted, a PDF of scans.
    """
    if not raw:
        raise NotIndexable("empty file")
    suffix = PurePath(name).suffix.lower()
    if b"%PDF-" in raw[:1024]:
        return _checked(_read_pdf(raw))
    if suffix == ".pdf":
        raise NotIndexable("not a PDF, whatever its name says")
    html = suffix in _HTML or _looks_like_html(raw)
    text = decode(raw, declared=html)
    if text is None:
        raise NotIndexable("binary file")
    if html:
        return _checked(_read_html(text))
    kind: Kind = "markdown" if suffix in _MARKDOWN else "code" if suffix in _CODE else "text"
    return _checked(Document(kind, text))


def _checked(document: Document) -> Document:
    if not document.text.strip():
        raise NotIndexable("no text in it")
    return document


def _looks_like_html(raw: bytes) -> bool:
    head = raw[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return head.startswith((b"<!doctype html", b"<html"))


def _read_html(text: str) -> Document:
    from ragla.retrieve.html import html_to_markdown

    return Document("html", html_to_markdown(text))


def _read_pdf(raw: bytes) -> Document:
    from ragla.retrieve.pdf import pdf_pages

    pages = pdf_pages(raw)
    starts, parts, position = [], [], 0
    for page in pages:
        starts.append(position)
        parts.append(page + "\n\n")
        position += len(page) + 2
    blank = sum(not page.strip() for page in pages)
    if blank == len(pages):
        raise NotIndexable(f"no text layer on any of {_pages(len(pages))}: scanned?")
    remark = f"no text layer on {blank} of {_pages(len(pages))}" if blank else None
    return Document("pdf", "".join(parts), tuple(starts), remark)


def _pages(count: int) -> str:
    return f"{count} page" + ("" if count == 1 else "s")
