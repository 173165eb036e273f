"""The numbers of a decoder as a table shows them, in a terminal or in Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from ragla.bench.names import dtype_of
from ragla.bench.result import BenchResult, DecoderResult, Interval

NONE = "–"


@dataclass(frozen=True)
class Cell:
    """One number: its column's heading in two lines, its text, and the spread below it."""

    heading: tuple[str, str]
    text: str
    spread: str = ""


def cells(found: DecoderResult, result: BenchResult) -> list[Cell]:
    """The numbers of one decoder; a speedup only where its baseline ran, accuracy where it is measured.

    Only speedups show their spread: with all of them no terminal would be wide enough.
    """
    same, of = found.identical
    numbers = [
        Cell(("tokens", "/step"), number(found.tokens_per_step, 2)),
        Cell(("tokens", "/s"), number(speed(found), 1)),
    ]
    if result.exact is None:
        numbers += [
            Cell(("", "accepted"), f"{found.accepted_share:.0%}"),
            Cell(("TTFT", "s"), number(found.ttft_s, 2)),
        ]
    if "greedy" in result.decoders:
        own = "× own" if result.exact else "×"
        numbers.append(interval_cell((own, "greedy"), found.speedup_vs_greedy, None, 2))
    if "hf-greedy" in result.decoders:
        numbers.append(interval_cell(("× hf-", "greedy"), found.speedup_vs_hf_greedy, None, 2))
    return [*numbers, Cell(("same", "text"), f"{same}/{of}"), *quality_cells(found, result)]


def quality_cells(found: DecoderResult, result: BenchResult) -> list[Cell]:
    """Where precisions are compared: how far the answers agree with the most exact one's, and are right."""
    if result.exact is None or found.same_as_exact is None:
        return []
    same, of = found.same_as_exact
    exact = short_dtype(dtype_of(result.exact) or result.environment.dtype)
    numbers = [
        Cell(("same", f"as {exact}"), f"{same}/{of}"),
        Cell(("F1 to", exact), number(found.agreement, 2)),
    ]
    if any(each.contains is not None for each in result.decoders.values()):
        numbers.append(Cell(("text", "found"), number(found.contains, 2)))
    if any(each.token_f1 is not None for each in result.decoders.values()):
        numbers.append(Cell(("token", "F1"), number(found.token_f1, 2)))
    return numbers


def speed(found: DecoderResult) -> float | None:
    """Tokens per second of decoding: the median over questions or, in an old result, over all tokens."""
    return found.decode_tokens_per_s if found.tokens_per_s is None else found.tokens_per_s.value


def interval_cell(heading: tuple[str, str], found: Interval | None, alone: float | None, digits: int) -> Cell:
    """A number with its interval; ``alone`` where there is none."""
    if found is None:
        return Cell(heading, number(alone, digits))
    # one question, or a baseline beside itself: there is no spread to show
    low, high = number(found.low, digits), number(found.high, digits)
    return Cell(heading, number(found.value, digits), f"{low}–{high}" if low != high else "")


def short_dtype(dtype: str) -> str:
    """``f32`` for ``float32``: a heading is narrow."""
    return dtype.replace("bfloat", "bf").replace("float", "f")


def number(value: float | None, digits: int) -> str:
    """A number with so many decimals; a dash for none."""
    return NONE if value is None else f"{value:.{digits}f}"
