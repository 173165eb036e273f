"""Word documents and RTF to text."""

from __future__ import annotations

import re
from collections.abc import Callable

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.document import Document, NotIndexable
from ragla.retrieve.html import html_to_markdown
from ragla.retrieve.readers.package import Package

_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
# mammoth holds the document as a tree of some 35 times its size.
_MAX_XML = 24_000_000
_CODE_PAGE = re.compile(rb"\\ansicpg(\d+)")


def read_docx(raw: bytes) -> Document:
    """A docx file: headings, paragraphs, lists, tables and notes; pictures have no text."""
    import mammoth

    package = Package(raw, "Word document", _MAX_XML).only_xml()
    converted = mammoth.convert_to_html(
        package,
        style_map=_STYLES,
        include_embedded_style_map=False,
        convert_image=mammoth.images.img_element(lambda image: {}),  # never opens the picture
    )
    return Document("word", html_to_markdown(str(converted.value)))


def read_rtf(raw: bytes) -> Document:
    """An RTF file, in the code page that it names."""
    from striprtf import striprtf

    to_text: Callable[..., str] = striprtf.rtf_to_text
    page = _CODE_PAGE.search(raw[:2048])
    encoding = f"cp{page[1].decode()}" if page else "cp1252"
    try:
        text = to_text(raw.decode("latin-1"), encoding=encoding, errors="replace")
    except (LookupError, ValueError, IndexError) as error:
        raise NotIndexable(f"damaged RTF document: {type(error).__name__}") from error
    return Document("text", neutralise(text))
