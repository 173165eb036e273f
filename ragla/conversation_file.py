"""The last conversation about an index, in a file of its folder, so that a later command can go on with it.

It is private to one user, bounded, and replaced whole. What rests on documents that were changed or
removed since leaves it. A file that cannot be used costs a notice, never an answer. Passages that are
elsewhere have a conversation of their own, whatever index lies in the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragla.errors import RaglaError
from ragla.prompt import Turn

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.retrieve.retriever import Retriever

MOST_TURNS = 20
MOST_BYTES = 256 << 10
MOST_ASKED = 4000  # characters of the last question; no embedder reads more
MOST_SHOWN = 100
REST_BYTES = 32 << 10  # for what stands beside the turns
WAIT_S = 2.0  # for another process that writes
_NAME = "conversation-"
_NO_INDEX = ("index.lock", ".gitignore")  # what a run that was refused leaves


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeptTurn(_Record):
    """A question, what was answered, and the absolute path and SHA-256 of each document it rests on."""

    question: str
    answer: str
    documents: tuple[tuple[str, str], ...] = ()


class Kept(_Record):
    """A file's content. ``asked``: the last question, whether it was answered or not.

    ``shown``: ids of the passages that its prompt began with.
    """

    schema_: Literal["ragla.conversation/1"] = Field(default="ragla.conversation/1", alias="schema")
    id: str = Field(min_length=1, max_length=64)
    asked: str | None = None
    shown: tuple[int, ...] = Field(default=(), max_length=MOST_SHOWN)
    turns: tuple[KeptTurn, ...] = Field(default=(), max_length=MOST_TURNS)


@dataclass(frozen=True)
class Resumed:
    """What there is to go on with. ``notice``: what of it there is not, in a line."""

    turns: tuple[Turn, ...] = ()
    asked: str | None = None
    shown: tuple[int, ...] = ()
    notice: str | None = None


class ConversationFile:
    """The conversation that one process has; each of its turns becomes the end of what is kept."""

    def __init__(self, index: Path, elsewhere: str | None = None) -> None:
        """``elsewhere``: where its passages are, if they are not in the folder ``index``."""
        self.index = index
        place = "" if elsewhere is None else f"-{hashlib.sha256(elsewhere.encode()).hexdigest()[:12]}"
        self.path = index / f"{_NAME}{user()}{place}.json"
        self._id = secrets.token_hex(8)

    def begin(self) -> None:
        """What is added from now on belongs to a new conversation."""
        self._id = secrets.token_hex(8)

    def resume(self, retriever: Retriever) -> Resumed:
        """Go on with what is kept, as far as the documents are still searched as they were; never fails."""
        try:
            kept = self._read()
            if kept is None:
                return Resumed(notice="there is no conversation to go on with: this begins one")
            current = still_true(kept.turns, retriever.digests(named(kept.turns)))
        except (OSError, ValueError, RaglaError) as error:
            return Resumed(notice=f"the last conversation cannot be read, a new one begins: {_reason(error)}")
        self._id = kept.id
        gone = len(kept.turns) - len(current)
        notice = None
        if gone:
            notice = f"{gone} of {len(kept.turns)} earlier turns not told: their documents have changed since"
        turns = tuple(Turn(turn.question, turn.answer) for turn in current)
        if gone and not current:
            return Resumed(notice=notice)
        return Resumed(turns, kept.asked, kept.shown, notice)

    def add(self, answer: Answer, retriever: Retriever) -> str | None:
        """Keep a question and, if it is whole, its answer; why that was not possible, in a line.

        Another process may have added to the same conversation meanwhile: this turn comes behind its own.
        The conversation that was added to last is the last one.
        """
        try:
            documents = retriever.documents(sorted(answer.document_ids))
            turns: tuple[KeptTurn, ...] = ()
            if answer.answered and not answer.interrupted and len(documents) == len(answer.document_ids):
                turns = (KeptTurn(question=answer.question, answer=answer.text, documents=tuple(documents)),)
            with self._lock():
                known = self._read_usable()
                before = known.turns if known is not None and known.id == self._id else ()
                asked, shown = answer.question[:MOST_ASKED], shown_in(answer)
                self._write(Kept(id=self._id, asked=asked, shown=shown, turns=bounded((*before, *turns))))
        except (OSError, ValueError, Timeout, RaglaError) as error:
            return f"the conversation is not kept for `ragla ask --continue`: {_reason(error)}"
        return None

    def forget_stale(self) -> None:
        """Drop what rests on documents that are no longer in the folder's index as they were.

        Passages elsewhere must have been brought there from this index. Raises OSError, RaglaError.
        """
        from ragla.retrieve import indexed_digests

        if not self.path.exists():
            return
        with self._lock():
            known = self._read_usable()
            turns = known.turns if known is not None else ()
            current = still_true(turns, indexed_digests(self.index, named(turns))) if turns else ()
            if known is None or (known.turns and not current):
                self.path.unlink(missing_ok=True)
            elif len(current) < len(known.turns):
                self._write(known.model_copy(update={"turns": current}))

    def remove(self) -> None:
        """Forget all of it, and what was said of passages elsewhere. Raises OSError."""
        found = [self.path, self.path.with_suffix(".lock")]
        for path in (*found, *self.index.glob(f"{_NAME}{user()}-*")):
            path.unlink(missing_ok=True)

    def _read(self) -> Kept | None:
        """What is kept, None for nothing. Raises OSError, ValueError for a damaged file."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(content) > MOST_BYTES:
            raise ValueError("the file is larger than any that is written")
        return Kept.model_validate_json(content)

    def _read_usable(self) -> Kept | None:
        try:
            return self._read()
        except ValueError:
            return None

    def _write(self, kept: Kept) -> None:
        """Replace the file in one step; only its owner may read it. Raises OSError."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        content = kept.model_dump_json(by_alias=True).encode()
        for left in self.index.glob(f"{self.path.name}.*.tmp"):  # of a process that was killed
            left.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with FileLock(self.path.with_suffix(".lock"), timeout=WAIT_S, mode=0o600):
            yield


def shown_in(answer: Answer) -> tuple[int, ...]:
    """Ids of the passages of an answer's prompt, in their order."""
    return tuple(source.passage.id for source in answer.sources if source.passage is not None)[:MOST_SHOWN]


def bounded(turns: tuple[KeptTurn, ...]) -> tuple[KeptTurn, ...]:
    """The last turns, as many as a file may hold."""
    chosen: list[KeptTurn] = []
    room = MOST_BYTES - REST_BYTES
    for turn in reversed(turns[-MOST_TURNS:]):
        room -= len(turn.model_dump_json().encode())
        if room < 0:
            break
        chosen.insert(0, turn)
    return tuple(chosen)


def named(turns: tuple[KeptTurn, ...]) -> list[str]:
    """Absolute paths of the documents that turns rest on."""
    return sorted({path for turn in turns for path, _ in turn.documents})


def still_true(turns: tuple[KeptTurn, ...], digests: Mapping[str, str]) -> tuple[KeptTurn, ...]:
    """Those turns all of whose documents are as they were. ``digests``: SHA-256 by absolute path, as now."""
    return tuple(
        turn for turn in turns if all(digests.get(path) == digest for path, digest in turn.documents)
    )


def forget_stale_conversation(index: Path, elsewhere: str | None = None) -> None:
    """What ``ConversationFile.forget_stale`` does, for this user's file; never fails."""
    with contextlib.suppress(OSError, RaglaError, Timeout):
        ConversationFile(index, elsewhere).forget_stale()


def holds_only_conversations(folder: Path) -> bool:
    """Whether a folder was made for a conversation alone: what is searched has no index in it."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return False
    return any(name.startswith(_NAME) for name in names) and all(
        name.startswith(_NAME) or name in _NO_INDEX for name in names
    )


def user() -> str:
    """What tells apart the users of one index folder."""
    return str(os.getuid()) if hasattr(os, "getuid") else "own"


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "the file is damaged"
    if isinstance(error, Timeout):
        return "another process is writing it"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return next(iter(str(error).splitlines()), type(error).__name__)
