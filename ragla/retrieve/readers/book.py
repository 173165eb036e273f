"""EPUB books to text: the chapters in reading order."""

from __future__ import annotations

from posixpath import join, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from ragla.retrieve.decoding import decode
from ragla.retrieve.document import Document, NotIndexable, counted
from ragla.retrieve.html import html_to_markdown
from ragla.retrieve.readers.package import Package

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")


def read_epub(raw: bytes) -> Document:
    """An EPUB: the pages of its spine; one that is missing is remarked, one under DRM refused."""
    package = Package(raw, "EPUB")
    spine = _spine(package)
    locked = _encrypted(package) & set(spine)
    if locked:
        raise NotIndexable(f"encrypted EPUB: {len(locked)} of {counted(len(spine), 'chapter')} under DRM")
    chapters = [_chapter(package.read(name)) for name in spine if name in package]
    missing = len(spine) - len(chapters)
    remark = f"{missing} of {counted(len(spine), 'chapter')} missing" if missing else None
    return Document("book", "\n".join(chapter for chapter in chapters if chapter.strip()), remark=remark)


def _spine(package: Package) -> list[str]:
    """Member names of the pages, in reading order."""
    root_file = _first(package.xml(_CONTAINER), "rootfile")
    place = "" if root_file is None else root_file.get("full-path", "")
    opf = package.xml(place)
    folder = place.rpartition("/")[0]
    items = {
        item.get("id"): normpath(join(folder, unquote(item.get("href", ""))))
        for item in opf.iter()
        if _local(item) == "item" and item.get("media-type") in _PAGES
    }
    order = (item.get("idref") for item in opf.iter() if _local(item) == "itemref")
    return list(dict.fromkeys(items[idref] for idref in order if idref in items))


def _encrypted(package: Package) -> set[str]:
    """What the encryption list names; books that only obscure their fonts have one too."""
    if _ENCRYPTION not in package:
        return set()
    references = (item for item in package.xml(_ENCRYPTION).iter() if _local(item) == "CipherReference")
    return {normpath(unquote(item.get("URI", ""))) for item in references}


def _chapter(raw: bytes) -> str:
    return html_to_markdown(decode(raw, declared=True) or "")


def _first(root: Element, name: str) -> Element | None:
    return next((element for element in root.iter() if _local(element) == name), None)


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
