"""The live view: a line below the text that never touches it, and nothing of it off a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ragla.decode.stats import DecodeStats, StepStats
from ragla.live import Columns, answering, status_line
from tests.cli.screens import Terminal, terminal

WIDTH = 40
WORDS = "The limit is EUR 165 a night, breakfast included; 酒店每晚上限为一百八十欧元。 See [1].\n"


def stats_after(steps: int) -> DecodeStats:
    """An answer in which step n commits n % 5 + 1 tokens."""
    made = [StepStats(8, at % 5, at % 5 + 1, 0.01, 0.001) for at in range(steps)]
    return DecodeStats(tokens=sum(step.committed for step in made) + 1, decode_s=0.5, steps=made)


SOME_STEPS = stats_after(12)


def shown_live(pieces: list[str], screen: Terminal) -> None:
    """Write the pieces as an answer, a step each."""
    with answering(quiet=False) as view:
        for piece in pieces:
            if piece:
                view.write(piece)
            view.step(SOME_STEPS)
            screen.read()  # a terminal takes a few kilobytes at a time


def shown_plainly(pieces: list[str], columns: int) -> list[str]:
    """The same text written to a terminal by itself."""
    screen = Terminal(columns)
    os.write(screen.slave, "".join(pieces).encode())
    lines = screen.lines()
    screen.close()
    return lines


@pytest.mark.parametrize("columns", [20, 40, 41, 80, 300])
@pytest.mark.parametrize("size", [1, 7])
def test_what_stays_on_the_screen_is_the_text(
    monkeypatch: pytest.MonkeyPatch, columns: int, size: int
) -> None:
    text = WORDS * 5  # more lines than the terminal has rows
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with terminal(monkeypatch, columns) as screen:
        shown_live(pieces, screen)
        lines = screen.lines()
    assert lines == shown_plainly(pieces, columns)


CHARACTERS = st.sampled_from("ab c\t\n“–é每。가́�🙂\u200d\ufe0f❤👍🏽")
PIECES = st.lists(st.text(CHARACTERS, max_size=30), min_size=1, max_size=8)


@given(PIECES, st.integers(8, 60))
@settings(max_examples=15, deadline=None)
def test_any_text_stays_whole(pieces: list[str], columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch, terminal(patch, columns) as screen:
        shown_live(pieces, screen)
        lines = screen.lines()
    assert lines == shown_plainly(pieces, columns)


def test_the_line_stands_below_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 80) as screen, answering(quiet=False) as view:
        view.write("Book trains")
        view.step(stats_after(12))
        first, second = screen.lines()
        cursor = screen.screen.cursor
        assert (cursor.x, cursor.y) == (11, 0)
    assert first == "Book trains"
    assert "tokens/step ▁" in second
    for figure in ("2.8 tokens/step", "tokens/s", "62% accepted", " s"):
        assert figure in second


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_line_fits_its_terminal(columns: int) -> None:
    line = status_line(stats_after(200), 1234.5, columns)
    assert cell_len(line) <= columns
    assert line.startswith("3.0")


def test_a_terminal_that_is_resized_keeps_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 60) as screen, answering(quiet=False) as view:
        view.write("a" * 50)
        view.step(stats_after(1))
        screen.resize(WIDTH)
        view.step(stats_after(2))  # nothing is drawn while it is unknown where the cursor is
        view.write("b" * 5)
        view.step(stats_after(3))
        view.write("\nmore")
        view.step(stats_after(4))
        assert "/step" in screen.lines()[-1]


def test_what_is_being_done_stands_there_until_the_text_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 80) as screen, answering(quiet=False) as view:
        assert view._waiting is not None
        view._waiting._live.refresh()
        assert "searching · " in screen.lines()[-1]
        view.reading(0, 900)
        view._waiting._live.refresh()
        assert "reading · 0 of 900 tokens · " in screen.lines()[-1]
        view.reading(900, 900)
        view.write("Yes.")
        assert screen.lines() == ["Yes."]


def test_a_file_gets_the_text_and_the_terminal_the_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "answer").open("w+", encoding="utf-8") as file:
        with terminal(monkeypatch, 80, stdout=file.fileno()) as screen:
            with answering(quiet=False) as view:
                view.write("Book\ntrains")
                view.step(stats_after(12))
                assert "tokens/step" in screen.lines()[-1]
            assert screen.lines() == []
        assert (tmp_path / "answer").read_text() == "Book\ntrains"


def test_a_pipe_whose_reader_shares_the_terminal_gets_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with terminal(monkeypatch, 80, stdout=writer) as screen:
        with answering(quiet=False) as view:
            view.write("Book")
            before = screen.lines()
            view.step(stats_after(12))
            assert screen.lines() == before == []
        sys.stdout.flush()
    os.close(writer)
    assert os.read(reader, 99) == b"Book"
    os.close(reader)


@pytest.mark.parametrize(
    "setting", [{"TERM": "dumb"}, {"FORCE_COLOR": "1", "TERM": "dumb"}, {"TTY_INTERACTIVE": "0"}]
)
def test_nothing_moves_where_it_must_not(monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]) -> None:
    with terminal(monkeypatch, 80) as screen:
        for name, value in setting.items():
            monkeypatch.setenv(name, value)
        shown_live(["Book ", "trains"], screen)
        assert b"\x1b" not in screen.read()
        assert screen.lines() == ["Book trains"]


def test_colour_that_is_forced_off_a_terminal_moves_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with answering(quiet=False) as view:
        view.write("Book")
        view.step(stats_after(3))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("abc", 3, 3), ("每晚", 4, 4), ("“a”", 3, 3), ("é", 1, 1), ("🙂", 2, 2), ("🙂\u200d🙂", 2, 6),
     ("❤\ufe0f", 1, 2), ("🏽", 0, 2), ("a\tb", 9, 9), ("a\nb", 1, 1)],
)  # fmt: skip
def test_columns_are_counted_as_far_as_they_are_certain(
    monkeypatch: pytest.MonkeyPatch, text: str, least: int, most: int
) -> None:
    monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
    counted = Columns()
    counted.advance(text, WIDTH)
    assert (counted.least, counted.most) == (least, most)


def test_a_wide_character_does_not_fit_the_last_column() -> None:
    counted = Columns()
    counted.advance("a" * (WIDTH - 1) + "每", WIDTH)
    assert (counted.least, counted.may_be_full(WIDTH)) == (WIDTH + 2, False)
    counted.advance("a" * (WIDTH - 2), WIDTH)
    assert counted.may_be_full(WIDTH)


def test_where_quotes_may_be_wide_they_are_not_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "")
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    counted = Columns()
    counted.advance("“a”", WIDTH)
    assert (counted.least, counted.most) == (3, 5)


@pytest.mark.parametrize("columns", [40, 80])
def test_quotes_accents_and_emoji_do_not_hide_the_line(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """A long paragraph of them: the line is left out at the edge alone."""
    monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
    words = ["“Déjà", "vu”", "–", "🙂", "…", "‘naïve’"] * 30
    with terminal(monkeypatch, columns) as screen, answering(quiet=False) as view:
        drawn = 0
        for word in words:
            view.write(f"{word} ")
            view.step(SOME_STEPS)
            drawn += view._stands
            screen.read()
    assert drawn >= 0.9 * len(words)
