"""The verb: index folders. Reads what changed, embeds it, stores it in batches, drops what is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragla.config import RetrieveSettings
from ragla.errors import IndexUnusable
from ragla.retrieve.chunk import CHUNKER, Chunker
from ragla.retrieve.dense import check_factory
from ragla.retrieve.embed import Embedder
from ragla.retrieve.events import Event, OnEvent
from ragla.retrieve.faults import database_errors
from ragla.retrieve.folders import note_folders
from ragla.retrieve.generations import Changes, Rebuild, Sitting, find_generations
from ragla.retrieve.layout import databases, generations, next_database, point_to, sweep, writing
from ragla.retrieve.read import MAX_BYTES, READERS
from ragla.retrieve.selection import Selection, remember, selected, selections
from ragla.retrieve.store import Store
from ragla.retrieve.taking import Source, Taking
from ragla.retrieve.update import Update
from ragla.retrieve.walk import resolve_roots

_FORGOTTEN = (
    "which files are wanted could not be read from the damaged index: give --include, --exclude, --hidden "
    "and --no-ignore again where you had"
)


@dataclass(frozen=True)
class IndexReport:
    """What a run did. ``skipped`` and ``remarks``: (path, reason); remarks are on files that were indexed."""

    indexed: int
    unchanged: int
    removed: int
    skipped: tuple[tuple[str, str], ...]
    remarks: tuple[tuple[str, str], ...]
    passages: int
    total_passages: int
    seconds: float


def fingerprint_of(settings: RetrieveSettings, embedder: Embedder) -> dict[str, str]:
    """What an index made with these settings can be used with."""
    return embedder.identity | cutting_of(settings)


def cutting_of(settings: RetrieveSettings) -> dict[str, str]:
    """The part of it that says how documents are read and cut, which no embedder is needed for."""
    return {
        "chunker": CHUNKER,
        "readers": READERS,
        "chunk_tokens": str(settings.chunk_tokens),
        "chunk_overlap": str(settings.chunk_overlap),
    }


def indexed_digests(index_dir: Path, absolutes: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of the content each of these files was indexed with; files not in the index are missing.

    Raises IndexUnusable when there is no index.
    """
    store = Store.read(Path(index_dir))
    try:
        return store.digests(absolutes)
    finally:
        store.close()


def _ignore(event: Event) -> None:
    """Nobody draws the progress."""


def index_folders(
    roots: Sequence[Path],
    index_dir: Path,
    settings: RetrieveSettings,
    embedder: Embedder,
    on_event: OnEvent = _ignore,
    *,
    rebuild: bool = False,
    max_bytes: int = MAX_BYTES,
    selection: Selection | None = None,
    retry: bool = False,
    sitting: Sitting | None = None,
    source: Callable[[Taking], Source] | None = None,
) -> IndexReport:
    """Bring the index in ``index_dir`` up to date with ``roots``; folders it holds besides stay as they are.

    A file counts as unchanged while size, modification time, change time and inode are; otherwise its
    content hash decides. ``rebuild`` makes a new index beside the old one and replaces it at the end.
    Interrupted, the run leaves what was stored, and the next goes on from there. ``selection`` says which
    files of ``roots`` are wanted; None: those that were when they were last indexed. A skipped file is tried
    again when it changes, or with ``retry``. Runs of one ``sitting`` are undone together by a rollback.
    ``source`` makes whoever reads and cuts files elsewhere; None: this process does.

    Raises UsageError for a missing root or settings that do not fit the embedder, IndexLocked when
    another process writes, IndexUnusable when the index was made otherwise, RaglaError on a full disk.
    """
    started = time.monotonic()
    folders = resolve_roots(roots)
    chunker = Chunker(embedder, settings.chunk_tokens, settings.chunk_overlap)
    check_factory(settings.faiss_index, settings.faiss_search, embedder.dimension)
    index_dir = Path(index_dir).resolve()
    fingerprint = fingerprint_of(settings, embedder)
    with writing(index_dir):
        rebuild = rebuild and bool(databases(index_dir))  # with nothing to replace it is a first run
        rebuilding = Rebuild.begin(index_dir, fingerprint, _is_of(folders)) if rebuild else None
        store = rebuilding.store if rebuilding else _open(index_dir, fingerprint)
        with closing(store), database_errors(store.database):
            changes = Changes(store, settings.keep_previous, sitting)
            if rebuilding is None:
                store.before_change = changes.begin
            made = _made_selections(index_dir) if rebuilding else selections(store)
            chosen = selected(made or {}, folders, selection)
            if chosen != selections(store):
                remember(store, chosen)
            note_folders(store, folders)
            taking = Taking(chunker, max_bytes, retry)
            update = Update(
                store, embedder, settings, on_event, source(taking) if source else taking, chosen, retry
            )
            update.run(folders, index_dir)
            total = store.passage_count()
            changes.finish()
            if rebuilding is not None:
                rebuilding.finish(settings.keep_previous)
                changes.note_kept()
        sweep(index_dir)
    update.remarks += [
        (str(root), f"kept out of it after ragla remove: {len(one.removed)}; ragla remove --list names them")
        for root, one in chosen.items()
        if root in folders and one.removed
    ]
    if made is None:
        update.remarks.append((str(index_dir), _FORGOTTEN))
    return IndexReport(
        update.indexed, update.unchanged, update.removed, tuple(update.skipped), tuple(update.remarks),
        update.embedded, total, time.monotonic() - started,
    )  # fmt: skip


def _is_of(folders: Sequence[Path]) -> Callable[[Store], bool]:
    """Whether an interrupted rebuild was of these folders and no other."""
    return lambda store: set(store.roots()) <= {str(folder) for folder in folders}


def _made_selections(index_dir: Path) -> dict[Path, Selection] | None:
    """What the folders of the index to be replaced were indexed with; None: it cannot be read."""
    if not databases(index_dir):
        return {}
    try:
        store = Store.read(index_dir)
    except IndexUnusable:
        return None
    try:
        return selections(store)
    finally:
        store.close()


def _open(index_dir: Path, fingerprint: dict[str, str]) -> Store:
    """The current database, or a new one. Where nothing says which is current, the latest is."""
    found = find_generations(index_dir)
    store = Store.write(found.current if found else next_database(index_dir), fingerprint)
    try:
        if found is None or generations(index_dir) is None:
            point_to(store.database, found.previous if found else None)
    except BaseException:
        store.close()
        raise
    return store
