"""Bytes of one file to the text of one document, by what they are rather than what they are called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

from ragla.retrieve.decoding import decode
from ragla.retrieve.document import Document, Kind, NotIndexable
from ragla.retrieve.formats import (
    binary_name,
    format_of,
    kind_by_name,
    looks_like_html,
    looks_like_mail,
    promised_by_name,
    suffix_of,
)

__all__ = ["MAX_BYTES", "READERS", "Document", "Kind", "NotIndexable", "read_document"]

MAX_BYTES = 50_000_000
# Part of the fingerprint: raise it when the same file would be read as another text.
READERS = "4"

# Format to (module, function of the bytes); imported when the first such file is met.
_READERS = {
    "pdf": ("ragla.retrieve.pdf", "read_pdf"),
    "docx": ("ragla.retrieve.readers.word", "read_docx"),
    "rtf": ("ragla.retrieve.readers.word", "read_rtf"),
    "pptx": ("ragla.retrieve.readers.slides", "read_pptx"),
    "xlsx": ("ragla.retrieve.readers.sheet", "read_xlsx"),
    "epub": ("ragla.retrieve.readers.book", "read_epub"),
    "mail": ("ragla.retrieve.readers.mail", "read_mail"),
    "ole": ("ragla.retrieve.readers.package", "refuse_ole"),
    "zip": ("ragla.retrieve.readers.package", "refuse_zip"),
}
_OPEN_SUFFIXES = frozenset({"", ".txt", ".text", ".log", ".json"})


def read_document(name: str, raw: bytes) -> Document:
    """Turn the bytes of the file called ``name`` into a document.

    Raises NotIndexable for anything without text: binary, empty, encrypted, damaged, a PDF of scans.
    """
    if not raw:
        raise NotIndexable("empty file")
    found = format_of(raw)
    if found is None and (suffix_of(name) == ".eml" or looks_like_mail(raw)):
        found = "mail"
    if found is not None:
        return _checked(_reader(found)(raw))
    if what := binary_name(raw):
        raise NotIndexable(f"binary file ({what})")
    return _checked(_read_text(name, raw))


def _reader(found: str) -> Callable[[bytes], Document]:
    module, function = _READERS[found]
    reader: Callable[[bytes], Document] = getattr(importlib.import_module(module), function)
    return reader


def _checked(document: Document) -> Document:
    if not document.text.strip():
        raise NotIndexable("no text in it")
    return document


def _read_text(name: str, raw: bytes) -> Document:
    kind = kind_by_name(name)
    html = kind == "html" or looks_like_html(raw)
    text = decode(raw, declared=html or kind == "code")
    if text is None:
        raise NotIndexable("binary file")
    promised = promised_by_name(name)
    remark = f"no {promised.partition(' ')[2]}, whatever its name says: read as text" if promised else None
    if html:
        from ragla.retrieve.html import html_to_markdown

        return Document("html", html_to_markdown(text), remark=remark)
    if (kind == "notebook" or suffix_of(name) in _OPEN_SUFFIXES) and (notebook := _notebook(text)):
        return notebook
    return replace(Document(_kind_of_text(kind, text), text), remark=remark)


def _notebook(text: str) -> Document | None:
    if text.lstrip()[:1] != "{" or '"cells"' not in text:
        return None
    from ragla.retrieve.readers.notebook import read_notebook

    return read_notebook(text)


def _kind_of_text(named: Kind | None, text: str) -> Kind:
    """What a file of text is: its name is believed as far as the text bears it out."""
    if named == "table":
        from ragla.retrieve.tables import delimiter_of

        return "table" if delimiter_of(text) else "text"
    if named == "notebook":  # the name alone does not make it one
        return "json"
    if named is None and text.startswith("#!"):
        return "code"
    return named or "text"
