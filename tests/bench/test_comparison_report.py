"""A comparison as a terminal, Markdown and a picture show it, from numbers that are always the same."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from rich.cells import cell_len
from rich.console import Console

from ragla.bench import Report
from ragla.bench.charts import drawn, length_bars, position_bars, stacked
from ragla.bench.comparison_plot import TIME_COLOURS, draw_comparison, joined_places, length_shares
from ragla.bench.figures import NO_GLYPH, OURS_COLOUR, PALETTE, save, style
from ragla.bench.markdown import markdown
from ragla.bench.result import BenchResult, Position
from tests.bench.made_result import NAMES, made_decoder, made_result

PRECISIONS = ("lookahead", "greedy", "lookahead@float32", "greedy@float32")


def printed(result: BenchResult, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(Report(result))
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("result", [made_result(), made_result(PRECISIONS, exact="greedy@float32")], ids=str)
def test_everything_is_shown_at_every_width(result: BenchResult, width: int) -> None:
    text = printed(result, width)
    assert all(cell_len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    assert "\x1b" not in text
    flat = " ".join(text.split())
    for said in (
        "lookahead, by category", "问答|", "lookahead: tokens a step", "tokens/step, by answer token",
        "seconds an answer", "▓ draft", "model loaded in 2.5 s", "searched in 0.50 s",
        "measuring what steps cost", "1 follow-up", "load 0.1 at the start",
        "left out, nothing relevant in the index: u1",
    ):  # fmt: skip
        assert said in flat, said


def test_precisions_have_their_accuracy_in_the_same_table() -> None:
    result = made_result(PRECISIONS, exact="greedy@float32")
    heading, *rows = printed(result, 80).splitlines()[1:]
    for column in ("decoder", "/step", "/s", "greedy", "text", "as f32", "f32", "found", "F1"):
        assert column in heading
    (row,) = [row for row in rows if row.startswith("greedy@float32")][:1]
    assert row.split()[1:] == ["1.00", "68.5", "1.58", "3/3", "2/3", "0.96", "0.50", "0.25"]
    assert "same text: as greedy in the same precision" in " ".join(printed(result, 80).split())


def test_a_busy_machine_and_an_interrupt_are_said_loudly() -> None:
    made = made_result()
    busy = replace(made, environment=replace(made.environment, load_average=3.5), planned=9)
    text = " ".join(printed(busy, 80).split())
    assert "The machine was busy (load 3.5 on 2 cores): these are not the times of a quiet one." in text
    assert "interrupted after 3 of 9 answers" in text
    assert "\n\n**The machine was busy (load 3.5 on 2 cores)" in markdown(busy)
    footer = draw_comparison(busy).get_supxlabel()
    assert footer.startswith("The machine was busy (load 3.5 on 2 cores)")
    assert "busy" not in printed(made, 80)
    assert not replace(busy.environment, cores=64).busy
    assert not replace(busy.environment, load_average=None).busy
    # what others used while it ran is known better than what they wanted before
    assert not replace(busy.environment, other_cores=0.2).busy
    beside = replace(made.environment, other_cores=1.25)
    assert beside.busy
    said = " ".join(printed(replace(made, environment=beside), 80).split())
    assert "The machine was busy (other programs used 1.25 of 2 cores)" in said
    assert "1.25 cores used by others" in said


def test_bars_are_as_long_as_their_shares() -> None:
    assert (drawn(1.0, 10), drawn(0.5, 10), drawn(0.0, 10)) == ("█" * 10, "█" * 5, "")
    assert drawn(0.0001, 10) == "▏"  # what is there is seen
    assert [(bar.name, bar.said) for bar in length_bars([3, 1])] == [("1", "75%"), ("2", "25%")]
    many = length_bars([1] * 20)
    assert (many[-1].name, many[-1].value) == ("8+", 13)
    assert sum(bar.value for bar in many) == 20
    places = position_bars([Position(16 * at, 2, 4) for at in range(19)])
    assert len(places) <= 8
    assert {bar.value for bar in places} == {2.0}
    split = {"retrieve": 0.2, "prefill": 1.0, "draft": 0.04, "verify": 0.76, "rest": 0.0}
    assert stacked(split, 10) == "░░▒▒▒▒▒▒▒▒▒▒████████"


def test_a_table_in_markdown_has_intervals_and_conditions() -> None:
    text = markdown(made_result())
    tables = text.split("\n\n")
    assert len(tables) == 3
    head, rule, *rows = tables[0].splitlines()
    assert head == (
        "| decoder | tokens/step | tokens/s | × greedy | × transformers' greedy "
        "| first token, s | identical |"
    )
    assert rule.count("---") == head.count("|") - 1
    assert rows[0] == (
        "| lookahead | 2.50 (2.25 – 2.75) | 68.5 (60.0 – 75.0) | 1.58 (1.31 – 1.89) | 7.70 (6.10 – 10.04) "
        "| 1.25 | 3/3 |"
    )
    assert [row.split(" | ")[0] for row in rows[1:]] == [
        "| greedy, same backend", "| transformers' generate", "| transformers' prompt lookup",
    ]  # fmt: skip
    assert [line.split(" | ")[0] for line in tables[1].splitlines()] == [
        "| lookahead, by category", "|---|---|---|---|---|---|---|", "| qa", r"| 问答\|",
    ]  # fmt: skip
    assert r"问$x$\|\<b>, float32" in tables[2]
    shape = markdown(made_result(("lookahead", "shape:single")))
    assert "| `shape:single` | 2.50" in shape


def test_markdown_of_precisions_has_their_accuracy() -> None:
    head = markdown(made_result(PRECISIONS, exact="greedy@float32")).splitlines()[0]
    assert "| × greedy of its precision |" in head
    assert head.endswith("| identical | same as f32 | F1 to f32 | text found | token F1 |")


def panels(result: BenchResult) -> list[Axes]:
    return draw_comparison(result).axes


def test_a_picture_has_four_panels() -> None:
    speed, place, lengths, time = panels(made_result())
    assert speed.figure is not None
    (legend,) = speed.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    assert [len(points.get_offsets()) for points in speed.collections[:1]] == [2]  # one has no speed
    assert len(place.lines) == 2  # plain loops have one token a step everywhere
    assert len(lengths.containers) == 2
    assert [label.get_text() for label in lengths.get_xticklabels()][-1] == "16+"
    assert [label.get_text() for label in time.get_yticklabels()] == list(NAMES)
    ends = [bar.get_x() + bar.get_width() for bar in time.containers[-1]]  # type: ignore[attr-defined]
    assert ends == pytest.approx([3.5, 3.5, 1.4, 1.4])


def test_a_picture_of_nothing_but_a_table_says_so() -> None:
    bare = replace(made_decoder("lookahead"), lengths=(), positions=(), seconds=None, points=())
    made = made_result(("lookahead",))
    drawn_panels = panels(replace(made, decoders={"lookahead": bare}))
    said = [text.get_text() for axes in drawn_panels for text in axes.texts]
    assert said.count("nothing to show") == 3


def test_places_with_few_steps_join_the_one_before() -> None:
    few = [
        Position(0, 5, 10),
        Position(16, 4, 9),
        Position(32, 9, 18),
        Position(48, 7, 7),
        Position(64, 1, 8),
    ]
    assert joined_places(few) == [Position(0, 9, 19), Position(32, 17, 33)]
    assert joined_places(few[:1]) == few[:1]


def test_no_part_of_the_time_has_a_decoders_colour() -> None:
    colours = [colour for colour, _ in TIME_COLOURS.values()]
    assert not {*colours} & {OURS_COLOUR, *PALETTE}
    assert len({*colours}) == len(colours)


def test_a_place_with_more_steps_has_a_larger_mark() -> None:
    made = replace(made_decoder("lookahead"), positions=(Position(0, 90, 180), Position(16, 30, 90)))
    place = panels(replace(made_result(("lookahead",)), decoders={"lookahead": made}))[1]
    first, last = place.collections[0].get_sizes()
    assert first == pytest.approx(3 * last)


def test_the_shares_of_lengths_add_up() -> None:
    shares = length_shares(made_decoder("lookahead"))
    assert (len(shares), sum(shares)) == (16, pytest.approx(100.0))


def test_a_picture_is_what_its_name_says_and_the_same_each_time(tmp_path: Path) -> None:
    made = made_result()
    assert save(draw_comparison(made), tmp_path / "a.svg") is None  # a browser has the fonts
    save(draw_comparison(made), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    words = {element.text for element in ElementTree.parse(tmp_path / "a.svg").iter() if element.text}
    assert {"问$x$|<b>, float32: 3 questions", "hf-prompt-lookup", "verify", "tokens committed"} <= words


def test_a_picture_says_which_characters_it_could_not_draw(tmp_path: Path) -> None:
    from matplotlib.font_manager import fontManager

    made = made_result(("lookahead",))
    strange = replace(made, environment=replace(made.environment, model="\ue123"))  # no font has it
    assert save(draw_comparison(strange), tmp_path / "a.png") == NO_GLYPH
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with style():
        from matplotlib import rcParams

        assert rcParams["font.family"][0] == "DejaVu Sans"
        assert set(rcParams["font.family"][1:]) <= {font.name for font in fontManager.ttflist}
