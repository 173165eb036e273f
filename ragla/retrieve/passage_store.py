"""What a search needs of whatever holds the passages, and what whoever fills it may rely on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ragla.errors import IndexUnusable

if TYPE_CHECKING:
    from ragla.retrieve.embed import Vectors
    from ragla.retrieve.passage import Passage
    from ragla.retrieve.rows import IndexedFile
    from ragla.retrieve.store import Store


@dataclass(frozen=True)
class State:
    """What holds for a store as a whole. ``generation`` grows with every change of the passages.

    ``changed_at``: when that was, in ISO 8601; empty where it was not noted.
    ``reliability``: how the embedder reads the passages, as JSON; empty where that was not found out.
    """

    generation: int
    fingerprint: dict[str, str]
    roots: tuple[str, ...]
    reliability: str
    changed_at: str = ""

    @classmethod
    def of(cls, store: Store) -> State:
        """That of an index on this machine, within the caller's transaction."""
        roots = tuple(store.roots())
        changed = store.changed_at()
        said = "" if changed is None else changed.isoformat()
        return cls(store.generation(), store.fingerprint(), roots, store.reliability(), said)


@dataclass(frozen=True)
class StoredFile:
    """A file that the store knows, and how many passages it gave.

    ``status``: ``indexed`` or ``skipped``, with the ``reason``. ``stamp``: what a file was stored from; it
    differs wherever anything that was stored of it would.
    """

    id: int
    absolute: str
    root: str
    path: str
    sha256: str | None
    status: str
    reason: str | None
    passages: int
    stamp: str = ""


def check_fingerprint(place: object, made: Mapping[str, str], wanted: Mapping[str, str], mend: str) -> None:
    """Raise IndexUnusable, naming both values of what differs, unless it was made with ``wanted``."""
    differing = [key for key in wanted if made.get(key) != wanted[key]]
    if differing:
        parts = "; ".join(f"{key} {made.get(key, 'unknown')!r}, now {wanted[key]!r}" for key in differing)
        raise IndexUnusable(f"{place}: the index was made with {parts}", hint=mend)


class PassageStore(Protocol):
    """Passages with their vectors, words and places. Ids of passages and of documents are the store's own.

    Every reading method raises IndexUnusable where the store cannot be reached, or holds what was not stored.
    """

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def close(self) -> None:
        """Let go of files and connections."""

    def snapshot(self) -> AbstractContextManager[None]:
        """What is read within belongs together, as far as the store can see to it."""

    def state(self) -> State:
        """What holds for the whole, as it is now."""

    def put(self, files: Sequence[IndexedFile]) -> None:
        """Store files with their passages, in place of what was there of them; again: nothing changes."""

    def remove(self, absolutes: Sequence[str]) -> None:
        """Forget files and all that came of them; unknown ones are no error."""

    def files(self) -> list[StoredFile]:
        """Every file, skipped ones too, by absolute path."""

    def documents(self, ids: Iterable[int] | None = None) -> list[StoredFile]:
        """Indexed files by the id of their document, those that are gone are missing; None: all there are."""

    def digests(self, absolutes: Iterable[str]) -> dict[str, str]:
        """The SHA-256 of each of these files that is indexed, by absolute path."""

    def passage_count(self) -> int:
        """How many passages there are."""

    def nearest(self, vector: Vectors, limit: int, documents: Sequence[int] | None = None) -> list[int]:
        """Ids of the passages nearest to ``vector`` (dimension,) by cosine, best first.

        ``documents``: ids of the only ones whose passages are looked at, before the best are taken.
        """

    def cosines(self, vector: Vectors, ids: Sequence[int]) -> dict[int, float]:
        """The cosine of ``vector`` (dimension,) with each of these passages."""

    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        """How many passages have each token."""

    def best_matches(
        self, tokens: Sequence[str], limit: int, documents: Sequence[int] | None = None
    ) -> dict[int, float]:
        """Passages with any of the tokens and their BM25, best first. ``documents``: as for ``nearest``."""

    def bm25(self, tokens: Sequence[str], ids: Sequence[int]) -> dict[int, float]:
        """The BM25 of those of these passages that have any of the tokens."""

    def coverage(self, weights: Mapping[str, float], ids: Sequence[int]) -> dict[int, float]:
        """For each passage the share of the tokens' whole weight that stands in it, 0 to 1."""

    def passages(
        self, ids: Sequence[int], labels: Mapping[str, str], all_there: bool = True
    ) -> dict[int, Passage]:
        """The passages themselves. ``labels``: what to put before a path, by root.

        ``all_there``: the ids come from the same snapshot, so that a missing one is damage.
        """

    def text(self, document_id: int) -> str:
        """The whole text of a document."""

    def problems(self) -> list[tuple[str, str]]:
        """What is wrong and where: empty for a whole store."""
