"""The two streams: terminals or not, how wide, with which colours and characters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from ragla.environment.finding import Finding, Surroundings, judged
from ragla.terminal import errors, output

if TYPE_CHECKING:
    from rich.console import Console

NARROW = 40  # columns for which everything is made
COLOURS = {"standard": "16 colours", "256": "256 colours", "truecolor": "all colours", "windows": "colours"}


def streams(at: Surroundings) -> Iterator[Finding]:
    """What is shown where, and what switches some of it off."""
    shown = {
        "stdout": _stream(sys.stdout, output()),
        "stderr": _stream(sys.stderr, errors(always=True)),
    }
    said = "; ".join(f"{name} {what}" for name, what in shown.items())
    if len(set(shown.values())) == 1:
        said = f"stdout and stderr {shown['stdout']}"
    off = [f"{name}={os.environ[name]}" for name in ("TTY_INTERACTIVE",) if name in os.environ]
    off += ["TERM=dumb: nothing moves"] if os.environ.get("TERM") in ("dumb", "unknown") else []
    off += ["NO_COLOR is set"] if os.environ.get("NO_COLOR") else []
    encoding = (sys.stdout.encoding if sys.stdout else None) or "utf-8"
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    yield from judged(
        "terminal",
        "; ".join([said, *off]),
        (
            not encoding.lower().replace("-", "").startswith("utf"),
            f"what {encoding} has no character for is shown as ?",
            "export PYTHONUTF8=1",
        ),
        (
            is_terminal and output().width < NARROW,
            f"narrower than the {NARROW} columns that lines are made for",
            "a wider window",
        ),
    )


def _stream(stream: TextIO | None, console: Console) -> str:
    if stream is None:
        return "closed"
    encoding = (stream.encoding or "utf-8").lower()
    if not stream.isatty():
        return f"no terminal ({encoding}): no colours, nothing moves"
    colours = COLOURS.get(console.color_system or "", "no colours")
    links = ", links (OSC 8)" if console.color_system else ""
    return f"a terminal of {console.width} columns, {colours}{links}, {encoding}"
