"""What ``ragla doctor`` shows: a line for each thing that was looked at, below it what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ragla.render import first_of, one_line
from ragla.secrets import redact

if TYPE_CHECKING:
    from ragla.environment import Finding
    from ragla.retrieve.check import Check, Problem

SHOWN = 10  # problems of one kind
WORD, NAME = 8, 11  # columns
STYLES = {"ok": "green", "note": "yellow", "wrong": "red", "damaged": "red"}


def finding_lines(found: Finding) -> Iterable[Text]:
    """One thing of the surroundings."""
    line = _head(found.state, found.name)
    line.append(one_line(redact(found.said)))
    yield line
    if found.mend:
        yield Text(f"  → {one_line(redact(found.mend))}")


def check_lines(check: Check) -> Iterable[Text]:
    """One check of an index, with what is wrong below it."""
    line = _head("damaged" if check.problems else "ok", check.name)
    line.rstrip()
    yield line
    yield from _problem_lines(check.problems, "red")
    yield from _problem_lines(check.waiting, "yellow")


def mended_line(done: str) -> Text:
    """What a repair did."""
    return Text(f"mended: {one_line(done)}", style="green")


def _head(word: str, name: str) -> Text:
    return Text.assemble((f"{word:<{WORD}}", STYLES[word]), (f"{name:<{NAME}}", "bold"))


def _problem_lines(problems: tuple[Problem, ...], style: str) -> Iterable[Text]:
    """Each with its place; the commands once, behind those that they mend."""
    for mend in dict.fromkeys(problem.mend for problem in problems):
        same = [problem for problem in problems if problem.mend == mend]
        said = (f"  {one_line(problem.where)}: {one_line(problem.what)}" for problem in same)
        yield from first_of((Text(line, style=style) for line in said), SHOWN, style)
        yield Text(f"  → {one_line(mend)}")


def doctor_json(
    place: Path | None, surroundings: Iterable[Finding], checks: Iterable[Check], mended: Iterable[str]
) -> dict[str, Any]:
    """``ragla doctor --json``; ``place``: None where there is no index."""
    found = [
        {
            "name": one.name,
            "state": one.state,
            "said": redact(one.said),
            "mend": redact(one.mend) if one.mend else None,
        }
        for one in surroundings
    ]
    listed = [
        {
            "name": check.name,
            "ok": not check.problems,
            "problems": [_as_json(problem) for problem in check.problems],
            "waiting": [_as_json(problem) for problem in check.waiting],
        }
        for check in checks
    ]
    return {
        "schema": "ragla.doctor/1",
        "index": None if place is None else str(place),
        "ok": all(check["ok"] for check in listed) and all(one["state"] != "wrong" for one in found),
        "environment": found,
        "mended": list(mended),
        "checks": listed,
    }


def _as_json(problem: Problem) -> dict[str, str]:
    return {"what": problem.what, "where": problem.where, "mend": problem.mend}
