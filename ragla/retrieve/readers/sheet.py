"""Workbooks to text: a heading for each sheet, a Markdown table for each block of rows."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.document import Document, NotIndexable
from ragla.retrieve.readers.package import Package
from ragla.retrieve.tables import pipe_table

if TYPE_CHECKING:
    from openpyxl.cell.cell import Cell, MergedCell

# A sheet may name a cell in its last corner; what lies between is not to be walked for ever.
_MAX_ROWS = 1_048_576
_MAX_CELLS = 5_000_000


def read_xlsx(raw: bytes) -> Document:
    """An xlsx file: the values as stored and shown, formulas by the value they last had."""
    from openpyxl import load_workbook

    package = Package(raw, "workbook").only_xml()
    with warnings.catch_warnings():  # openpyxl warns of every feature that it does not keep
        warnings.simplefilter("ignore")
        try:
            workbook = load_workbook(package, read_only=True, data_only=True, keep_links=False)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise NotIndexable(f"damaged workbook: {type(error).__name__}") from error
        budget = _Budget()
        parts = []
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # some programs write wrong ones, which would hide cells
            rows = budget.bounded(sheet.iter_rows())
            blocks = list(_blocks(rows))
            if blocks:
                parts.append(f"# {' '.join(str(sheet.title).split())}\n\n" + "\n\n".join(blocks) + "\n")
    return Document("sheet", neutralise("\n".join(parts)))


class _Budget:
    """Counts rows and cells of all sheets; a workbook of millions of nothing is refused."""

    def __init__(self) -> None:
        self._cells = 0

    def bounded(self, rows: Iterable[tuple[Cell | MergedCell, ...]]) -> Iterator[list[str]]:
        for number, row in enumerate(rows, 1):
            self._cells += len(row)
            if number > _MAX_ROWS or self._cells > _MAX_CELLS:
                raise NotIndexable(
                    f"too large: a sheet of more than {_MAX_CELLS:,} cells or {_MAX_ROWS:,} rows"
                )
            cells = [_shown(cell) for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            yield cells


def _blocks(rows: Iterable[list[str]]) -> Iterator[str]:
    """Tables, which blank rows end; rows of one cell before a table are lines of text."""
    lines: list[str] = []
    table: list[list[str]] = []
    for cells in chain(rows, [[]]):
        if table and cells:
            table.append(cells)
            continue
        if table:
            yield _table(table)
            table = []
        if sum(map(bool, cells)) > 1:
            if lines:
                yield "\n".join(lines)
            lines, table = [], [cells]
        elif cells:
            lines.append(cells[-1])
    if lines:
        yield "\n".join(lines)


def _table(rows: list[list[str]]) -> str:
    """Without the empty columns on the left, where many tables do not begin."""
    left = min(next(i for i, cell in enumerate(row) if cell) for row in rows)
    return pipe_table([row[left:] for row in rows])


def _shown(cell: Cell | MergedCell) -> str:
    value: Any = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float | int):
        share = "%" in str(cell.number_format)
        number = (
            format(value * 100 if share else value, ".15g")
            if isinstance(value, float) or share
            else str(value)
        )
        return number + ("%" if share else "")
    if isinstance(value, datetime.datetime):
        return (
            value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
        )
    return str(value).strip()
