"""Whether an index is whole: every check names what is wrong, where, and the command that mends it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragla.errors import IndexLocked, RaglaError
from ragla.retrieve import soundness
from ragla.retrieve.generations import is_unfinished, no_current
from ragla.retrieve.layout import generations, leftovers, writing
from ragla.retrieve.selection import selections
from ragla.retrieve.store import Store

# What SQLite says where an index of the database is damaged and its table is not.
_OF_AN_INDEX = ("missing from index", "entries in index", "non-unique entry in index")
_LOOKS = (
    ("records", soundness.value_problems),
    ("files", soundness.file_problems),
    ("passages", soundness.document_problems),
    ("words", soundness.words_problems),
    ("vectors", soundness.vector_problems),
)


@dataclass(frozen=True)
class Problem:
    """What is wrong, the file or document it is in, and the whole command that mends it."""

    what: str
    where: str
    mend: str


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``problems``: none where it is as it should be.

    ``waiting``: what an interrupted run or a repair left for the next run; no damage.
    """

    name: str
    problems: tuple[Problem, ...] = ()
    waiting: tuple[Problem, ...] = ()


def check_index(index_dir: Path) -> list[Problem]:
    """Everything that is wrong with the index in ``index_dir``; empty for a whole one.

    What an interrupted run left for the next to finish is no damage. Raises IndexLocked while another
    process writes the index.
    """
    return [problem for check in checks(index_dir) for problem in check.problems]


def checks(index_dir: Path, was_repaired: bool = False) -> Iterator[Check]:
    """Look at one thing after the other; where the database cannot be read, there is nothing more to see.

    ``was_repaired``: what is wrong now, a repair does not mend. Raises IndexLocked.
    """
    index_dir = Path(index_dir)
    kept = generations(index_dir)
    if kept is None:
        error = no_current(index_dir)
        is_there = "--repair" in (error.hint or "")
        mend = _command("ragla doctor --repair" if is_there else "ragla index FOLDER", index_dir)
        yield Check("folder", (_said(error, index_dir, mend),))
        return
    with _alone(index_dir):
        yield Check("folder", waiting=tuple(_left(index_dir)))
        try:
            store = Store.read_database(kept.current)
        except RaglaError as error:
            yield Check("database", (_unreadable(index_dir, error, was_repaired),))
            return
        with closing(store):
            yield from _checks(store, was_repaired)


@contextlib.contextmanager
def _alone(index_dir: Path) -> Iterator[None]:
    """With nobody writing; to a folder that cannot be written nobody does."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(writing(index_dir))
        except IndexLocked:
            raise
        except RaglaError:
            pass
        yield


def _left(index_dir: Path) -> Iterator[Problem]:
    mend = _command("ragla index", index_dir)
    for path in leftovers(index_dir):
        yield Problem("left by an interrupted run, to be deleted by the next", str(path), mend)
    kept = generations(index_dir)
    if kept is not None and kept.previous is not None:
        try:
            Store.read_database(kept.previous).close()
        except RaglaError:
            what = "the index of before cannot be read; the next change replaces it"
            yield Problem(what, str(kept.previous), mend)


def _unreadable(index_dir: Path, error: RaglaError, was_repaired: bool) -> Problem:
    hint = error.hint or ""
    if isinstance(error.__cause__, sqlite3.DatabaseError) or was_repaired:
        mend = _last_resort(index_dir)
    else:
        mend = _command("ragla doctor --repair" if "--repair" in hint else hint, index_dir)
    return _said(error, index_dir, mend)


def _said(error: RaglaError, index_dir: Path, mend: str) -> Problem:
    """What an error says, with its place once."""
    place, _, what = str(error).partition(": ")
    is_place = Path(place).is_relative_to(index_dir)
    return Problem(what, place, mend) if is_place else Problem(str(error), str(index_dir), mend)


def _checks(store: Store, was_repaired: bool) -> Iterator[Check]:
    folder = store.database.parent
    mend = _last_resort(folder) if was_repaired else _command("ragla doctor --repair", folder)
    found = _found(store, soundness.database_problems)
    yield Check("database", tuple(_of_database(store, what, where, mend) for what, where in found))
    for name, look in _LOOKS:
        problems = tuple(Problem(what, where, mend) for what, where in _found(store, look))
        yield Check(name, problems, tuple(_waiting(store, name)))


def _found(store: Store, look: soundness.Look) -> list[tuple[str, str]]:
    try:
        return list(look(store))
    except (sqlite3.Error, RaglaError, TypeError, ValueError) as error:  # a damaged row may hold anything
        return [(f"cannot be read: {' '.join(str(error).split())}", str(store.database))]


def _of_database(store: Store, what: str, where: str, mend: str) -> Problem:
    is_mended = any(words in what for words in _OF_AN_INDEX)
    return Problem(what, where, mend if is_mended else _last_resort(store.database.parent))


def _waiting(store: Store, name: str) -> Iterator[Problem]:
    """What the next run takes up."""
    mend = _command("ragla index", store.database.parent)
    with _unless_damaged():
        if name == "records" and is_unfinished(store):
            yield Problem("the last run was interrupted, the next goes on", str(store.database), mend)
        elif name == "records" and store.passage_count() and not store.is_measured():
            what = "how the embedder reads the passages is measured anew by the next run"
            yield Problem(what, str(store.database), mend)
        if name == "files":
            unread = "SELECT absolute, reason FROM files WHERE status = 'skipped' AND sha256 IS NULL"
            for absolute, reason in store.connection.execute(unread):
                yield Problem(str(reason), str(absolute), mend)
        record = store.dense_record()
        if name == "vectors" and record is None and store.passage_count():
            yield Problem("not written yet; the next run writes it", str(store.dense_path), mend)
        elif name == "vectors" and record is not None and record.generation != store.generation():
            yield Problem(
                "older than the passages, not used; the next run writes it", str(store.dense_path), mend
            )


def _last_resort(index_dir: Path) -> str:
    """Back to the index of before, where it is whole; else everything anew."""
    kept = generations(index_dir)
    if kept is not None and kept.previous is not None and _is_whole(kept.previous):
        return _command("ragla index --rollback", index_dir)
    roots = ["FOLDER"]
    if kept is not None:
        with _unless_damaged(), closing(Store.read_database(kept.current)) as store:
            roots = store.roots() or roots
    return _command(shlex.join(["ragla", "index", "--rebuild", *roots]), index_dir)


def _is_whole(database: Path) -> bool:
    with _unless_damaged(), closing(Store.read_database(database)) as store:
        looks = (soundness.database_problems, *(look for _, look in _LOOKS))
        return not any(_found(store, look) for look in looks)
    return False


def _unless_damaged() -> contextlib.suppress:
    """A damaged row may hold anything."""
    return contextlib.suppress(sqlite3.Error, RaglaError, TypeError, ValueError)


def _command(command: str, index_dir: Path) -> str:
    return f"{command} --index {shlex.quote(str(index_dir))}"


def content_hash(index_dir: Path) -> str:
    """SHA-256, in hex, of what is indexed: the same for one run and for many, whatever their order.

    Of every file: path, digest, state, text, passages with their places and vectors; the fingerprint; what
    folders are indexed with. Not of row ids and times. Raises IndexUnusable when there is no index.
    """
    digest = hashlib.sha256()
    with closing(Store.read(Path(index_dir))) as store, store.transaction("DEFERRED") as connection:
        chosen = {str(root): repr(selection) for root, selection in selections(store).items()}
        _feed(digest, (json.dumps(store.fingerprint(), sort_keys=True), json.dumps(chosen, sort_keys=True)))
        files = connection.execute(
            "SELECT files.id, root, path, sha256, status, reason, text"
            " FROM files LEFT JOIN documents USING (id) ORDER BY absolute"
        )
        for document_id, *content in files:
            _feed(digest, content)
            passages = connection.execute(
                'SELECT start, "end", first_line, last_line, title, page, vector FROM chunks'
                ' WHERE document_id = ? ORDER BY start, "end", id',
                (document_id,),
            )
            for passage in passages:
                _feed(digest, passage)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, values: Iterable[object]) -> None:
    """Add values so that no two lists of them are the same bytes."""
    for value in values:
        raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        digest.update(f"{type(value).__name__} {len(raw)}\n".encode() + raw)
