"""The tables of a text, and which lines of each are its header: chunks of rows are no use without it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ragla.retrieve.document import Kind

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 20
# One record of a CSV file; a quoted field may hold line ends.
_RECORD = re.compile(r"""(?:"[^"]*"|[^"\r\n]+|")*(?:\r\n|\n|\r|\Z)""")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_QUOTED = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"[-+]?[\d.,]*\d\s*%?")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_GRID_ROW = re.compile(r"[ \t]*[|+].*[|+][ \t]*$")
_GRID_TOP = re.compile(r"[ \t]*\+(?:-+\+)+[ \t]*$")
_GRID_RULE = re.compile(r"[ \t]*\+(?:=+\+)+[ \t]*$")
_SIMPLE_RULE = re.compile(r"[ \t]*=+(?:[ \t]+=+)+[ \t]*$")
_ADOC_FENCE = re.compile(r"\|={3,}[ \t]*$")
_PIPED: tuple[Kind, ...] = ("markdown", "html", "word", "slides", "sheet", "book", "notebook", "org")


@dataclass(frozen=True)
class Table:
    """``text[start:end]`` is the table, ``text[rows[0]:end]`` what follows its header; rows start lines.

    ``header``: the cells of the header, on one line.
    """

    start: int
    end: int
    header: str
    rows: tuple[int, ...]


def tables(kind: Kind, text: str) -> list[Table]:
    """The tables of a text that have a header and rows, in order."""
    if kind == "table":
        return list(_records(text))
    lines = [(match.start(), match[0].rstrip("\r\n")) for match in _LINE.finditer(text)]
    if kind in _PIPED:
        return list(_piped(lines, len(text)))
    if kind == "rst":
        return [*_grids(lines, len(text)), *_simple(lines, len(text))]
    return list(_asciidoc(lines, len(text))) if kind == "asciidoc" else []


def delimiter_of(text: str) -> str | None:
    """What separates the fields of a CSV file, or None when its first rows do not agree on anything."""
    rows = []
    for match in _RECORD.finditer(text):
        if match[0].strip():
            rows.append(_QUOTED.sub("", match[0]))
        if len(rows) == _SAMPLE_ROWS or match.end() == len(text):
            break
    best, score = None, 0.0
    for delimiter in _DELIMITERS:
        counts = Counter(row.count(delimiter) for row in rows)
        count, agreeing = counts.most_common(1)[0] if counts else (0, 0)
        share = agreeing / len(rows) if count else 0.0
        if share > max(score, 0.6):
            best, score = delimiter, share
    return best


def pipe_table(rows: list[list[str]]) -> str:
    """Rows of cells as a Markdown table whose first row is its header."""
    width = max(len(row) for row in rows)
    lines = ["| " + " | ".join([*map(_pipe_cell, row), *[""] * (width - len(row))]) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def _pipe_cell(text: str) -> str:
    """A cell on one line, in which no character ends it."""
    return " ".join(text.split()).replace("|", "\\|")


def _header(cells: list[str]) -> str:
    """One line, without what would make it look like a step of a title path."""
    return " | ".join(" ".join(cell.split()) for cell in cells).replace(" > ", " ")


def _records(text: str) -> Iterator[Table]:
    """A CSV file is one table. Its first record is no header when a field of it is a number."""
    starts = [match.start() for match in _RECORD.finditer(text) if match[0].strip()]
    if len(starts) < 2:
        return
    first = text[starts[0] : starts[1]].strip()
    delimiter = delimiter_of(text) or ","
    fields = [field.strip().strip('"') for field in _fields(first, delimiter)]
    named = all(not _NUMBER.fullmatch(field) for field in fields) and any(fields)
    yield Table(starts[0], len(text), _header(fields) if named else "", tuple(starts[1:]))


def _fields(record: str, delimiter: str) -> list[str]:
    hidden = _QUOTED.sub(lambda match: match[0].replace(delimiter, "\0"), record)
    return [field.replace("\0", delimiter) for field in hidden.split(delimiter)]


def _runs(
    lines: list[tuple[int, str]], row: re.Pattern[str], end: int
) -> Iterator[tuple[list[tuple[int, str]], int]]:
    """Runs of lines that look like rows, each with the offset of its end."""
    run: list[tuple[int, str]] = []
    for offset, line in [*lines, (end, "")]:
        if row.match(line):
            run.append((offset, line))
        elif run:
            yield run, offset
            run = []


def _piped(lines: list[tuple[int, str]], end: int) -> Iterator[Table]:
    for run, after in _runs(lines, _ROW, end):
        if len(run) > 2 and _RULE.match(run[1][1]):
            cells = re.split(r"(?<!\\)\|", run[0][1].strip().strip("|"))
            yield Table(
                run[0][0], after, _header([cell.replace("\\|", "|") for cell in cells]), _offsets(run[2:])
            )


def _grids(lines: list[tuple[int, str]], end: int) -> Iterator[Table]:
    for run, after in _runs(lines, _GRID_ROW, end):
        rule = next((at for at, (_, line) in enumerate(run) if _GRID_RULE.match(line)), None)
        if rule and rule + 1 < len(run) and _GRID_TOP.match(run[0][1]):
            cells = [line.strip().strip("|").split("|") for _, line in run[1:rule] if line.lstrip()[0] == "|"]
            columns = [" ".join(part) for part in zip(*cells, strict=False)]
            yield Table(run[0][0], after, _header(columns), _offsets(run[rule + 1 :]))


def _simple(lines: list[tuple[int, str]], end: int) -> Iterator[Table]:
    """Tables between three rules of ``=``; the header stands between the first two."""
    rules = [at for at, (_, line) in enumerate(lines) if _SIMPLE_RULE.match(line)]
    while len(rules) >= 3:
        top, middle, bottom = rules[:3]
        if middle - top > 1 and bottom - middle > 1 and bottom - top < 100_000:
            cells = re.split(r"[ \t]{2,}", " ".join(line.strip() for _, line in lines[top + 1 : middle]))
            after = lines[bottom + 1][0] if bottom + 1 < len(lines) else end
            yield Table(lines[top][0], after, _header(cells), _offsets(lines[middle + 1 : bottom]))
        rules = rules[3:]


def _asciidoc(lines: list[tuple[int, str]], end: int) -> Iterator[Table]:
    """Tables between ``|===``; the first line is the header when an empty one follows it."""
    fences = [at for at, (_, line) in enumerate(lines) if _ADOC_FENCE.match(line)]
    for top, bottom in zip(fences[::2], fences[1::2], strict=False):
        if bottom - top > 3 and lines[top + 1][1].strip() and not lines[top + 2][1].strip():
            cells = [cell for cell in lines[top + 1][1].split("|") if cell.strip()]
            after = lines[bottom + 1][0] if bottom + 1 < len(lines) else end
            yield Table(lines[top][0], after, _header(cells), _offsets(lines[top + 3 : bottom]))


def _offsets(lines: list[tuple[int, str]]) -> tuple[int, ...]:
    return tuple(offset for offset, _ in lines)
