"""Writes the tables of committed benches into the documents that show them.

A document holds such a table between two comments, the first of which is the command that prints it:

    <!-- ragla bench --show docs/bench/NAME.json --markdown -->
    <!-- end -->

``python scripts/bench_tables.py`` writes what is between them anew, in README.md, README.zh.md and docs/.
"""

from __future__ import annotations

import re
from pathlib import Path

from ragla.bench.markdown import markdown
from ragla.bench.result_json import load_result

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"(?P<begin><!-- ragla bench --show (?P<file>\S+) --markdown -->)\n(?P<table>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def documents() -> list[Path]:
    """The files that may hold tables."""
    return [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def written(text: str) -> str:
    """A document with each of its tables as the bench's file has it."""

    def table(found: re.Match[str]) -> str:
        return f"{found['begin']}\n\n{markdown(load_result(ROOT / found['file']))}\n\n{found['end']}"

    return BLOCK.sub(table, text)


def main() -> None:
    """Write every document whose tables have changed, and name it."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (anew := written(text)) != text:
            path.write_text(anew, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
