"""The folder an index lives in: which database is current, how a rebuilt one takes over, who may write.

::

    current               name of the database that readers open, replaced in one step
    passages-N.sqlite     the truth
    vectors-N.faiss       derived from it
    index.lock            held by the one writer
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ragla.errors import IndexLocked, RaglaError
from ragla.retrieve.dense import write_durably

CURRENT = "current"
LOCK = "index.lock"


@contextlib.contextmanager
def writing(index_dir: Path) -> Iterator[None]:
    """Hold the one writer's lock of an index folder, which is created when missing.

    Raises IndexLocked when another process holds it, RaglaError when the folder cannot be written.
    """
    lock = FileLock(index_dir / LOCK)
    try:
        index_dir.mkdir(parents=True, exist_ok=True)
        (index_dir / ".gitignore").write_text("*\n", encoding="ascii")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise IndexLocked(
            f"{index_dir}: another process is writing this index",
            hint="wait until it has finished and run the command again",
        ) from error
    except OSError as error:
        raise RaglaError(
            f"{index_dir}: cannot be written: {error.strerror}", hint="name another index folder"
        ) from error
    try:
        yield
    finally:
        lock.release()


def current_database(index_dir: Path) -> Path | None:
    """The database readers are to use, or None when there is no index."""
    try:
        name = (index_dir / CURRENT).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    path = index_dir / name
    return path if name.startswith("passages-") and path.is_file() else None


def next_database(index_dir: Path, current: Path | None) -> Path:
    """The name a rebuilt index takes; the same again after an interrupted rebuild."""
    number = int(current.stem.rpartition("-")[2]) if current is not None else 0
    return index_dir / f"passages-{number + 1}.sqlite"


def make_current(database: Path) -> None:
    """Point readers to ``database`` in one step, then delete what older ones left."""
    write_durably(database.with_name(CURRENT), database.name.encode("ascii"))
    keep = database.stem.rpartition("-")[2]
    for path in database.parent.iterdir():
        if (
            path.name.startswith(("passages-", "vectors-"))
            and path.name.split(".")[0].rpartition("-")[2] != keep
        ):
            with contextlib.suppress(OSError):  # an open file on Windows; the next run deletes it
                path.unlink()


def discard(database: Path) -> None:
    """Delete a database that was never made current, with its companions."""
    for path in database.parent.glob(database.name + "*"):
        path.unlink()
