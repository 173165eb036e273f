"""The headings of a text in a markup language, and the path that leads to each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_PARAGRAPH = re.compile(r" {0,3}(?![-+*>#|]|\d+[.)])\S")
_RST_RULE = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*$")
_ADOC = re.compile(r"(={1,6})[ \t]+(\S.*?)(?:[ \t]+=+)?[ \t]*$")
_ADOC_BLOCK = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,})[^-.+/`]*$")
_ORG = re.compile(r"(\*+)[ \t]+(?:(?:TODO|DONE)[ \t]+)?(?:\[#\w\][ \t]+)?(.*?)(?:[ \t]+:[\w@#%:]+:)?[ \t]*$")
_ORG_BLOCK = re.compile(r"[ \t]*#\+(begin|end)_(\w+)", re.IGNORECASE)


@dataclass(frozen=True)
class Heading:
    """A heading that begins at ``start``; what it heads begins at ``body``. Level 1 is the outermost."""

    start: int
    body: int
    level: int
    name: str


@dataclass(frozen=True)
class Line:
    """``text[start:end]`` with its line end; ``text`` is without it."""

    start: int
    end: int
    text: str


def lines_of(text: str) -> list[Line]:
    """The lines, whether they end in LF, CRLF or CR."""
    return [Line(match.start(), match.end(), match[0].rstrip("\r\n")) for match in _LINE.finditer(text)]


def paths(headings: Iterable[Heading]) -> Iterator[tuple[Heading, tuple[str, ...]]]:
    """Each heading with the names that lead to it, its own last."""
    above: list[Heading] = []
    for heading in headings:
        above = [outer for outer in above if outer.level < heading.level]
        above.append(heading)
        yield heading, tuple(outer.name for outer in above if outer.name)


def markdown_headings(text: str) -> list[Heading]:
    """ATX and setext headings of CommonMark; lines inside fenced code are no headings."""
    found: list[Heading] = []
    fence = ""
    previous: Line | None = None  # a line that a setext underline would make a heading
    for line in lines_of(text):
        marker = _FENCE.match(line.text)
        if marker and (not fence or _closes(fence, marker[1], line.text)):
            fence = "" if fence else marker[1]
            previous = None
        elif fence:
            continue
        elif atx := _ATX.match(line.text):
            found.append(Heading(line.start, line.end, len(atx[1]), (atx[2] or "").strip()))
            previous = None
        elif previous and (setext := _SETEXT.match(line.text)):
            level = 1 if setext[1][0] == "=" else 2
            found.append(Heading(previous.start, line.end, level, previous.text.strip()))
            previous = None
        else:
            previous = line if _PARAGRAPH.match(line.text) else None
    return found


def _closes(fence: str, marker: str, line: str) -> bool:
    return marker[0] == fence[0] and len(marker) >= len(fence) and not line.strip().strip(marker[0])


def rst_headings(text: str) -> list[Heading]:
    """Titles with an underline of their length at least, and perhaps an overline; levels by first use."""
    found: list[Heading] = []
    levels: dict[tuple[str, bool], int] = {}
    lines = lines_of(text)
    at = 0
    while at + 1 < len(lines):
        title, under = lines[at], _rule(lines[at + 1])
        over = _rule(lines[at - 1]) if at else ""
        blank_above = at == 0 or not lines[at - 1].text.strip()
        name = title.text.strip()
        if name and len(under) >= max(3, len(name)) and not _rule(title) and (over == under or blank_above):
            framed = over == under
            if framed or not title.text[0].isspace():
                level = levels.setdefault((under[0], framed), len(levels) + 1)
                found.append(Heading(lines[at - framed].start, lines[at + 1].end, level, name))
                at += 1
        at += 1
    return found


def _rule(line: Line) -> str:
    """The line when it is one punctuation character over and over, else nothing."""
    return line.text.rstrip() if _RST_RULE.match(line.text) else ""


def asciidoc_headings(text: str) -> list[Heading]:
    """``= Title`` to ``====== Title`` outside of listings and comments."""
    found: list[Heading] = []
    block = ""
    for line in lines_of(text):
        if fence := _ADOC_BLOCK.match(line.text):
            block = fence[1] if not block else "" if fence[1] == block else block
        elif not block and (heading := _ADOC.match(line.text)):
            found.append(Heading(line.start, line.end, len(heading[1]), heading[2]))
    return found


def org_headings(text: str) -> list[Heading]:
    """``* Title`` and deeper, outside of blocks; keywords, priorities and tags are no part of the name."""
    found: list[Heading] = []
    block = ""
    for line in lines_of(text):
        if fence := _ORG_BLOCK.match(line.text):
            begins, name = fence[1].lower() == "begin", fence[2].lower()
            block = name if begins and not block else "" if not begins and name == block else block
        elif not block and (heading := _ORG.match(line.text)):
            found.append(Heading(line.start, line.end, len(heading[1]), heading[2]))
    return found


def mail_headings(text: str) -> list[Heading]:
    """The subject, which begins the text of a mail; what its body has is not markup."""
    return [heading for heading in markdown_headings(text.partition("\n")[0]) if heading.start == 0]


MARKUP: dict[str, Callable[[str], list[Heading]]] = {
    **dict.fromkeys(("markdown", "html", "word", "slides", "sheet", "book", "notebook"), markdown_headings),
    "rst": rst_headings,
    "asciidoc": asciidoc_headings,
    "org": org_headings,
    "mail": mail_headings,
}
