"""Presentations to text: a page for each slide, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import join, normpath
from xml.etree.ElementTree import Element

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.document import Document, counted, paged
from ragla.retrieve.readers.package import Package
from ragla.retrieve.tables import pipe_table

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PRESENTATION = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
# Placeholders that say the same on every slide.
_FRAME = ("sldNum", "dt", "ftr", "hdr", "sldImg")


def read_pptx(raw: bytes) -> Document:
    """A pptx file: titles as headings, text, tables and the speaker's notes."""
    package = Package(raw, "presentation")
    targets = _targets(package, _PRESENTATION)
    order = package.xml(_PRESENTATION).iter(f"{_P}sldId")
    slides = [targets.get(slide.get(f"{_R}id") or "", "") for slide in order]
    # A page for a missing slide too, so that the others keep their numbers.
    pages = [_slide(package, name, at) if name in package else "" for at, name in enumerate(slides, 1)]
    missing = sum(name not in package for name in slides)
    remark = f"{missing} of {counted(len(slides), 'slide')} missing" if missing else None
    return paged("slides", pages, remark)


def _targets(package: Package, name: str) -> dict[str, str]:
    """What the relations of a part lead to: member names by relation id and, once each, by type."""
    folder, _, file = name.rpartition("/")
    relations = f"{folder}/_rels/{file}.rels"
    if relations not in package:
        return {}
    found: dict[str, str] = {}
    for relation in package.xml(relations):
        target = normpath(join(folder, relation.get("Target", ""))).lstrip("/")
        found[relation.get("Id", "")] = target
        found.setdefault(relation.get("Type", "").rpartition("/")[2], target)
    return found


def _slide(package: Package, name: str, number: int) -> str:
    title, blocks = "", []
    for shape in _shapes(package.xml(name)):
        if shape.tag == f"{_A}tbl":
            blocks.append(_table(shape))
            continue
        role = _role(shape)
        text = _text(shape)
        if role in _TITLES and not title:
            title = " ".join(text.split())
        elif role not in _FRAME:
            blocks.append(text)
    notes = _targets(package, name).get("notesSlide", "")
    if notes in package:
        said = [_text(shape) for shape in _shapes(package.xml(notes)) if _role(shape) == "body"]
        blocks.extend(f"Notes: {text}" for text in said if text.strip())
    heading = f"# {title or f'Slide {number}'}"
    return neutralise("\n\n".join([heading, *(block for block in blocks if block.strip())]))


def _shapes(root: Element) -> Iterator[Element]:
    for element in root.iter():
        if element.tag in (f"{_P}sp", f"{_A}tbl"):
            yield element


def _role(shape: Element) -> str | None:
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return None if placeholder is None else placeholder.get("type", "content")


def _text(shape: Element) -> str:
    lines = (_paragraph(paragraph) for paragraph in shape.iter(f"{_A}p"))
    return "\n".join(line for line in lines if line.strip())


def _paragraph(paragraph: Element) -> str:
    parts = []
    for element in paragraph.iter():
        if element.tag == f"{_A}t":
            parts.append(element.text or "")
        elif element.tag == f"{_A}br":
            parts.append("\n")
    return "".join(parts)


def _table(table: Element) -> str:
    rows = [[_text(cell) for cell in row.iter(f"{_A}tc")] for row in table.iter(f"{_A}tr")]
    return pipe_table(rows) if any(rows) else ""
