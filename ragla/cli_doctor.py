"""``ragla doctor``: what is wrong with the installation, the machine and an index, and what mends it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragla.errors import IndexUnusable, RaglaError
from ragla.flags import IndexFlag, JsonFlag, ModelFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import errors, output, print_json, status

if TYPE_CHECKING:
    from ragla.environment import Finding
    from ragla.profiles import LoadedProfile
    from ragla.retrieve.check import Check

MAKE_ONE = "ragla index FOLDER"


def doctor(
    index_path: IndexFlag = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended without reading a document.")
    ] = False,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Check installation, machine, models and, to the byte, the index; say what mends what is wrong.

    [bold]ragla doctor[/]

    [bold]ragla doctor --profile offline[/]

    [bold]ragla doctor --repair[/]

    A note is no fault: it says what is slower or less than it could be. Without an index the rest is looked
    at. Exits with 0 where nothing is wrong; with 3 where the index is damaged or empty, or the one that was
    named is not there; else with 1 where something of the installation or the machine is wrong; else with 5
    where a model of the profile is missing.
    """
    from ragla.environment import exit_code
    from ragla.render_doctor import check_lines, doctor_json, finding_lines

    loaded = load_profile(profile, settings, {"decode.model": model})
    place = _place(index_path, needed=repair)
    found: list[Finding] = []
    named = index_path or os.environ.get("RAGLA_INDEX")
    for one in _surroundings(loaded, place, named, repair=repair, quiet=as_json):
        found.append(one)
        if not as_json:
            for line in finding_lines(one):
                output().print(line, soft_wrap=True)
    if any(one.name == "index" for one in found):
        place = None
    mended, checked = _index(place, repair=repair, quiet=as_json) if place is not None else ([], [])
    if loaded.profile.retrieve.store == "milvus":
        from ragla.retrieve.milvus_look import milvus_checks

        with status("looking at Milvus", quiet=as_json):
            checked += milvus_checks(loaded.profile.retrieve, place)
    if as_json:
        print_json(doctor_json(place, found, checked, mended))
    for line in (line for check in checked for line in check_lines(check)) if not as_json else ():
        output().print(line, soft_wrap=True)
    damaged = any(check.problems for check in checked)
    if code := IndexUnusable.exit_code if damaged else exit_code(found):
        raise typer.Exit(code)


def _place(chosen: str | None, *, needed: bool) -> Path | None:
    """The index, None where there is none. Raises IndexUnusable where one is ``needed``."""
    from ragla import session

    try:
        return session.find_index(chosen, Path.cwd())
    except IndexUnusable:
        if needed:
            raise
        return None


def _surroundings(
    loaded: LoadedProfile, place: Path | None, named: str | None, *, repair: bool, quiet: bool
) -> Iterator[Finding]:
    """What is around the index; a finding ``index`` last where there is none that can be looked at."""
    from ragla.environment import Finding, Surroundings, look_around
    from ragla.environment.probe import load_parts
    from ragla.user_path import user_path

    with status("loading torch and FAISS to see whether they can be", quiet=quiet):
        parts = load_parts()
    yield from look_around(Surroundings(loaded.profile, loaded.name, parts, place or Path.cwd()))
    if place is None and named:
        path = str(user_path(named))
        mend = f"{MAKE_ONE} --index {shlex.quote(path)}"
        yield Finding("index", "wrong", f"there is none at {path}", mend, IndexUnusable.exit_code)
    elif place is None:
        yield Finding("index", "note", f"none in {Path.cwd()} or above", MAKE_ONE)
    elif "error" in parts.get("faiss", {}):
        yield Finding("index", "wrong", f"{place} is not looked at while FAISS cannot be loaded")
    elif place is not None and not repair and (empty := _empty(place)) is not None:
        yield Finding("index", "wrong", str(empty), empty.hint, empty.exit_code)


def _empty(place: Path) -> IndexUnusable | None:
    """What is said of an index without a passage; one that cannot be read is for the checks."""
    from ragla.retrieve.folders import why_empty

    try:
        return why_empty(place)
    except RaglaError:
        return None


def _index(place: Path, *, repair: bool, quiet: bool) -> tuple[list[str], list[Check]]:
    """What was mended of an index, which is told at once, and how it is then."""
    from ragla.render import one_line
    from ragla.render_doctor import mended_line
    from ragla.retrieve.check import checks

    if not quiet:
        output().print()
        output().print(f"index {one_line(str(place))}", style="bold", soft_wrap=True)
    mended = _mend(place, quiet=quiet) if repair else []
    for done in mended if not quiet else ():
        output().print(mended_line(done), soft_wrap=True)
    with status("checking the index", quiet=quiet):
        return mended, list(checks(place, was_repaired=repair))


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
