"""What an index holds and what it was made with; reads no document and loads no model."""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragla.retrieve.chunk import CHUNKER
from ragla.retrieve.dense import DenseRecord
from ragla.retrieve.formats import suffix_of
from ragla.retrieve.layout import generations, vectors_of
from ragla.retrieve.read import READERS
from ragla.retrieve.schema import SCHEMA_VERSION
from ragla.retrieve.selection import EVERYTHING, Selection, selections
from ragla.retrieve.store import Store

_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


@dataclass(frozen=True)
class FolderStatistics:
    """A folder of the index. ``is_there``: it still is on the disk."""

    folder: str
    is_there: bool
    indexed: int
    skipped: int
    selection: Selection


@dataclass(frozen=True)
class TypeStatistics:
    """Files with one suffix, which is lower case and without its dot; empty for names without one."""

    suffix: str
    indexed: int
    skipped: int
    passages: int


@dataclass(frozen=True)
class DenseStatistics:
    """The FAISS file. ``is_current``: it is there and was written for the passages as they are."""

    record: DenseRecord | None
    bytes: int
    is_current: bool


@dataclass(frozen=True)
class IndexStatistics:
    """An index. ``skipped``: (path, reason), absolute; ``reasons``: how many files each kind of reason has.

    ``changed_at``: when passages last changed, UTC, None for an empty index. ``bytes``: on disk, by part.
    ``is_outdated``: it was made by a ragla that reads or cuts otherwise. ``store``: as ``retrieve.store``.
    """

    index: Path | str
    bytes: dict[str, int]
    schema: str
    generation: int
    changed_at: datetime | None
    made_with: dict[str, str]
    is_outdated: bool
    folders: list[FolderStatistics]
    types: list[TypeStatistics]
    reasons: dict[str, int]
    skipped: list[tuple[str, str]]
    passages: int
    dense: DenseStatistics
    store: str = "faiss"

    @property
    def indexed_files(self) -> int:
        """Files that gave text."""
        return sum(one.indexed for one in self.types)


def index_statistics(index_dir: Path) -> IndexStatistics:
    """What the index in ``index_dir`` holds. Raises IndexUnusable for none, or one that cannot be read."""
    store = Store.read(Path(index_dir))
    try:
        with store.transaction("DEFERRED") as connection:
            return _statistics(store, connection)
    finally:
        store.close()


def _statistics(store: Store, connection: sqlite3.Connection) -> IndexStatistics:
    made = store.fingerprint()
    skipped = connection.execute(
        "SELECT absolute, coalesce(reason, '') FROM files WHERE status = 'skipped' ORDER BY absolute"
    ).fetchall()
    return IndexStatistics(
        index=store.database.parent,
        bytes=_bytes_on_disk(store),
        schema=SCHEMA_VERSION,
        generation=store.generation(),
        changed_at=_changed_at(store),
        made_with=made,
        is_outdated=(made.get("chunker"), made.get("readers")) != (CHUNKER, READERS),
        folders=_folders(store, connection),
        types=_types(connection),
        reasons=reasons_of([reason for _, reason in skipped]),
        skipped=skipped,
        passages=store.passage_count(),
        dense=_dense(store),
    )


def _bytes_on_disk(store: Store) -> dict[str, int]:
    """Sizes of the database, the vectors, the index of before and what else there is, as earlier answers."""
    found = generations(store.database.parent)
    previous = found.previous if found else None
    owners = {store.database.name: "database", store.dense_path.name: "vectors"}
    if previous is not None:
        owners |= dict.fromkeys((previous.name, vectors_of(previous).name), "previous")
    sizes = dict.fromkeys(("database", "vectors", "previous", "other"), 0)
    with os.scandir(store.database.parent) as entries:
        for entry in entries:
            # What SQLite keeps beside a database counts with it, but not the memory that processes share,
            # which is there only while one has it open, as this one has.
            if not entry.name.endswith("-shm"):
                sizes[owners.get(entry.name.removesuffix("-wal"), "other")] += _size(Path(entry.path))
    return sizes


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:  # deleted meanwhile
        return 0


def _changed_at(store: Store) -> datetime | None:
    """What the last change noted, else when the last file was read."""
    changed = store.value("changed_at")
    if changed is None:  # made by an earlier schema
        changed = store.connection.execute("SELECT max(read_ns) FROM files").fetchone()[0]
    return None if changed is None else datetime.fromtimestamp(int(changed) / 1e9, UTC)


def _folders(store: Store, connection: sqlite3.Connection) -> list[FolderStatistics]:
    chosen = {str(root): selection for root, selection in selections(store).items()}
    counted = connection.execute(
        "SELECT root, sum(status = 'indexed'), sum(status = 'skipped') FROM files GROUP BY root ORDER BY root"
    )
    return [
        FolderStatistics(root, Path(root).is_dir(), indexed, skipped, chosen.get(root, EVERYTHING))
        for root, indexed, skipped in counted
    ]


def _types(connection: sqlite3.Connection) -> list[TypeStatistics]:
    passages = dict(connection.execute("SELECT document_id, count(*) FROM chunks GROUP BY document_id"))
    files = connection.execute("SELECT id, path, status FROM files")
    return types_of((path, status, passages.get(file_id, 0)) for file_id, path, status in files)


def types_of(files: Iterable[tuple[str, str, int]]) -> list[TypeStatistics]:
    """Files by their suffixes, most passages first; ``files``: path, status and passages of each."""
    indexed: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    of_type: Counter[str] = Counter()
    for path, status, passages in files:
        suffix = suffix_of(path).lstrip(".")
        (indexed if status == "indexed" else skipped)[suffix] += 1
        of_type[suffix] += passages
    made = [TypeStatistics(name, indexed[name], skipped[name], of_type[name]) for name in of_type]
    return sorted(made, key=lambda one: (-one.passages, -one.indexed, one.suffix))


def reasons_of(reasons: Sequence[str]) -> dict[str, int]:
    """How often each reason was given, most often first; reasons that differ in numbers alone are one."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(_NUMBER.sub("…", reason), []).append(reason)
    named = {members[0] if len(set(members)) == 1 else kind: len(members) for kind, members in kinds.items()}
    return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))


def _dense(store: Store) -> DenseStatistics:
    record = store.dense_record()
    size = _size(store.dense_path)
    is_current = record is not None and size > 0 and record.generation == store.generation()
    return DenseStatistics(record, size, is_current)
