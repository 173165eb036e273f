"""The folder an index lives in: which database is current, which one was before, who may write.

::

    current               names the database that readers open and the one before it; replaced in one step
    passages-N.sqlite     the truth
    vectors-N.faiss       derived from it
    index.lock            held by the one writer

Numbers grow, so that no new file takes the name of one that a reader still has open.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ragla.errors import IndexLocked
from ragla.retrieve.durable import write_durably
from ragla.retrieve.faults import file_errors

CURRENT = "current"
LOCK = "index.lock"
_IGNORE = ".gitignore"
_DATABASE = re.compile(r"passages-(\d{1,18})\.sqlite")
_OURS = re.compile(r"(?:passages|vectors)-(\d{1,18})\.(?:sqlite|faiss)(?:-wal|-shm|-journal|\.\d*\.?tmp)?")


@dataclass(frozen=True)
class Generations:
    """The database that is current and the one that was before the last run that changed it, if kept."""

    current: Path
    previous: Path | None = None


@contextlib.contextmanager
def writing(index_dir: Path) -> Iterator[None]:
    """Hold the one writer's lock of an index folder, which is created when missing.

    Raises IndexLocked when another process holds it, RaglaError when the folder cannot be written.
    """
    lock = FileLock(index_dir / LOCK)
    with file_errors(index_dir / LOCK):
        index_dir.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise IndexLocked(
                f"{index_dir}: another process is writing this index",
                hint="wait until it has finished and run the command again",
            ) from error
    try:
        if not (index_dir / _IGNORE).exists():
            with contextlib.suppress(OSError):  # no reason not to index
                (index_dir / _IGNORE).write_text("*\n", encoding="ascii")
        yield
    finally:
        lock.release()


def generations(index_dir: Path) -> Generations | None:
    """Which databases there are, or None where there is no index, or nothing says which one it is."""
    try:
        lines = (index_dir / CURRENT).read_text(encoding="ascii").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    names = lines[:2]
    if len(lines) == 1:  # as earlier versions wrote it: the name alone
        names = [lines[0], ""]
    elif lines[2:] != [_seal(names), ""]:
        return None
    current, previous = (index_dir / name if _DATABASE.fullmatch(name) else None for name in names)
    if current is None or not current.is_file():
        return None
    return Generations(current, previous if previous is not None and previous.is_file() else None)


def current_database(index_dir: Path) -> Path | None:
    """The database readers are to use, or None when there is no index."""
    found = generations(index_dir)
    return None if found is None else found.current


def databases(index_dir: Path) -> list[Path]:
    """Every database in the folder, whatever it is there for; the latest first."""
    return sorted(
        (path for path in _entries(index_dir) if _DATABASE.fullmatch(path.name)), key=number_of, reverse=True
    )


def number_of(path: Path) -> int:
    """The N of a database or of what belongs to it."""
    found = _OURS.fullmatch(path.name)
    assert found is not None, path
    return int(found[1])


def vectors_of(database: Path) -> Path:
    """Where the FAISS file of a database lies."""
    return database.with_name(f"vectors-{number_of(database)}.faiss")


def next_database(index_dir: Path) -> Path:
    """A name that no database has, and none that is still kept had."""
    numbers = [number_of(path) for path in _entries(index_dir) if _OURS.fullmatch(path.name)]
    return index_dir / f"passages-{max(numbers, default=0) + 1}.sqlite"


def point_to(current: Path, previous: Path | None = None) -> None:
    """Make readers open ``current`` from now on, in one step. Raises RaglaError on a full disk."""
    names = [current.name, previous.name if previous is not None else ""]
    pointer = current.with_name(CURRENT)
    with file_errors(pointer):
        write_durably(pointer, "\n".join([*names, _seal(names), ""]).encode("ascii"))


def leftovers(index_dir: Path) -> list[Path]:
    """What interrupted runs left: half-written files, and databases that are neither current nor previous.

    For the holder of the lock; of a folder that does not say which database is current, temporary files only.
    """
    kept = generations(index_dir)
    numbers = {number_of(path) for path in (kept.current, kept.previous) if path} if kept else set()
    found = []
    for path in _entries(index_dir):
        ours = _OURS.fullmatch(path.name)
        is_temporary = path.suffix == ".tmp" and (ours is not None or path.name.startswith(f"{CURRENT}."))
        if is_temporary or (ours is not None and kept is not None and int(ours[1]) not in numbers):
            found.append(path)
    return sorted(found)


def sweep(index_dir: Path) -> None:
    """Delete what interrupted runs left, and databases that are no longer kept. For the lock's holder."""
    for path in leftovers(index_dir):
        with contextlib.suppress(OSError):  # an open file on Windows; the next run deletes it
            path.unlink()


def discard(database: Path) -> None:
    """Delete a database that is neither current nor previous, with its companions."""
    number = number_of(database)
    with file_errors(database):
        for path in _entries(database.parent):
            if _OURS.fullmatch(path.name) and number_of(path) == number:
                path.unlink(missing_ok=True)


def _entries(index_dir: Path) -> list[Path]:
    try:
        return list(index_dir.iterdir())
    except OSError:
        return []


def _seal(names: list[str]) -> str:
    """What tells names that were changed on disk from those that were written."""
    return hashlib.sha256("\n".join(names).encode("ascii")).hexdigest()[:16]
