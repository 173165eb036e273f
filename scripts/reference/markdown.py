"""Markdown from rows and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell(text) for text in line)} |" for line in lines)


def cell(text: str) -> str:
    """Text of one cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A word as code."""
    return f"`{text}`"
