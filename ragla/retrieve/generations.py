"""The index as it was before the last run that changed it: kept while a run changes it, and brought back.

Before the first change of a run the current database is copied, and the copy is what ``rollback`` makes
current. A run that was interrupted and one that takes up its work count as one: the copy is from before
both. What it is from before is noted in the database that changes, in its value ``open_run``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ragla.errors import IndexUnusable, RaglaError
from ragla.retrieve import migrate, schema
from ragla.retrieve.durable import sync_file, sync_folder
from ragla.retrieve.faults import MAKE_ROOM, damaged, database_errors, file_errors
from ragla.retrieve.layout import (
    Generations,
    databases,
    discard,
    generations,
    next_database,
    point_to,
    sweep,
    vectors_of,
    writing,
)
from ragla.retrieve.store import Store

_OPEN_RUN = "open_run"
_REBUILDING = "rebuilding"
_PAGES_AT_ONCE = 4096  # between two looks at whether Ctrl-C was pressed
_TO_DO_WITHOUT = "free some space, or keep no copy: --set retrieve.keep_previous=false"


@dataclass(frozen=True)
class RolledBack:
    """What is current now: its files that are indexed, its passages, when it was last changed."""

    files: int
    passages: int
    changed_at: datetime | None


@dataclass
class Sitting:
    """Runs that a rollback undoes together, such as those that follow a folder. ``is_kept``: the first has
    kept the index of before."""

    is_kept: bool = False


class Changes:
    """One run's changes of the current database; tell it before each. ``keep``: keep the index of before."""

    def __init__(self, store: Store, keep: bool, sitting: Sitting | None = None) -> None:
        self._store = store
        self._keep = keep
        self._sitting = sitting or Sitting()
        self._begun = False

    def begin(self) -> None:
        """Copy the database before the first change; the lock is the caller's."""
        if self._begun:
            return
        store = self._store
        if store.value(_OPEN_RUN) is None:
            if not self._keep:
                _forget_previous(store.database)
            elif store.generation() and not self._sitting.is_kept:  # at 0 there is nothing to go back to
                _copy(store)
                self.note_kept()
            with store.transaction():
                store.set_value(_OPEN_RUN, "1")
        else:
            self.note_kept()
        self._begun = True

    def note_kept(self) -> None:
        """Later runs of the sitting are not to replace the index of before."""
        self._sitting.is_kept = True

    def finish(self) -> None:
        """The run has done what it was to do: the next one's changes are changes of their own."""
        if self._store.value(_OPEN_RUN) is not None:
            with self._store.transaction():
                self._store.set_value(_OPEN_RUN, None)


def is_unfinished(store: Store) -> bool:
    """Whether the last run that changed the index was interrupted."""
    return store.value(_OPEN_RUN) is not None


def _forget_previous(current: Path) -> None:
    kept = generations(current.parent)
    if kept is not None and kept.previous is not None:
        point_to(current)
        sweep(current.parent)


def _copy(store: Store) -> None:
    """Make a copy of the current database the previous one, in place of the one that was."""
    folder = store.database.parent
    target = next_database(folder)
    temporary = target.with_name(target.name + ".tmp")
    try:
        with database_errors(store.database), closing(sqlite3.connect(temporary)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")  # half a copy is of no use to anybody
            copy.execute("PRAGMA synchronous = OFF")
            store.connection.backup(copy, pages=_PAGES_AT_ONCE, progress=_look_up)
        with file_errors(target):
            sync_file(temporary)
            temporary.replace(target)
            _share_vectors(store.dense_path, vectors_of(target))
            sync_folder(folder)
    except RaglaError as error:
        if error.hint == MAKE_ROOM:
            raise RaglaError(str(error), hint=_TO_DO_WITHOUT) from error
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    point_to(store.database, target)
    sweep(folder)


def _look_up(status: int, remaining: int, total: int) -> None:
    """Between the parts of a copy Python has a chance to raise KeyboardInterrupt."""


def _share_vectors(source: Path, target: Path) -> None:
    """Files of vectors are replaced, never changed, so that one may have two names."""
    if not source.is_file():
        return
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
        sync_file(target)


def rollback(index_dir: Path) -> RolledBack:
    """Make the index current that was before the last run that changed it; a second time undoes that.

    Raises IndexUnusable where there is no index or the one before it cannot be read, RaglaError where none
    was kept, IndexLocked while another process writes.
    """
    index_dir = Path(index_dir).resolve()
    if not index_dir.is_dir():
        raise IndexUnusable(f"{index_dir}: no index here", hint="ragla index FOLDER")
    with writing(index_dir):
        kept = generations(index_dir)
        if kept is None:
            raise no_current(index_dir)
        if kept.previous is None:
            raise RaglaError(
                f"{index_dir}: nothing to go back to: no run has changed the index, or no copy was kept",
                hint="retrieve.keep_previous: true keeps one from the next change on",
            )
        with closing(Store.read_database(kept.previous)) as store:
            count = "SELECT count(*) FROM files WHERE status = 'indexed'"
            with database_errors(kept.previous):
                files = int(store.connection.execute(count).fetchone()[0])
                made = RolledBack(files, store.passage_count(), store.changed_at())
        point_to(kept.previous, kept.current)
        sweep(index_dir)
    return made


def no_current(index_dir: Path) -> IndexUnusable:
    """The error for a folder in which nothing says which database is current."""
    if not databases(index_dir):
        return IndexUnusable(f"{index_dir}: no index here", hint="ragla index FOLDER")
    return damaged(index_dir, "nothing says which database is current")


def find_generations(index_dir: Path) -> Generations | None:
    """The databases that are or must have been kept, or None where there is none with anything in it.

    Raises IndexUnusable where there is one that cannot be read.
    """
    kept = generations(index_dir)
    if kept is not None:
        return kept
    found: list[tuple[int, Path]] = []
    for database in databases(index_dir):
        with closing(Store.open_to_write(database)) as store, database_errors(database):
            if not schema.has_schema(store.connection) or store.value(_REBUILDING) is not None:
                continue
            migrate.check_version(database, store.connection, migrate.OLDEST)
            found.append((store.generation(), database))
    latest = [database for generation, database in sorted(found, reverse=True) if generation]
    return Generations(*latest[:2]) if latest else None


class Rebuild:
    """A database made anew beside the current one, which it replaces when it is whole."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    def begin(cls, index_dir: Path, fingerprint: dict[str, str], is_ours: Callable[[Store], bool]) -> Rebuild:
        """Go on with one that was interrupted, if it was made with ``fingerprint`` and ``is_ours``."""
        kept = generations(index_dir)
        known = (kept.current, kept.previous) if kept is not None else ()
        if kept is not None:
            _upgrade(kept.current)
        for database in databases(index_dir):
            if kept is None or database in known:
                continue
            store = _resumed(database, fingerprint, is_ours)
            if store is not None:
                return cls(store)
            discard(database)
        store = Store.write(next_database(index_dir), fingerprint)
        with store.transaction():
            store.set_value(_REBUILDING, "1")
        return cls(store)

    def finish(self, keep: bool) -> None:
        """Close it and make it current. ``keep``: what was current can be gone back to, if it can be read."""
        database = self.store.database
        with self.store.transaction():
            self.store.set_value(_REBUILDING, None)
        self.store.close()
        point_to(database, _last_readable(database.parent) if keep else None)


def _upgrade(database: Path) -> None:
    """Bring one that is about to be replaced to the present schema, so that it can be gone back to."""
    with (
        contextlib.suppress(RaglaError),
        database_errors(database),
        closing(Store.open_to_write(database)) as store,
    ):
        migrate.check_version(database, store.connection, migrate.OLDEST)
        migrate.upgrade(store)


def _resumed(database: Path, fingerprint: dict[str, str], is_ours: Callable[[Store], bool]) -> Store | None:
    try:
        store = Store.write(database, fingerprint)
    except IndexUnusable:
        return None
    if store.value(_REBUILDING) is not None and is_ours(store):
        return store
    store.close()
    return None


def _last_readable(index_dir: Path) -> Path | None:
    kept = generations(index_dir)
    for database in (kept.current, kept.previous) if kept is not None else ():
        if database is not None:
            with contextlib.suppress(RaglaError), closing(Store.read_database(database)):
                return database
    return None
