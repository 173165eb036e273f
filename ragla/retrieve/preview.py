"""What a run over the folders would do, found out without writing anything and without an embedder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ragla.errors import IndexUnusable
from ragla.retrieve.changes import file_bytes, gone, looks_as_known, unreadable
from ragla.retrieve.events import FileRead, FilesFound, OnEvent
from ragla.retrieve.generations import no_current
from ragla.retrieve.layout import databases, generations
from ragla.retrieve.read import MAX_BYTES, NotIndexable, read_document
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.selection import Selection, selected, selections
from ragla.retrieve.store import Store
from ragla.retrieve.walk import FoundFile, Unreached, resolve_roots, walk


@dataclass
class Preview:
    """What a run would do, by absolute path: read (new or changed), drop, skip with a reason."""

    to_read: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Made:
    """What the index that is there knows."""

    known: Mapping[str, FileRecord]
    selections: Mapping[Path, Selection]


def preview(
    roots: Sequence[Path], index_dir: Path, fingerprint: Mapping[str, str], on_event: OnEvent, *,
    selection: Selection | None = None, retry: bool = False, rebuild: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Preview:  # fmt: skip
    """What ``index_folders`` would do with the same folders. ``fingerprint``: what is known of that to come.

    New and changed files are read and parsed, one at a time, so that those that would be skipped are said.
    Raises UsageError for a missing root, IndexUnusable for an index that the run would refuse.
    """
    folders = resolve_roots(roots)
    index_dir = Path(index_dir).resolve()
    made = _made(index_dir, fingerprint, rebuild)
    chosen = selected(made.selections, folders, selection)
    found: list[FoundFile] = []
    unreached: list[Unreached] = []
    for item in walk(folders, index_dir, chosen):
        (found if isinstance(item, FoundFile) else unreached).append(item)  # type: ignore[arg-type]
    known = {} if rebuild else made.known
    seen = Preview(removed=gone(known, folders, found, unreached))
    seen.skipped += [(str(item.absolute), item.reason) for item in unreached]
    on_event(FilesFound(len(found), len(found)))
    for file in found:
        _look(seen, file, known.get(str(file.absolute)), retry, max_bytes)
        on_event(FileRead(str(file.absolute), 0))
    return seen


def _made(index_dir: Path, fingerprint: Mapping[str, str], rebuild: bool) -> _Made:
    kept = generations(index_dir)
    if kept is None and (rebuild or not databases(index_dir)):
        return _Made({}, {})
    if kept is None:
        raise no_current(index_dir)
    try:
        with closing(Store.read_database(kept.current)) as store:
            if not rebuild:
                store.check_fingerprint(dict(fingerprint))
            return _Made(store.files(), selections(store))
    except IndexUnusable:
        if not rebuild:
            raise
        return _Made({}, {})


def _look(seen: Preview, file: FoundFile, known: FileRecord | None, retry: bool, max_bytes: int) -> None:
    path = str(file.absolute)
    if known is not None and looks_as_known(file, known, retry):
        _as_before(seen, known)
        return
    try:
        raw = file_bytes(file, max_bytes)
        is_same = known is not None and known.sha256 == hashlib.sha256(raw).hexdigest()
        if known is not None and is_same and (known.status == "indexed" or not retry):
            _as_before(seen, known)
            return
        read_document(file.path, raw)
    except OSError as error:
        seen.skipped.append((path, unreadable(error)))
    except NotIndexable as refused:
        seen.skipped.append((path, str(refused)))
    except Exception as error:  # parsers meet hostile files; none may end the run
        seen.skipped.append((path, f"cannot be parsed ({type(error).__name__})"))
    else:
        seen.to_read.append(path)


def _as_before(seen: Preview, known: FileRecord) -> None:
    if known.status == "indexed":
        seen.unchanged.append(known.absolute)
    else:
        seen.skipped.append((known.absolute, known.reason or ""))
