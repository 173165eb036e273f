"""Lines for a person end between words; what is copied stays whole."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ragla.lines import INDENT, LineConsole, breaks, broken

LINE = "24 tokens in 9 steps · 2.6 tokens/step · 58% accepted"


def plain(text: str, width: int) -> list[str]:
    return [line.plain for line in broken(Text(text), Console(width=width))]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (80, [LINE]),
        (40, ["24 tokens in 9 steps · 2.6 tokens/step ·", "  58% accepted"]),
        (24, ["24 tokens in 9 steps ·", "  2.6 tokens/step · 58%", "  accepted"]),
    ],
)
def test_lines_end_between_words(width: int, lines: list[str]) -> None:
    assert plain(LINE, width) == lines


def test_a_path_stays_whole_and_indents_go_on() -> None:
    path = "/a/very/long/path/" * 4
    assert plain(f"  skipped: {path}: damaged PDF", 40) == ["  skipped:", f"    {path}:", "    damaged PDF"]


def test_wide_characters_count_twice() -> None:
    assert plain("每晚上限 每晚上限 每晚", 10) == ["每晚上限", "  每晚上限", "  每晚"]


@given(st.text("ab 每\t", max_size=80), st.integers(6, 40))
def test_nothing_is_lost(text: str, width: int) -> None:
    joined = "".join(plain(text, width))
    assert joined.split() == text.split() or "".join(joined.split()) == "".join(text.split())
    ends = breaks(text, width, INDENT)
    for start, end in zip([0, *ends], ends, strict=False):
        words = text[start:end].split()
        assert len(words) == 1 or cell_len(text[start:end].rstrip()) <= width


@pytest.mark.parametrize("text", ["\x1b[2Ja\x9bb", "a\u202eb"])
def test_a_console_hands_on_no_commands(text: str) -> None:
    console = LineConsole(file=io.StringIO(), width=40, markup=False, force_terminal=True)
    console.print(text, soft_wrap=True)
    console.print(Text("x ").append(text, "bold"))
    assert isinstance(console.file, io.StringIO)
    written = console.file.getvalue()
    assert not {"\x9b", "\u202e"} & set(written)
    assert "\x1b[2J" not in written
    assert "\x1b[1m" in written  # its own styles
