"""Which format a file has: by its bytes first, by its name where bytes of text leave it open."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import PurePath

from ragla.retrieve.document import Kind

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

# Bytes no text begins with, and what they say the file is.
_MAGIC = (
    (b"\x89PNG\r\n", "PNG image"), (b"\xff\xd8\xff", "JPEG image"), (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"), (b"II*\0", "TIFF image"), (b"MM\0*", "TIFF image"),
    (b"\x1f\x8b\x08", "gzip archive"), (b"BZh91AY&SY", "bzip2 archive"), (b"\xfd7zXZ\0", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"), (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!\x1a\x07", "RAR archive"), (b"\x7fELF", "program"), (b"\xca\xfe\xba\xbe", "program"),
    (b"\xcf\xfa\xed\xfe", "program"), (b"\0asm", "WebAssembly"), (b"SQLite format 3\0", "SQLite database"),
    (b"\x89HDF\r\n", "HDF5 data"), (b"\x93NUMPY", "NumPy array"), (b"OggS\0", "audio or video"),
    (b"ID3\x03\0", "audio"), (b"ID3\x04\0", "audio"), (b"fLaC\0", "audio"), (b"wOFF", "font"),
    (b"wOF2", "font"),
)  # fmt: skip

_SUFFIXES: dict[Kind, str] = {
    "markdown": ".md .markdown .mdown .mkd .mdx .qmd .rmd",
    "html": ".html .htm .xhtml .shtml",
    "rst": ".rst .rest",
    "asciidoc": ".adoc .asciidoc",
    "org": ".org",
    "table": ".csv .tsv .tab .psv",
    "notebook": ".ipynb",
    "mail": ".eml",
    "json": ".json .jsonl .ndjson .geojson .jsonld .webmanifest",
    "yaml": ".yaml .yml",
    "toml": ".toml .ini .cfg .editorconfig",
    "code": ".bash .c .cc .cjs .clj .cpp .cs .css .cu .cxx .dart .elm .ex .exs .fs .go .gradle "
    ".groovy .h .hh .hpp .hs .java .jl .js .jsx .kt .kts .less .lua .m .mjs .ml .mm .nim .php .pl "
    ".pm .proto .ps1 .py .pyi .pyx .r .rb .rs .sass .scala .scss .sh .sql .svelte .swift .tcl .tf "
    ".ts .tsx .vb .vue .xml .zig .zsh",
}
_MARKUP = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
# Suffixes that promise bytes; text under such a name is worth a remark.
_PROMISED = {
    ".pdf": "a PDF", ".docx": "a Word document", ".docm": "a Word document", ".doc": "a Word document",
    ".pptx": "a presentation", ".ppt": "a presentation", ".xlsx": "a workbook", ".xlsm": "a workbook",
    ".xls": "a workbook", ".epub": "an EPUB", ".rtf": "an RTF document", ".zip": "an archive",
    ".gz": "an archive", ".png": "an image", ".jpg": "an image", ".jpeg": "an image", ".gif": "an image",
}  # fmt: skip
_ZIPPED = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
_MAIL_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:[ \t]|[ \t]+\S")
_MAIL_TELLING = re.compile(
    rb"^(?:message-id|mime-version|return-path|received):", re.IGNORECASE | re.MULTILINE
)


def suffix_of(name: str) -> str:
    """The lower-case suffix, with its dot."""
    return PurePath(name).suffix.lower()


def format_of(raw: bytes) -> str | None:
    """pdf, docx, pptx, xlsx, epub, rtf, ole (old office files) or zip; None: the bytes leave it open."""
    if _is_pdf(raw):
        return "pdf"
    if raw.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_format(raw)
    if raw.startswith(_OLE):
        return "ole"
    return "rtf" if raw.startswith(b"{\\rtf") else None


def binary_name(raw: bytes) -> str | None:
    """What kind of bytes these are when their first ones tell that they are no text."""
    for magic, what in _MAGIC:
        if raw.startswith(magic):
            return what
    if raw[257:262] == b"ustar":
        return "tar archive"
    if raw[4:8] == b"ftyp" and raw[:3] == b"\0\0\0":
        return "video"
    return (
        "audio, video or image" if raw[:4] == b"RIFF" and raw[8:12] in (b"WAVE", b"AVI ", b"WEBP") else None
    )


def kind_by_name(name: str) -> Kind | None:
    """What the suffix says a file of text is."""
    return _MARKUP.get(suffix_of(name))


def promised_by_name(name: str) -> str | None:
    """What a suffix promises that a file of text is not."""
    return _PROMISED.get(suffix_of(name))


def looks_like_html(raw: bytes) -> bool:
    """Whether it begins as an HTML or XHTML page does, comments and an XML declaration aside."""
    head = raw[:2048].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"<?xml"):
        head = head.partition(b"?>")[2].lstrip()
    while head.startswith(b"<!--") and b"-->" in head:
        head = head.partition(b"-->")[2].lstrip()
    return head.startswith((b"<!doctype html", b"<html"))


def looks_like_mail(raw: bytes) -> bool:
    """Whether it begins with a block of mail headers, one of which only mail has."""
    head = raw[:8192].replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    lines = head.split(b"\n")
    return (
        len(lines) >= 3
        and all(_MAIL_HEADER.match(line) for line in lines)
        and _MAIL_TELLING.search(head) is not None
    )


def _is_pdf(raw: bytes) -> bool:
    """Some PDFs have junk before their header; a text about PDF that names the header has no trailer."""
    at = raw[:1024].find(b"%PDF-")
    return at >= 0 and (not raw[:at].strip(b"\xef\xbb\xbf \t\r\n\0") or b"startxref" in raw[-2048:])


def _zip_format(raw: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, OSError):
        return "zip"
    for member, found in _ZIPPED.items():
        if member in names:
            return found
    return "epub" if "META-INF/container.xml" in names else "zip"
