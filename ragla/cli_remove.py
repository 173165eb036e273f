"""``ragla remove``: takes files and folders out of an index, and keeps them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragla import completion
from ragla.errors import UsageError
from ragla.flags import IndexFlag, JsonFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import errors, output, print_json, show_notice

SHOWN = 10  # files


def remove(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders, or a folder that was indexed.", autocompletion=completion.documents
        ),
    ] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take paths back; the next `ragla index` reads them.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List what was removed and stays out.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Take files or folders out of the index; the files themselves stay where they are.

    What was removed stays out, whatever `ragla index` is told, until --undo takes it back. A folder that
    was indexed is forgotten as a whole; `ragla index FOLDER` makes it part of the index again.

    [bold]ragla remove docs/drafts docs/old.md[/]
    """
    from ragla import session

    place = session.find_index(index_path, Path.cwd())
    if listed:
        _list(paths, undo, place, as_json)
        return
    if not paths:
        raise UsageError("nothing to remove was named", "ragla remove PATH")
    keep = load_profile(profile, settings).profile.retrieve.keep_previous
    if undo:
        _take_back(place, paths, keep, as_json)
    else:
        _remove(place, paths, keep, as_json)


def _list(paths: list[str] | None, undo: bool, place: Path, as_json: bool) -> None:
    from ragla.render import one_line
    from ragla.retrieve.remove import kept_out

    if paths or undo:
        raise UsageError("--list takes neither paths nor --undo", "ragla remove --list")
    out = kept_out(place)
    if as_json:
        print_json({"schema": "ragla.removed/1", "index": str(place), "paths": out})
        return
    for path in out:
        output().print(one_line(path), soft_wrap=True)
    if not out:
        errors().print("nothing was removed", soft_wrap=True)


def _take_back(place: Path, paths: list[str], keep: bool, as_json: bool) -> None:
    from ragla.render import one_line
    from ragla.retrieve.remove import take_back

    back = take_back(place, paths, keep)
    if as_json:
        print_json({"schema": "ragla.undone/1", "index": str(place), "paths": back})
        return
    for path in back:
        errors().print(f"taken back: {one_line(path)}", soft_wrap=True)
    errors().print("  → ragla index", soft_wrap=True)


def _remove(place: Path, paths: list[str], keep: bool, as_json: bool) -> None:
    from rich.text import Text

    from ragla.earlier import forget_stale
    from ragla.render import counted, first_of, one_line
    from ragla.retrieve.remove import remove as take_out

    made = take_out(place, paths, keep)
    dropped, problem = forget_stale(place)
    if as_json:
        print_json(
            {
                "schema": "ragla.remove/1",
                "index": str(place),
                "removed": list(made.files),
                "folders": list(made.folders),
                "total_passages": made.total_passages,
                "answers_dropped": dropped,
            }
        )
        return
    head = f"{counted(len(made.files), 'file')} removed · {counted(made.total_passages, 'passage')} left in "
    errors().print(head + one_line(str(place)), style="bold", soft_wrap=True)
    for line in first_of((Text(f"  {one_line(path)}") for path in made.files), SHOWN):
        errors().print(line, soft_wrap=True)
    if dropped:
        errors().print(f"  dropped with its documents: {counted(dropped, 'earlier answer')}", soft_wrap=True)
    show_notice(problem)
