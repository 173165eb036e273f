"""A bench result as a Markdown table with its conditions below it: the README's, for one."""

from __future__ import annotations

from collections.abc import Sequence

from ragla.bench.cells import Cell, interval_cell, number, quality_cells
from ragla.bench.described import busy_line, conditions
from ragla.bench.result import BenchResult, DecoderResult
from ragla.render import one_line

NAMES = {
    "lookahead": "lookahead",
    "greedy": "greedy, same backend",
    "hf-prompt-lookup": "transformers' prompt lookup",
    "hf-greedy": "transformers' generate",
}


def markdown(result: BenchResult) -> str:
    """The table of decoders, that of categories where there are several, and the conditions."""
    rows = {NAMES.get(name, f"`{name}`"): row(found, result) for name, found in result.decoders.items()}
    written = [written_table("decoder", rows)]
    rows = {
        one_line(category): row(its["lookahead"], result)
        for category, its in result.categories.items()
        if "lookahead" in its
    }
    if rows:
        written.append(written_table("lookahead, by category", rows))
    if (busy := busy_line(result)) is not None:
        written.append(f"**{busy}**")
    return "\n\n".join([*written, escaped(conditions(result))])


def row(found: DecoderResult, result: BenchResult) -> list[Cell]:
    """The numbers of one line, medians over the questions where they have an interval."""
    same, of = found.identical
    numbers = [
        interval_cell(("tokens/step", ""), found.step_tokens, found.tokens_per_step, 2),
        interval_cell(("tokens/s", ""), found.tokens_per_s, found.decode_tokens_per_s, 1),
    ]
    if "greedy" in result.decoders:
        heading = "× greedy of its precision" if result.exact else "× greedy"
        numbers.append(interval_cell((heading, ""), found.speedup_vs_greedy, None, 2))
    if "hf-greedy" in result.decoders:
        numbers.append(interval_cell(("× transformers' greedy", ""), found.speedup_vs_hf_greedy, None, 2))
    numbers += [
        Cell(("first token, s", ""), number(found.ttft_s, 2)),
        Cell(("identical", ""), f"{same}/{of}"),
    ]
    return [*numbers, *quality_cells(found, result)]


def written_table(label: str, rows: dict[str, Sequence[Cell]] | dict[str, list[Cell]]) -> str:
    """Rows by their names, as Markdown."""
    first = next(iter(rows.values()))
    headings = [" ".join(cell.heading).strip() for cell in first]
    lines = [f"| {' | '.join([label, *headings])} |", f"|{'---|' * (1 + len(headings))}"]
    for name, its in rows.items():
        shown = [cell.text + (f" ({cell.spread.replace('–', ' – ')})" if cell.spread else "") for cell in its]
        lines.append(f"| {' | '.join([escaped(name), *shown])} |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Text that is no markup: names of models and categories are anyone's."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "\\<")
