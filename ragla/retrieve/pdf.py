"""The text layer of a PDF, page by page."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.document import Document, NotIndexable, counted, paged

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader


def read_pdf(raw: bytes) -> Document:
    """The pages that have a text layer; how many have none is remarked.

    Raises NotIndexable when none has one, and as ``pdf_pages`` does.
    """
    pages = pdf_pages(raw)
    blank = sum(not page.strip() for page in pages)
    if blank == len(pages):
        raise NotIndexable(f"no text layer on any of {counted(len(pages), 'page')}: scanned?")
    remark = f"no text layer on {blank} of {counted(len(pages), 'page')}" if blank else None
    return paged("pdf", pages, remark)


def pdf_pages(raw: bytes) -> list[str]:
    """Text of each page, empty where a page has none.

    Raises NotIndexable for an encrypted or a damaged file. A page that cannot be parsed counts as empty:
    what the parser says about it is no content.
    """
    # Damaged files make pypdf log to stderr line by line; the reason a user gets is the one below.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = _open(raw)
    try:
        pages = list(reader.pages)
    except Exception as error:  # a damaged page tree raises whatever the first bad object causes
        raise NotIndexable(f"damaged PDF: {_line(error)}") from error
    if not pages:
        raise NotIndexable("PDF without pages")
    return [_page_text(page) for page in pages]


def _open(raw: bytes) -> PdfReader:
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(raw), strict=False)
        locked = _lock(reader) if reader.is_encrypted else None
    except Exception as error:  # as above
        raise NotIndexable(f"damaged PDF: {_line(error)}") from error
    if locked:
        raise NotIndexable(locked)
    return reader


def _lock(reader: PdfReader) -> str | None:
    """Why it does not open. Many PDFs are encrypted with an empty password, only to forbid printing."""
    from pypdf.errors import DependencyError

    try:
        return None if reader.decrypt("") else "encrypted PDF: a password is needed"
    except DependencyError:
        return "encrypted PDF (AES): pip install cryptography, then ragla index --retry"
    except NotImplementedError:
        return "encrypted PDF, in a way that is not known"


def _page_text(page: PageObject) -> str:
    try:
        return neutralise(page.extract_text())
    except Exception:  # see pdf_pages
        return ""


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
