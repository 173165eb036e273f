"""``ragla index --watch``: the index follows its folders until Ctrl-C."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ragla.terminal import errors, print_json, show_notice

if TYPE_CHECKING:
    from ragla.errors import RaglaError
    from ragla.retrieve import IndexReport


def check() -> None:
    """Raise UsageError where the package that hears of changes is missing, before a model is loaded."""
    from ragla.retrieve.watch import check_watching

    check_watching()


def watch(
    roots: Sequence[Path], place: Path, update: Callable[[bool], IndexReport], *, as_json: bool
) -> None:
    """Update now and after each change; ``update(first)`` makes one run. A line for each that did something.

    Ends with the KeyboardInterrupt of whoever ends it, or with what the first run raises.
    """
    from ragla import render
    from ragla.earlier import forget_stale
    from ragla.retrieve.walk import resolve_roots
    from ragla.retrieve.watch import follow

    folders = resolve_roots(roots)
    known: set[tuple[str, str]] | None = None
    runs = itertools.count()
    for report in follow(folders, place.resolve(), lambda: update(next(runs) == 0), _show_problem):
        _, problem = forget_stale(place)
        new = [row for row in report.skipped if known is not None and row not in known]
        if as_json:
            if known is None or report.indexed or report.removed or new:
                print_json(render.index_json(report, str(place)), "lines")
        elif known is None:
            for line in render.index_lines(report, str(place)):
                errors().print(line, soft_wrap=True)
            named = ", ".join(render.one_line(str(folder)) for folder in folders)
            errors().print(f"watching {named}; Ctrl-C ends it", style="dim", soft_wrap=True)
        elif report.indexed or report.removed or new:
            errors().print(_line(report, new), soft_wrap=True)
        show_notice(problem)
        known = set(report.skipped)


def _line(report: IndexReport, new: Sequence[tuple[str, str]]) -> str:
    """What an update did, on one line."""
    from ragla import render

    counts = ((report.indexed, "indexed"), (report.removed, "removed"))
    parts = [f"{count} {what}" for count, what in counts if count]
    parts += [f"skipped {path}: {reason}" for path, reason in new[:1]]
    parts += [f"{len(new) - 1} more skipped"] if len(new) > 1 else []
    total = render.counted(report.total_passages, "passage")
    now = datetime.now().strftime("%H:%M:%S")
    return render.one_line(f"{now}  {', '.join(parts)} · {total} · {report.seconds:.1f} s")


def _show_problem(error: RaglaError) -> None:
    from ragla import render

    hint = f" → {error.hint}" if error.hint else ""
    now = datetime.now().strftime("%H:%M:%S")
    line = render.one_line(f"{now}  not updated, tried again soon: {error}{hint}")
    errors().print(line, style="yellow", soft_wrap=True)
