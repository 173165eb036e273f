"""A picture of a comparison: speed, where in an answer steps are long, how long they are, where time goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ragla.bench.charts import LONGEST, join, parts
from ragla.bench.described import busy_line, conditions
from ragla.bench.figures import MARKERS, OURS_COLOUR, PALETTE, new_figure, style
from ragla.bench.names import kind
from ragla.bench.result import BenchResult, DecoderResult, Position
from ragla.render import counted, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST_BAR = 2 * LONGEST  # tokens; longer steps are counted together
LEGEND_COLUMNS = 6
LEAST_STEPS = 8  # fewer say nothing about a place in the answers
MARK = 11.0  # points, the mark of a place with as many steps as any
LEAST_MARK = 4.5
GREY = "#7f7f7f"
TIME_COLOURS = {  # none of a decoder, in an order whose neighbours differ in lightness too
    "retrieve": ("#4d4d4d", ""),
    "prefill": ("#a6dbcf", "//"),
    "draft": ("#e69f00", ".."),
    "verify": ("#f0e442", ""),
    "rest": ("#d9d9d9", "xx"),
}


@dataclass(frozen=True)
class Look:
    """How a decoder is drawn in every panel."""

    name: str
    colour: str
    marker: str


def looks(result: BenchResult) -> list[Look]:
    """One for each decoder: ours first, the rest in the order they were named."""
    others = iter(range(len(result.decoders)))
    found = []
    for name in result.decoders:
        if name == "lookahead":
            found.append(Look(name, OURS_COLOUR, "o"))
        else:
            at = next(others)
            found.append(Look(name, PALETTE[at % len(PALETTE)], MARKERS[1:][at % (len(MARKERS) - 1)]))
    return found


def draw_comparison(result: BenchResult) -> Figure:
    """The figure, without any state outside it."""
    with style():
        figure, _ = new_figure(12, 9)
        (speed, place), (lengths, time) = figure.subplots(2, 2)
        drawn = looks(result)
        drafting = [look for look in drawn if kind(look.name) not in ("greedy", "hf-greedy")]
        _draw_speed(speed, result, drawn)
        _draw_positions(place, result, drafting)
        _draw_lengths(lengths, result, drafting)
        _draw_time(time, result, drawn)
        for axes in (speed, place, lengths, time):
            _finish(axes)
        _head(figure, result, speed)
        told = " ".join(filter(None, [busy_line(result), conditions(result)]))
        figure.supxlabel(fill(told, 170), x=0.01, ha="left", fontsize=7.5, color=GREY)
    return figure


def _head(figure: Figure, result: BenchResult, speed: Axes) -> None:
    """What was compared, and the colours and marks that stand for the decoders in all panels."""
    title = f"{one_line(result.environment.model)}, {result.environment.dtype}: "
    title += counted(result.questions, "question")
    handles, _ = speed.get_legend_handles_labels()
    bold: dict[str, Any] = {"weight": "bold", "size": 12}
    figure.legend(
        handles=handles, loc="outside upper left", ncols=min(max(1, len(handles)), LEGEND_COLUMNS),
        frameon=False, fontsize=9, title=title, title_fontproperties=bold, alignment="left",
    )  # fmt: skip


def _draw_speed(axes: Axes, result: BenchResult, drawn: Sequence[Look]) -> None:
    """Each question's speed against its tokens per step; the large mark is the decoder's own."""
    against = "greedy" in result.decoders
    reach = 1.0
    for look in drawn:
        found = result.decoders[look.name]
        pairs = []
        for point in found.points:
            y = point.speedup if against else point.tokens_per_s
            if point.tokens_per_step is not None and y is not None:
                pairs.append((point.tokens_per_step, y))
        xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
        axes.scatter(xs, ys, s=22, c=look.colour, marker=look.marker, alpha=0.5, linewidths=0)
        middle = found.speedup_vs_greedy if against else found.tokens_per_s
        if middle is not None and found.tokens_per_step is not None:
            axes.errorbar(
                found.tokens_per_step, middle.value,
                yerr=[[max(0.0, middle.value - middle.low)], [max(0.0, middle.high - middle.value)]],
                color=look.colour, marker=look.marker, markersize=11, markeredgecolor="white", capsize=3,
                label=look.name, linestyle="none",
            )  # fmt: skip
        reach = max([reach, *xs])
    if against:
        axes.plot([1, reach], [1, reach], color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(
            "a step at greedy's price", (reach, reach), color=GREY, fontsize=8, ha="right", va="bottom"
        )
        axes.axhline(1.0, color=GREY, linewidth=0.8)
    axes.set_title("Speed against tokens a step (large: all questions)", loc="left")
    axes.set_xlabel("tokens a step, bonus token included")
    axes.set_ylabel("speed, × greedy" if against else "tokens/s")


def _draw_positions(axes: Axes, result: BenchResult, drawn: Sequence[Look]) -> None:
    axes.set_title("Tokens a step by place in the answer", loc="left")
    axes.set_xlabel("token at which a step begins (larger: more steps)")
    axes.set_ylabel("tokens a step")
    shown = 0
    for look in drawn:
        places = joined_places(result.decoders[look.name].positions)
        if places:
            shown += 1
            xs = [part.first for part in places]
            ys = [part.tokens / part.steps for part in places]
            most = max(part.steps for part in places)
            sizes = [max(LEAST_MARK, MARK * math.sqrt(part.steps / most)) ** 2 for part in places]
            axes.plot(xs, ys, color=look.colour, linewidth=1.0, alpha=0.6)
            axes.scatter(xs, ys, s=sizes, c=look.colour, marker=look.marker, linewidths=0, clip_on=False)
    axes.set_ylim(bottom=0)
    _or_nothing(axes, shown)


def joined_places(positions: Sequence[Position]) -> list[Position]:
    """Places with enough steps to say something; what has too few joins the one before it.

    Few answers are as long as the longest: their ends alone would look like a trend of all.
    """
    places: list[Position] = []
    for part in positions:
        if places and min(part.steps, places[-1].steps) < LEAST_STEPS:
            places[-1] = join([places[-1], part])
        else:
            places.append(part)
    return places


def _draw_lengths(axes: Axes, result: BenchResult, drawn: Sequence[Look]) -> None:
    axes.set_title("Tokens that a step commits", loc="left")
    axes.set_xlabel("tokens committed")
    axes.set_ylabel("share of steps, %")
    counted_ones = [(look, result.decoders[look.name]) for look in drawn]
    counted_ones = [(look, found) for look, found in counted_ones if any(found.lengths)]
    width = 0.8 / max(1, len(counted_ones))
    longest = max((len(found.lengths) for _, found in counted_ones), default=1)
    for at, (look, found) in enumerate(counted_ones):
        shares = length_shares(found)
        xs = [tokens + (at + 0.5) * width - 0.4 for tokens in range(1, len(shares) + 1)]
        axes.bar(
            xs, shares, width=width, color=look.colour, label=look.name, edgecolor="white", linewidth=0.4
        )
    ticks = list(range(1, min(longest, LONGEST_BAR) + 1))
    more = longest > LONGEST_BAR
    axes.set_xticks(
        ticks, labels=[f"{tick}+" if more and tick == LONGEST_BAR else str(tick) for tick in ticks]
    )
    _or_nothing(axes, len(counted_ones))


def length_shares(found: DecoderResult) -> list[float]:
    """Per cent of the steps that committed one token, two, …; the last one counts all longer ones."""
    total = sum(found.lengths)
    counts = [*found.lengths[: LONGEST_BAR - 1]]
    if len(found.lengths) >= LONGEST_BAR:
        counts.append(sum(found.lengths[LONGEST_BAR - 1 :]))
    return [100 * count / total for count in counts]


def _draw_time(axes: Axes, result: BenchResult, drawn: Sequence[Look]) -> None:
    axes.set_title("Where an answer's time goes", loc="left")
    axes.set_xlabel("seconds an answer, mean over all answers (speeds: medians)")
    split = {
        look.name: parts(found.seconds)
        for look in drawn
        if (found := result.decoders[look.name]).seconds is not None
    }
    names = list(split)
    ends = dict.fromkeys(names, 0.0)
    for part, (colour, hatch) in TIME_COLOURS.items():
        widths = [split[name][part] for name in names]
        if any(widths):
            label = "rest of decoding" if part == "rest" else part
            axes.barh(
                names, widths, left=[ends[name] for name in names], color=colour, hatch=hatch,
                edgecolor="white", linewidth=0.4, height=0.6, label=label,
            )  # fmt: skip
        for name in names:
            ends[name] += split[name][part]
    axes.invert_yaxis()
    _or_nothing(axes, len(names))
    if names:
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5)


def _or_nothing(axes: Axes, shown: int) -> None:
    if not shown:
        axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", color=GREY)


def _finish(axes: Axes) -> None:
    axes.grid(axis="y" if not axes.containers or axes.get_ylabel() else "x", color="#e0e0e0", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
