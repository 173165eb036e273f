"""Of which folders an index is made, also while nothing of them is in it; what is said of an empty one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ragla.errors import IndexUnusable
from ragla.retrieve.faults import database_errors
from ragla.retrieve.generations import is_unfinished
from ragla.retrieve.store import Store

_ASKED = "folders"  # under which name an index keeps those of the last run


def note_folders(store: Store, folders: Sequence[Path]) -> None:
    """Note what a run is asked to index, before it reads anything.

    An index that never held anything counts as begun from then on, until the run ends.
    """
    asked = json.dumps([str(folder) for folder in folders])
    if not store.generation():
        store.before_change()
    if store.value(_ASKED) != asked:
        with store.transaction():
            store.set_value(_ASKED, asked)


def forget_folders(store: Store, gone: Sequence[Path]) -> None:
    """Forget, within the caller's transaction if there is one, that these were asked for."""
    kept = [str(folder) for folder in _asked(store) if folder not in gone]
    store.set_value(_ASKED, json.dumps(kept))


def indexed_roots(index_dir: Path) -> list[Path]:
    """The folders an index was made of, those included of which the last run found nothing yet.

    Raises IndexUnusable when there is no index, or it knows of none.
    """
    with closing(Store.read(Path(index_dir))) as store:
        roots = _folders(store)
    if not roots:
        raise IndexUnusable(f"{index_dir}: the index holds no files", hint="ragla index FOLDER")
    return roots


def why_empty(index_dir: Path) -> IndexUnusable | None:
    """The error for an index without a passage; None where there are some.

    Raises IndexUnusable when there is no index, or it cannot be read.
    """
    with closing(Store.read(Path(index_dir))) as store, database_errors(store.database):
        if store.passage_count():
            return None
        folders, known, was_cut_off = _folders(store), store.files(), is_unfinished(store)
    if known and not was_cut_off:
        return IndexUnusable(
            f"{index_dir}: the index is empty: there was no text in what was found",
            hint=_command("ragla info --skipped", Path(index_dir)),
        )
    named = shlex.join(map(str, folders)) if folders else "FOLDER"
    mend = _command(f"ragla index {named}", Path(index_dir))
    if was_cut_off:
        return IndexUnusable(f"{index_dir}: the index is empty: its first run was interrupted", hint=mend)
    return IndexUnusable(f"{index_dir}: the index is empty", hint=mend)


def _folders(store: Store) -> list[Path]:
    roots = [Path(root) for root in store.roots()]
    # One that is gone and left nothing in the index is not to stop a run over the others.
    return roots + [folder for folder in _asked(store) if folder not in roots and folder.is_dir()]


def _asked(store: Store) -> list[Path]:
    with database_errors(store.database):
        return [Path(folder) for folder in json.loads(store.value(_ASKED) or "[]")]


def _command(command: str, index_dir: Path) -> str:
    """With the index named, where it is not the one that is made here."""
    is_here = index_dir.absolute() == Path.cwd() / ".ragla"
    return command if is_here else f"{command} --index {shlex.quote(str(index_dir))}"
