"""Takes files and folders out of an index, and keeps them out until they are taken back."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from ragla.errors import UsageError
from ragla.retrieve.changes import below
from ragla.retrieve.faults import database_errors
from ragla.retrieve.folders import forget_folders
from ragla.retrieve.generations import Changes
from ragla.retrieve.layout import sweep, writing
from ragla.retrieve.repair import rewrite_vectors
from ragla.retrieve.retriever import root_labels
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.selection import EVERYTHING, Selection, remember, selections
from ragla.retrieve.store import Store
from ragla.user_path import user_path


@dataclass(frozen=True)
class Removed:
    """What was taken out: files, folders that the index was made of, and the passages that are left."""

    files: tuple[str, ...]
    folders: tuple[str, ...]
    total_passages: int


def remove(index_dir: Path, names: Sequence[str], keep_previous: bool) -> Removed:
    """Take out files, folders or whole indexed folders, and remember that they are not wanted.

    ``names``: paths as typed here, or as a search shows them. ``keep_previous``: the index of before can be
    gone back to. Raises UsageError, before anything is changed, for a name that means nothing in the index.
    """
    index_dir = Path(index_dir).resolve()
    with writing(index_dir):
        with _opened(index_dir) as store, database_errors(store.database):
            known, roots = store.files(), [Path(root) for root in store.roots()]
            paths = [_meant(name, known, roots) for name in names]
            gone = [absolute for absolute in known if below(absolute, paths)]
            changes = Changes(store, keep_previous)
            store.before_change = changes.begin
            remember(store, _without(selections(store), roots, paths))
            store.remove(gone)
            forget_folders(store, [root for root in roots if below(root, paths)])
            rewrite_vectors(store)
            total = store.passage_count()
            changes.finish()
        sweep(index_dir)
    folders = [str(root) for root in roots if below(root, paths)]
    return Removed(tuple(gone), tuple(folders), total)


def kept_out(index_dir: Path) -> list[str]:
    """What was removed and is kept out, as absolute paths in order."""
    with closing(Store.read(Path(index_dir))) as store:
        return sorted(str(path) for path in _kept_out(selections(store)))


def take_back(index_dir: Path, names: Sequence[str], keep_previous: bool) -> list[str]:
    """Let the next run read again what was removed; the paths that were kept out until now.

    Raises UsageError, before anything is changed, for a name that was not removed.
    """
    index_dir = Path(index_dir).resolve()
    with writing(index_dir):
        with _opened(index_dir) as store, database_errors(store.database):
            made = selections(store)
            out = _kept_out(made)
            back = {path for name in names for path in _meant_back(name, out)}
            changes = Changes(store, keep_previous)
            store.before_change = changes.begin
            remember(
                store,
                {
                    root: replace(
                        chosen, removed=tuple(one for one in chosen.removed if root / one not in back)
                    )
                    for root, chosen in made.items()
                },
            )
            changes.finish()
        sweep(index_dir)
    return sorted(map(str, back))


def _opened(index_dir: Path) -> closing[Store]:
    """The current database, to be written as it was made."""
    with closing(Store.read(index_dir)) as store:
        fingerprint = store.fingerprint()
    return closing(Store.write(store.database, fingerprint))


def _meant(name: str, known: Mapping[str, FileRecord], roots: Sequence[Path]) -> Path:
    """The file or folder that a name means: a path from here, else one as it is shown."""
    if not name.strip():
        raise UsageError("an empty name means nothing", "ragla remove PATH")
    for path in _spelled(name):
        inside = ", ".join(str(root) for root in roots if root.is_relative_to(path))
        if inside and path not in roots:
            raise UsageError(f"{name}: holds whole indexed folders", f"name what is to go: {inside}")
        if path in roots or str(path) in known or any(Path(one).is_relative_to(path) for one in known):
            return path
    labels = root_labels([str(root) for root in roots])
    shown = {labels[record.root] + record.path: absolute for absolute, record in known.items()}
    plain = name.rstrip("/").removeprefix("./")
    if plain in shown:
        return Path(shown[plain])
    for root in roots:
        label = labels[str(root)]
        folder = root / plain.removeprefix(label)
        if plain.startswith(label) and any(Path(one).is_relative_to(folder) for one in known):
            return folder
    near = difflib.get_close_matches(plain, shown, n=1) or difflib.get_close_matches(
        Path(plain).name, [Path(one).name for one in shown], n=1
    )
    hint = f"did you mean {near[0]}?" if near else "ragla info says what is in it"
    raise UsageError(f"{name}: not in the index", hint)


def _spelled(name: str) -> list[Path]:
    """What a path from here may be in the index: with links as typed, or followed."""
    path = user_path(name)
    return [Path(os.path.abspath(path)), path.resolve()]  # noqa: PTH100  resolve() follows links


def _without(
    made: Mapping[Path, Selection], roots: Iterable[Path], paths: Sequence[Path]
) -> dict[Path, Selection]:
    """The selections of the folders that stay, with what is not wanted any more."""
    chosen = {root: selection for root, selection in made.items() if not below(root, paths)}
    for root in roots:
        inside = [path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root)]
        if inside and not below(root, paths):
            selection = chosen.get(root, EVERYTHING)
            chosen[root] = replace(selection, removed=tuple(sorted({*selection.removed, *inside})))
    return chosen


def _kept_out(made: Mapping[Path, Selection]) -> set[Path]:
    return {root / one for root, chosen in made.items() for one in chosen.removed}


def _meant_back(name: str, out: set[Path]) -> set[Path]:
    """What was removed under a name, or below it."""
    for path in _spelled(name):
        found = {one for one in out if one.is_relative_to(path)}
        if found:
            return found
    ending = {one for one in out if str(one).endswith("/" + name.rstrip("/").removeprefix("./"))}
    if len(ending) == 1:
        return ending
    near = difflib.get_close_matches(name, map(str, out), n=1, cutoff=0.3)
    raise UsageError(
        f"{name}: was not removed", f"did you mean {near[0]}?" if near else "see: ragla remove --list"
    )
