"""``ragla doctor``: what is wrong with an index, and the commands that mend it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla.errors import IndexUnusable
from ragla.flags import IndexFlag, JsonFlag
from ragla.terminal import errors, output, print_json, status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

    from ragla.retrieve.check import Check, Problem

SHOWN = 10  # problems of one kind


def doctor(
    index_path: IndexFlag = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended without reading a document.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check that the index is whole, to the byte; say what is not, and the command that mends it.

    Exits with 0 where everything is as it should be, with 3 where something is not.

    [bold]ragla doctor --repair[/]
    """
    from ragla import session
    from ragla.retrieve.check import checks

    place = session.find_index(index_path, Path.cwd())
    mended = _mend(place, quiet=as_json) if repair else []
    found = []
    with status("checking the index", quiet=as_json):
        for check in checks(place, was_repaired=repair):
            found.append(check)
    if as_json:
        print_json(doctor_json(place, found, mended))
    else:
        for line in doctor_lines(found, mended):
            output().print(line, soft_wrap=True)
    if any(check.problems for check in found):
        raise typer.Exit(IndexUnusable.exit_code)


def _mend(place: Path, quiet: bool) -> list[str]:
    """What was done; where not even the database can be opened, the checks say what is left to do."""
    from ragla.render import one_line
    from ragla.retrieve.repair import repair

    mended: list[str] = []
    try:
        with status("repairing", quiet=quiet):
            for done in repair(place):
                mended.append(done)
    except IndexUnusable as error:
        if not quiet:
            errors().print(f"not repaired: {one_line(str(error))}", style="yellow", soft_wrap=True)
    return mended


def doctor_lines(checks: Iterable[Check], mended: Iterable[str]) -> Iterable[Text]:
    """What was mended, then a line for each check, with what is wrong below it."""
    from rich.text import Text

    from ragla.render import one_line

    for done in mended:
        yield Text(f"mended: {one_line(done)}", style="green")
    for check in checks:
        word, style = ("damaged", "red") if check.problems else ("ok", "green")
        line = Text(f"{word:<8}", style=style)
        line.append(check.name, style="bold")
        yield line
        yield from _problem_lines(check.problems, "red")
        yield from _problem_lines(check.waiting, "yellow")


def _problem_lines(problems: tuple[Problem, ...], style: str) -> Iterable[Text]:
    """Each with its place; the commands once, behind those that they mend."""
    from rich.text import Text

    from ragla.render import first_of, one_line

    for mend in dict.fromkeys(problem.mend for problem in problems):
        same = [problem for problem in problems if problem.mend == mend]
        said = (f"  {one_line(problem.where)}: {one_line(problem.what)}" for problem in same)
        yield from first_of((Text(line, style=style) for line in said), SHOWN, style)
        yield Text(f"  → {one_line(mend)}")


def doctor_json(place: Path, checks: Iterable[Check], mended: Iterable[str]) -> dict[str, Any]:
    """``ragla doctor --json``."""
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
        "index": str(place),
        "ok": all(check["ok"] for check in listed),
        "mended": list(mended),
        "checks": listed,
    }


def _as_json(problem: Problem) -> dict[str, str]:
    return {"what": problem.what, "where": problem.where, "mend": problem.mend}
