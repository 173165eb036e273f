"""A bench result for the terminal: a table with its conditions, or a block a decoder where it is narrow."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ragla.bench.environment import TokenRange
from ragla.bench.names import STOCK_DECODERS
from ragla.bench.result import BenchResult, DecoderResult, Difference, Interval
from ragla.render import counted

NONE = "–"


@dataclass(frozen=True)
class Report:
    """A rich renderable of a result; it fits itself to the console's width."""

    result: BenchResult

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The numbers, the quality where there are references, the conditions, the first differences."""
        wide = table(self.result)
        fits = Measurement.get(console, options.update(width=1000), wide).maximum <= options.max_width
        yield wide if fits else blocks(self.result)
        yield Text()
        for line in [*quality_lines(self.result), *difference_lines(self.result)]:
            yield Text(line)
        yield Text(conditions(self.result), style="dim")


@dataclass(frozen=True)
class Cell:
    """One number: its column's heading in two lines, its text, and the spread below it."""

    heading: tuple[str, str]
    text: str
    spread: str = ""


def cells(found: DecoderResult, result: BenchResult) -> list[Cell]:
    """The numbers of one decoder; a speedup only where its baseline ran."""
    same, of = found.identical
    numbers = [
        Cell(("tokens", "/step"), _number(found.tokens_per_step, 2)),
        Cell(("", "accepted"), f"{found.accepted_share:.0%}"),
        Cell(("tokens", "/s"), _number(found.decode_tokens_per_s, 1)),
        Cell(("TTFT", "s"), _number(found.ttft_s, 2)),
    ]
    if "greedy" in result.decoders:
        numbers.append(_speedup(("×", "greedy"), found.speedup_vs_greedy))
    if "hf-greedy" in result.decoders:
        numbers.append(_speedup(("× hf-", "greedy"), found.speedup_vs_hf_greedy))
    return [*numbers, Cell(("same", "text"), f"{same}/{of}")]


def table(result: BenchResult) -> Table:
    """One row a decoder, a speedup's spread below it."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    drawn.add_column("\ndecoder", no_wrap=True)
    for name, found in result.decoders.items():
        row = cells(found, result)
        if not drawn.row_count:
            for cell in row:
                drawn.add_column("\n".join(cell.heading), justify="right", no_wrap=True)
        drawn.add_row(Text(name), *[_stacked(cell) for cell in row])
    return drawn


def blocks(result: BenchResult) -> Table:
    """One block a decoder, a number a line."""
    drawn = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for column in ("number", "value", "spread"):
        drawn.add_column(column, justify="left" if column == "number" else "right")
    for name, found in result.decoders.items():
        if drawn.row_count:
            drawn.add_row()
        drawn.add_row(Text(name, style="bold"))
        for cell in cells(found, result):
            drawn.add_row(f"  {_label(cell)}", cell.text, Text(cell.spread, style="dim"))
    return drawn


def quality_lines(result: BenchResult) -> list[str]:
    """How far each decoder's answers agree with the references, where there are any."""
    lines = []
    for title, digits, values in (
        ("expected text found", 2, {name: found.contains for name, found in result.decoders.items()}),
        ("token F1", 2, {name: found.token_f1 for name, found in result.decoders.items()}),
    ):
        shown = [f"{name} {value:.{digits}f}" for name, value in values.items() if value is not None]
        if shown:
            lines.append(f"{title}: {', '.join(shown)}")
    return lines


def difference_lines(result: BenchResult) -> list[str]:
    """Where each decoder's text first leaves the reference text."""
    found = {name: decoder.first_difference for name, decoder in result.decoders.items()}
    return [_difference(name, difference) for name, difference in found.items() if difference is not None]


def conditions(result: BenchResult) -> str:
    """What the numbers hold for, in one paragraph."""
    env = result.environment
    device = f" on {env.device_name or env.device}" if env.device != "cpu" else ""
    parts = [
        f"{env.model}, {env.dtype}, {env.backend} backend{device}",
        f"{env.cpu}, {counted(env.threads, 'thread')} of {counted(env.cores, 'core')}",
        f"budget {env.draft_budget}{' by step cost' if env.cost_aware else ''}, "
        f"depth {env.max_depth}, {env.shape}",
        f"{counted(result.questions, 'question')}, {counted(env.runs, 'run')}, "
        f"prompts of {_prompt_range(env.prompt_tokens)} tokens, "
        f"answers of up to {env.max_new_tokens}",
    ]
    if any(name in STOCK_DECODERS for name in result.decoders):
        parts.append(f"hf-*: unmodified model in {env.stock_dtype}")
    if any(found.speedup_vs_greedy or found.speedup_vs_hf_greedy for found in result.decoders.values()):
        parts.append("× is the median over questions with its 95 % interval")
    if short := max(found.too_short for found in result.decoders.values()):
        parts.append(f"{counted(short, 'answer')} too short for a speed")
    if result.unanswered:
        parts.append(f"left out, nothing relevant in the index: {', '.join(result.unanswered)}")
    return "; ".join(parts) + "."


def _prompt_range(prompts: TokenRange) -> str:
    if prompts.min == prompts.max:
        return str(prompts.min)
    return f"{prompts.min}–{prompts.max} (median {prompts.median:g})"


def _difference(name: str, found: Difference) -> str:
    return (
        f"{name} first differs at question {found.id}, token {found.position}: "
        f"{found.text!r} instead of {found.reference!r}"
    )


def _speedup(heading: tuple[str, str], found: Interval | None) -> Cell:
    if found is None:
        return Cell(heading, NONE)
    # one question, or a baseline beside itself: there is no spread to show
    spread = f"{found.low:.2f}–{found.high:.2f}" if found.low < found.high else ""
    return Cell(heading, f"{found.value:.2f}", spread)


def _stacked(cell: Cell) -> Text:
    return Text.assemble(cell.text, *([("\n" + cell.spread, "dim")] if cell.spread else []))


def _label(cell: Cell) -> str:
    first, second = cell.heading
    return f"{first}{'' if first.endswith('-') or second.startswith('/') else ' '}{second}".strip()


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"
