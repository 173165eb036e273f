"""The headings of a Markdown text and the path that leads to each."""

from __future__ import annotations

import re

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_PARAGRAPH = re.compile(r" {0,3}(?![-+*>#|]|\d+[.)])\S")


def heading_paths(text: str) -> list[tuple[int, str]]:
    """The offset of each heading and its path, such as ``Travel > Booking``, in order.

    ATX and setext headings of CommonMark; lines inside fenced code are no headings.
    """
    paths: list[tuple[int, str]] = []
    open_headings: list[tuple[int, str]] = []
    for offset, level, name in _headings(text):
        open_headings = [heading for heading in open_headings if heading[0] < level]
        open_headings.append((level, name))
        paths.append((offset, " > ".join(title for _, title in open_headings if title)))
    return paths


def _headings(text: str) -> list[tuple[int, int, str]]:
    """(offset, level, name) of each heading."""
    found: list[tuple[int, int, str]] = []
    fence = ""
    previous: tuple[int, str] | None = None  # a line that a setext underline would make a heading
    for match in _LINE.finditer(text):
        line = match[0].rstrip("\r\n")
        marker = _FENCE.match(line)
        if marker and (not fence or _closes(fence, marker[1], line)):
            fence = "" if fence else marker[1]
            previous = None
        elif fence:
            continue
        elif atx := _ATX.match(line):
            found.append((match.start(), len(atx[1]), (atx[2] or "").strip()))
            previous = None
        elif previous and (setext := _SETEXT.match(line)):
            found.append((previous[0], 1 if setext[1][0] == "=" else 2, previous[1]))
            previous = None
        else:
            previous = (match.start(), line.strip()) if _PARAGRAPH.match(line) else None
    return found


def _closes(fence: str, marker: str, line: str) -> bool:
    return marker[0] == fence[0] and len(marker) >= len(fence) and not line.strip().strip(marker[0])
