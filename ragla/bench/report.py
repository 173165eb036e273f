"""A bench result for the terminal: a table with its conditions, or a block a decoder where it is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ragla.bench.cells import Cell, cells, interval_cell, number, speed
from ragla.bench.charts import charts
from ragla.bench.described import busy_line, conditions, difference_lines, first_answer_line, quality_lines
from ragla.bench.names import kind
from ragla.bench.result import BenchResult, DecoderResult
from ragla.render import one_line


@dataclass(frozen=True)
class Report:
    """A rich renderable of a result; it fits itself to the console's width."""

    result: BenchResult

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The numbers, those of each category, the charts, the first differences and the conditions."""
        rows = {name: cells(found, self.result) for name, found in self.result.decoders.items()}
        yield fitted(console, options, rows, "decoder")
        for name in drafting(self.result):
            if of_categories := category_rows(self.result, name):
                yield Text()
                yield Text(f"{name}, by category", style="bold")
                yield fitted(console, options, of_categories, "category")
        yield Text()
        yield from charts(self.result, options.max_width)
        quality = quality_lines(self.result) if self.result.exact is None else []
        for line in [*quality, *difference_lines(self.result)]:
            yield Text(line)
        if (first := first_answer_line(self.result)) is not None:
            yield Text(first)
        if (busy := busy_line(self.result)) is not None:
            yield Text(busy, style="bold yellow")
        yield Text(conditions(self.result), style="dim")


def drafting(result: BenchResult) -> Iterator[str]:
    """The decoders that are no plain loop."""
    return (name for name in result.decoders if kind(name) not in ("greedy", "hf-greedy"))


def category_rows(result: BenchResult, name: str) -> dict[str, list[Cell]]:
    """One decoder's numbers in each category."""
    return {
        one_line(category): _category(its[name]) for category, its in result.categories.items() if name in its
    }


def _category(found: DecoderResult) -> list[Cell]:
    same, of = found.identical
    numbers = [
        Cell(("", "questions"), str(of)),
        Cell(("tokens", "/step"), number(found.tokens_per_step, 2)),
        Cell(("tokens", "/s"), number(speed(found), 1)),
        interval_cell(("×", "greedy"), found.speedup_vs_greedy, None, 2),
        Cell(("same", "text"), f"{same}/{of}"),
    ]
    return numbers if found.token_f1 is None else [*numbers, Cell(("token", "F1"), number(found.token_f1, 2))]


def fitted(
    console: Console, options: ConsoleOptions, rows: dict[str, list[Cell]], label: str
) -> RenderableType:
    """The rows as a table, or as blocks where that is too wide."""
    wide = table(rows, label)
    fits = Measurement.get(console, options.update(width=1000), wide).maximum <= options.max_width
    return wide if fits else blocks(rows)


def table(rows: dict[str, list[Cell]], label: str) -> Table:
    """One row a name, a spread below its number."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    drawn.add_column(f"\n{label}", no_wrap=True)
    headings = headings_of(rows)
    for heading in headings:
        drawn.add_column("\n".join(heading), justify="right", no_wrap=True)
    for name, row in rows.items():
        by_heading = {cell.heading: _stacked(cell) for cell in row}
        drawn.add_row(Text(name), *[by_heading.get(heading, Text()) for heading in headings])
    return drawn


def headings_of(rows: dict[str, list[Cell]]) -> Sequence[tuple[str, str]]:
    """All headings, in the order of the row that has most."""
    longest = max(rows.values(), key=len)
    return [cell.heading for cell in longest]


def blocks(rows: dict[str, list[Cell]]) -> Table:
    """One block a name, a number a line."""
    drawn = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for column in ("number", "value", "spread"):
        drawn.add_column(column, justify="left" if column == "number" else "right")
    for name, row in rows.items():
        if drawn.row_count:
            drawn.add_row()
        drawn.add_row(Text(name, style="bold"))
        for cell in row:
            drawn.add_row(f"  {label_of(cell)}", cell.text, Text(cell.spread, style="dim"))
    return drawn


def label_of(cell: Cell) -> str:
    """A heading in one line."""
    first, second = cell.heading
    return f"{first}{'' if first.endswith('-') or second.startswith('/') else ' '}{second}".strip()


def _stacked(cell: Cell) -> Text:
    return Text.assemble(cell.text, *([("\n" + cell.spread, "dim")] if cell.spread else []))
