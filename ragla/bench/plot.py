"""A picture of a replay: tokens per step against the nodes they took, a line a rule, named where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from ragla.bench.figures import MARKERS, OURS_COLOUR, PALETTE, new_figure, style
from ragla.bench.replay import OURS, ReplayResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

DIRECTIONS = ((1, 0), (1, 1), (1, -1), (0, 1), (0, -1), (-1, 1), (-1, -1), (-1, 0))  # best first
DISTANCES = range(12, 160, 6)  # pixels from the end of a line to its label
NEAR = 24  # pixels up to which a label needs no hair line

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in pixels."""


@dataclass(frozen=True)
class Line:
    """One rule's points, by ascending budget, and how it is drawn."""

    name: str
    nodes: tuple[float, ...]
    tokens: tuple[float, ...]
    colour: str
    marker: str
    width: float
    dashed: bool = False


def lines(result: ReplayResult) -> list[Line]:
    """The rules as lines: public ones first, then ours without a source, and ours on top."""
    drawn: list[Line] = []
    for name, found in result.rules.items():
        nodes = tuple(each.nodes_per_step for each in found.values())
        tokens = tuple(each.tokens_per_step for each in found.values())
        if name == OURS:
            drawn.append(Line(name, nodes, tokens, OURS_COLOUR, "o", 3.0))
        elif name.startswith(f"{OURS}-"):
            drawn.append(
                Line(name.removeprefix(f"{OURS}-"), nodes, tokens, OURS_COLOUR, "", 0.8, dashed=True)
            )
        else:
            at = len(drawn) % len(PALETTE)
            drawn.append(Line(name, nodes, tokens, PALETTE[at], MARKERS[at], 1.3))
    return sorted(drawn, key=lambda line: (line.width > 2, line.dashed))


def draw(result: ReplayResult) -> Figure:
    """The figure, without any state outside it."""
    with style():
        figure, canvas = new_figure(9, 6)
        axes = figure.add_subplot()
        drawn = lines(result)
        for line in drawn:
            _draw_line(axes, line)
        _draw_axes(axes, result, [nodes for line in drawn for nodes in line.nodes])
        labels = [_label(axes, line) for line in reversed(drawn)]
        canvas.draw()  # places are known only then
        _place_labels(axes, labels, drawn, canvas.get_renderer())
    return figure


def _draw_line(axes: Axes, line: Line) -> None:
    axes.plot(
        line.nodes,
        line.tokens,
        color=line.colour,
        linewidth=line.width,
        linestyle=(0, (4, 2)) if line.dashed else "-",
        marker=line.marker,
        markersize=8 if line.name == OURS else 4.5,
    )


def _draw_axes(axes: Axes, result: ReplayResult, nodes: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(12) if min(nodes) * 0.85 <= 2**power <= max(nodes) * 1.9]
    axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(min(nodes) * 0.85, max(nodes) * 1.9)  # room for names on the right
    axes.set_xlabel("nodes verified a step")
    axes.set_ylabel("tokens a step, bonus token included")
    title = f"{result.file}: {result.answers} recorded answers"
    axes.set_title(title, loc="left", fontweight="bold")
    axes.grid(axis="y", color="#e0e0e0", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _label(axes: Axes, line: Line) -> Annotation:
    """A rule's name, to be placed beside the end of its line."""
    return axes.annotate(
        line.name,
        (line.nodes[-1], line.tokens[-1]),
        xytext=(0, 0),
        textcoords="offset pixels",
        ha="center",
        va="center",
        color=line.colour,
        fontsize=13 if line.name == OURS else 8 if line.dashed else 9.5,
        fontweight="bold" if line.name == OURS else "normal",
        arrowprops={"arrowstyle": "-", "color": line.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
    )


def _place_labels(axes: Axes, labels: Sequence[Annotation], drawn: Sequence[Line], renderer: Any) -> None:
    """Give each label the nearest place where it covers no line and no label placed before it.

    Where there is none it takes the place that covers least. A hair line leads to a label that is far off.
    """
    from matplotlib.text import Text

    points = [point for line in drawn for point in _pixels(axes, line)]
    frame = axes.get_window_extent(renderer).extents
    placed: list[Box] = []
    for label in labels:
        whole = Text.get_window_extent(label, renderer)  # without the hair line
        options = []
        for distance, (right, up) in product(DISTANCES, DIRECTIONS):
            shift = (right * (whole.width / 2 + distance), up * (whole.height / 2 + distance))
            box = (whole.x0 + shift[0], whole.y0 + shift[1], whole.x1 + shift[0], whole.y1 + shift[1])
            options.append((_covered(box, points, placed, frame), distance, shift, box))
        _, distance, shift, box = min(options, key=lambda option: option[:2])
        label.set_position(shift)
        placed.append(box)
        if label.arrow_patch is not None:
            label.arrow_patch.set_visible(distance > NEAR)


def _covered(
    box: Box, points: Sequence[tuple[float, float]], placed: Sequence[Box], frame: Sequence[float]
) -> int:
    """How bad a place is: points of lines that it covers, and far worse, other labels or the axes' frame."""
    left, bottom, right, top = box
    lines = sum(left < x < right and bottom < y < top for x, y in points)
    labels = sum(
        left < other[2] and other[0] < right and bottom < other[3] and other[1] < top for other in placed
    )
    outside = left < frame[0] or bottom < frame[1] or right > frame[2]
    return lines + 100 * (labels + outside)


def _pixels(axes: Axes, line: Line) -> list[tuple[float, float]]:
    """Points all along a line, closely enough that no label fits between two of them."""
    corners = axes.transData.transform(list(zip(line.nodes, line.tokens, strict=True))).tolist()
    found: list[tuple[float, float]] = []
    for (x, y), (end_x, end_y) in pairwise([*corners, corners[-1]]):
        steps = 1 + int(max(abs(end_x - x), abs(end_y - y)) / 8)
        found += [(x + (end_x - x) * at / steps, y + (end_y - y) * at / steps) for at in range(steps)]
    return found
