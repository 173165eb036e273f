"""A bench result as bars of characters: how long steps are, where they are long, where the time goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from ragla.bench.cells import speed
from ragla.bench.result import BenchResult, DecoderResult, Position, Seconds

EIGHTHS = " ▏▎▍▌▋▊▉█"
WIDEST = 80  # columns; longer bars say no more
LONGEST = 8  # tokens; longer steps are counted together
PARTS = ("retrieve", "prefill", "draft", "verify", "rest")
FILLS = {"retrieve": "░", "prefill": "▒", "draft": "▓", "verify": "█", "rest": "·"}


@dataclass(frozen=True)
class Bar:
    """A line of a chart: its name, how long it is, and what it says behind it."""

    name: str
    value: float
    said: str


def charts(result: BenchResult, width: int) -> Iterator[Text]:
    """The charts, each with a heading and an empty line behind it, in at most ``width`` columns."""
    width = min(width, WIDEST)
    speeds = {name: speed(found) for name, found in result.decoders.items()}
    bars = [Bar(name, value, f"{value:.1f}") for name, value in speeds.items() if value is not None]
    if len(bars) > 1:
        yield from chart("tokens/s", bars, width)
    found = result.decoders.get("lookahead")
    if found is not None and any(found.lengths):
        yield from chart("lookahead: tokens a step, share of steps", length_bars(found.lengths), width)
    if found is not None and len(found.positions) > 1:
        yield from chart("lookahead: tokens/step, by answer token", position_bars(found.positions), width)
    yield from time_chart(result.decoders, width)


def chart(title: str, bars: Sequence[Bar], width: int) -> Iterator[Text]:
    """Bars from nought, the longest as long as fits."""
    names = max(len(bar.name) for bar in bars)
    said = max(len(bar.said) for bar in bars)
    room = max(4, width - names - said - 2)
    reach = max(bar.value for bar in bars) or 1.0
    yield Text(title, style="bold")
    for bar in bars:
        line = Text(f"{bar.name:<{names}} ")
        line.append(f"{drawn(bar.value / reach, room):<{room}}", style="cyan")
        line.append(f" {bar.said:>{said}}")
        yield line
    yield Text()


def drawn(share: float, room: int) -> str:
    """A bar of ``share`` of so many columns, in eighths of one; what is more than nothing is seen."""
    eighths = round(share * room * 8)
    if share > 0:
        eighths = max(1, eighths)
    return "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def length_bars(lengths: Sequence[int]) -> list[Bar]:
    """How many steps committed so many tokens."""
    total = sum(lengths)
    counts = list(lengths[: LONGEST - 1])
    names = [str(tokens) for tokens in range(1, len(counts) + 1)]
    if len(lengths) >= LONGEST:
        counts.append(sum(lengths[LONGEST - 1 :]))
        names.append(f"{LONGEST}+")
    return [Bar(name, count, f"{count / total:.0%}") for name, count in zip(names, counts, strict=True)]


def position_bars(positions: Sequence[Position]) -> list[Bar]:
    """Tokens per step in each part of the answers; neighbours are joined until there are few."""
    joined = list(positions)
    while len(joined) > LONGEST:
        joined = [join(joined[at : at + 2]) for at in range(0, len(joined), 2)]
    return [
        Bar(f"{part.first}–", part.tokens / part.steps, f"{part.tokens / part.steps:.1f}") for part in joined
    ]


def join(parts: Sequence[Position]) -> Position:
    """Neighbouring positions as one."""
    return Position(parts[0].first, sum(part.steps for part in parts), sum(part.tokens for part in parts))


def time_chart(decoders: dict[str, DecoderResult], width: int) -> Iterator[Text]:
    """Where the time of an answer goes: a line a decoder, each part in its own pattern."""
    split = {name: parts(found.seconds) for name, found in decoders.items() if found.seconds is not None}
    if not split:
        return
    names = max(len(name) for name in split)
    said = max(len(f"{sum(its.values()):.2f} s") for its in split.values())
    room = max(4, width - names - said - 2)
    reach = max(sum(its.values()) for its in split.values()) or 1.0
    yield Text("seconds an answer", style="bold")
    for name, its in split.items():
        whole = sum(its.values())
        line = Text(f"{name:<{names}} ")
        line.append(f"{stacked(its, room / reach):<{room}}", style="cyan")
        line.append(f" {whole:.2f} s".rjust(said + 1))
        yield line
    used = [part for part in PARTS if any(its[part] > 0 for its in split.values())]
    yield from legend(used, width)
    yield Text()


def parts(seconds: Seconds) -> dict[str, float]:
    """The parts of an answer's time as the chart tells them apart."""
    return {
        "retrieve": seconds.retrieve,
        "prefill": seconds.prompt + seconds.seed + seconds.prefill,
        "draft": seconds.draft or 0.0,
        "verify": seconds.verify or 0.0,
        "rest": seconds.rest,
    }


def stacked(split: dict[str, float], columns_per_second: float) -> str:
    """The parts one behind the other, each where it ends when all are added up."""
    line, end = "", 0.0
    for part in PARTS:
        end += split[part]
        line += FILLS[part] * (round(end * columns_per_second) - len(line))
    return line


def legend(used: Sequence[str], width: int) -> Iterator[Text]:
    """What the patterns mean, in as many lines as it takes."""
    line = ""
    for part in used:
        meaning = f"{FILLS[part]} {part}"
        if line and len(line) + 2 + len(meaning) > width:
            yield Text(line, style="dim")
            line = ""
        line += ("  " if line else "") + meaning
    if line:
        yield Text(line, style="dim")
