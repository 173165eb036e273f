"""Follows folders: an index is brought up to date whenever something changed that a walk would come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import TypeVar

from ragla.errors import RaglaError, UsageError
from ragla.retrieve.selection import EVERYTHING, Selection, selections
from ragla.retrieve.store import Store
from ragla.retrieve.walk import Reach

# A burst of changes, such as a checkout, is one update: until nothing changed for a moment, or this long.
_QUIET_MS = 300
_BURST_MS = 5_000
_WAKE_MS = 500
# Seconds before an update that failed is tried again, doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

Made = TypeVar("Made")


def check_watching() -> None:
    """Raise UsageError where the package is missing that hears of changes."""
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "--watch needs watchfiles, which is not installed", "pip install 'ragla[watch]'"
        ) from error


def follow(
    roots: Sequence[Path],
    index_dir: Path,
    update: Callable[[], Made],
    on_problem: Callable[[RaglaError], None],
    stop: Event | None = None,
) -> Iterator[Made]:
    """What ``update`` returns after each burst of changes below ``roots``, and at the beginning.

    The folders (resolved) are watched before the first update, so that no change falls between. When a
    later update fails, ``on_problem`` is told, once for each message, and it is tried again. Ends when
    ``stop`` is set. Raises KeyboardInterrupt, and RaglaError where folders cannot be watched.
    """
    begun = False
    told: str | None = None
    pause, again_at = _FIRST_PAUSE, 0.0
    while stop is None or not stop.is_set():
        if begun and not _are_there(roots):
            time.sleep(_FIRST_PAUSE)
            continue
        is_due = True
        for changes in _changes(roots, stop):
            is_due = is_due or _matter(changes, roots, index_dir)
            if not is_due or time.monotonic() < again_at:
                continue
            try:
                made = update()
            except RaglaError as error:
                if not begun:
                    raise
                if str(error) != told:
                    on_problem(error)
                told = str(error)
                pause, again_at = min(2 * pause, _LONGEST_PAUSE), time.monotonic() + pause
                if not _are_there(roots):
                    break  # a folder that comes again has to be watched anew
                continue
            begun, is_due, told, pause = True, False, None, _FIRST_PAUSE
            yield made


def _are_there(roots: Sequence[Path]) -> bool:
    return all(root.is_dir() for root in roots)


def _changes(roots: Sequence[Path], stop: Event | None) -> Iterator[set[str]]:
    """Paths that changed, in bursts; every half second perhaps none, the first time as soon as it watches."""
    from watchfiles import watch

    try:
        yield from (
            {path for _, path in found}
            for found in watch(
                *roots, watch_filter=None, debounce=_BURST_MS, step=_QUIET_MS, rust_timeout=_WAKE_MS,
                yield_on_timeout=True, stop_event=stop, ignore_permission_denied=True,
            )
        )  # fmt: skip
    except OSError as error:
        raise RaglaError(
            f"the folders cannot be watched: {error}",
            "look at the folders now and then instead: WATCHFILES_FORCE_POLLING=1 ragla index --watch",
        ) from error


def _matter(changes: set[str], roots: Sequence[Path], index_dir: Path) -> bool:
    """Whether a walk would come to one of these paths."""
    if not changes:
        return False
    chosen = _chosen(index_dir)
    reaches = [Reach(root, index_dir, chosen.get(root, EVERYTHING)) for root in roots]
    return any(
        reach.comes_to(Path(path))
        for path in changes
        if not Path(path).is_relative_to(index_dir)
        for reach in reaches
    )


def _chosen(index_dir: Path) -> Mapping[Path, Selection]:
    try:
        store = Store.read(index_dir)
    except RaglaError:  # the update will say what is wrong
        return {}
    try:
        return selections(store)
    finally:
        store.close()
