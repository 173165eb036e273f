"""A replay for the terminal: a row a rule and a column a budget, or a block a rule where it is narrow."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ragla.bench.replay import LEAST_ANSWER, OURS, Calibration, ReplayResult, RuleResult
from ragla.render import counted

NONE = "–"
PARTS = ("all steps", "1st fifth", "2nd fifth", "3rd fifth", "4th fifth", "5th fifth")  # least expected first


@dataclass(frozen=True)
class ReplayReport:
    """A rich renderable of a result; it fits itself to the console's width."""

    result: ReplayResult

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What was accepted, what it cost, whether our expectations came true, and the conditions."""
        tables = [accepted_table(self.result), cost_table(self.result)]
        unlimited = options.update(width=1000)
        widest = max(Measurement.get(console, unlimited, drawn).maximum for drawn in tables)
        if widest > options.max_width:
            tables = [rule_block(name, found) for name, found in self.result.rules.items()]
        for drawn in tables:
            yield drawn
            yield Text()
        if _ours(self.result):
            yield Text(f"{OURS}, draft tokens a step: expected → accepted", style="bold")
            drawn = calibration_table(self.result)
            fits = Measurement.get(console, unlimited, drawn).maximum <= options.max_width
            yield drawn if fits else calibration_lines(self.result)
            yield Text()
        yield Text(conditions(self.result), style="dim")


def accepted_table(result: ReplayResult) -> Table:
    """Tokens per step, and below it those of the even and of the odd answers."""
    drawn = _grid("tokens/step, budget", *map(str, budgets(result)))
    for name, found in result.rules.items():
        cells = [
            Text.assemble(f"{each.tokens_per_step:.2f}", (f"\n{_halves(each)}", "not bold dim"))
            for each in found.values()
        ]
        drawn.add_row(Text(name), *cells, style=_style(name))
    return drawn


def cost_table(result: ReplayResult) -> Table:
    """Verified nodes and host microseconds per step."""
    drawn = _grid("nodes · host µs, budget", *map(str, budgets(result)))
    for name, found in result.rules.items():
        cells = [f"{each.nodes_per_step:.1f} · {_micro(each.host_us_per_step):>4}" for each in found.values()]
        drawn.add_row(Text(name), *cells, style=_style(name))
    return drawn


def calibration_table(result: ReplayResult) -> Table:
    """Expected and accepted tokens a step of our rule, over all steps and in each fifth of them."""
    drawn = _grid("budget", *PARTS)
    for budget, found in _ours(result).items():
        drawn.add_row(str(budget), *_parts(found))
    return drawn


def calibration_lines(result: ReplayResult) -> Table:
    """The same, a part of the steps a line and a budget a column, as far as they fit."""
    drawn = _grid("budget", *map(str, _ours(result)), padding=1)
    columns = [_parts(found) for found in _ours(result).values()]
    for label, *cells in zip(PARTS, *columns, strict=False):
        drawn.add_row(label, *(Text(cell.replace("→", "\n")) for cell in cells))
    return drawn


def rule_block(name: str, by_budget: dict[int, RuleResult]) -> Table:
    """One rule, a number a line, a budget a column."""
    drawn = _grid("budget", *map(str, by_budget), padding=1)
    drawn.title, drawn.title_justify, drawn.title_style = name, "left", "bold" if name == OURS else ""
    found = by_budget.values()
    drawn.add_row("tokens/step", *(f"{each.tokens_per_step:.2f}" for each in found))
    drawn.add_row("even answers", *(_number(each.tokens_per_step_even) for each in found))
    drawn.add_row("odd answers", *(_number(each.tokens_per_step_odd) for each in found))
    drawn.add_row("nodes/step", *(f"{each.nodes_per_step:.1f}" for each in found))
    drawn.add_row("host µs/step", *(_micro(each.host_us_per_step) for each in found))
    return drawn


def budgets(result: ReplayResult) -> list[int]:
    """The budgets, as every rule was replayed at them."""
    return list(next(iter(result.rules.values())))


def conditions(result: ReplayResult) -> str:
    """What the numbers hold for, in one paragraph."""
    held = result.conditions
    parts = [
        f"{result.file}: {counted(result.answers, 'answer')} of {held.answer_tokens:.0f} tokens on average, "
        f"prompts of {held.prompt_tokens:.0f} tokens (median)",
        "tokens/step: bonus token included, first and end-of-sequence token not; "
        "below it even and odd answers",
        "nodes/step: node 0 included",
        f"host µs: median on {held.cpu}, Python {held.python}",
        f"{OURS} {held.ragla}: order {held.order}, depth {held.max_depth}, {held.shape}",
    ]
    if _ours(result):
        parts.append("fifths of the steps, those that expected least first")
    if result.left_out:
        parts.append(f"left out, under {LEAST_ANSWER} tokens: {counted(result.left_out, 'answer')}")
    return "; ".join(parts) + "."


def _grid(label: str, *headings: str, padding: int = 2) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, padding, 0, 0))
    drawn.add_column(label, no_wrap=True)
    for heading in headings:
        drawn.add_column(heading, justify="right", no_wrap=True)
    return drawn


def _ours(result: ReplayResult) -> dict[int, RuleResult]:
    return {budget: found for budget, found in result.rules.get(OURS, {}).items() if found.calibration}


def _parts(found: RuleResult) -> list[str]:
    """Over all steps and in each part of them; a part without steps has no numbers."""
    whole = Calibration(found.steps, found.expected_accepted or 0.0, found.accepted)
    parts = [f"{part.expected:.2f}→{part.accepted:.2f}" for part in (whole, *found.calibration)]
    return [*parts, *[NONE] * (len(PARTS) - len(parts))]


def _style(name: str) -> str:
    return "bold" if name == OURS else ""


def _halves(found: RuleResult) -> str:
    return f"{_number(found.tokens_per_step_even)}/{_number(found.tokens_per_step_odd)}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _micro(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
