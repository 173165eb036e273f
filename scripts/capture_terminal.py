"""Run a command in a terminal and keep what stands on its screen at the end, as an SVG.

    .venv/bin/python scripts/capture_terminal.py docs/images/ask.svg ragla ask --profile offline 'Where …?'

The picture of the README is made so, beside an index of `corpora/handbook` by the profile `offline`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import itertools
import os
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROWS = 60
COLOURS = {"brown": "yellow"}  # as pyte and as rich name the third colour
FONTS = "DejaVu Sans Mono, Menlo, Consolas"


class Screen(pyte.Screen):
    """A screen that knows dim text, which pyte does not: kept as blinking, which nothing here does."""

    def select_graphic_rendition(self, *attributes: int, **more: Any) -> None:
        """Take colours and the like."""
        if not {38, 48} & set(attributes):  # there 2 means a colour in parts
            attributes = tuple(5 if one == 2 else one for one in attributes)
        super().select_graphic_rendition(*attributes, **more)


def screen_after(command: list[str], columns: int) -> Screen:
    """The screen when the command has ended. Raises CalledProcessError where it failed."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    running = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**environment, "TERM": "xterm-256color"}
    )
    os.close(slave)
    screen = Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    with contextlib.suppress(OSError):  # how a terminal says that nobody holds its other end
        while written := os.read(master, 65_536):
            stream.feed(written)
    os.close(master)
    if code := running.wait():
        raise subprocess.CalledProcessError(code, command)
    return screen


def lines(screen: Screen) -> list[Text]:
    """What stands on the screen, with its styles."""
    found = []
    for row in range(screen.lines):
        line = Text()
        cells = (screen.buffer[row][column] for column in range(screen.columns))
        for style, alike in itertools.groupby(cells, style_of):
            line.append("".join(cell.data for cell in alike), style)
        line.rstrip()
        found.append(line)
    while found and not found[-1].plain.strip():
        found.pop()
    return found


def style_of(cell: Any) -> Style:
    """A cell's style as rich has it."""
    colour = COLOURS.get(cell.fg, cell.fg).replace("bright", "bright_")
    colour = f"#{colour}" if re.fullmatch("[0-9a-f]{6}", colour) else colour
    return Style(
        color=None if colour == "default" else colour,
        bold=cell.bold, italic=cell.italics, underline=cell.underscore, reverse=cell.reverse, dim=cell.blink,
    )  # fmt: skip


def main() -> None:
    """Run, draw, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    command = [str(Path(sys.executable).with_name("ragla")), *asked.command[1:]]
    screen = screen_after(command, asked.columns)
    console = Console(record=True, width=asked.columns, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {shlex.join(asked.command)}", "bold"), soft_wrap=True)
    for line in lines(screen):
        console.print(line, soft_wrap=True)
    picture = console.export_svg(title="ragla", unique_id="ragla")
    # the picture asks nobody for a font
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL).replace("Fira Code", FONTS)
    asked.picture.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
