"""What holds for a collection as a whole: its state, and how many passages have each word.

Both are written in parts under the number of their generation; the row ``state`` then points to them, so that
readers go over in one step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ragla.errors import IndexUnusable
from ragla.retrieve.digests import row_digest
from ragla.retrieve.milvus_collections import Collections
from ragla.retrieve.milvus_rows import SCHEMA, row
from ragla.retrieve.milvus_words import WordCounts, bucket
from ragla.retrieve.passage_store import State

_PART = 20_000  # characters of the state in one row
_KEY = "state"
_CHANGING = "changing"


@dataclass(frozen=True)
class _Head:
    """The row that points to the rest. ``terms``: of all ``passages`` together."""

    schema: str
    generation: int
    parts: int
    digest: str
    buckets: int
    passages: int
    terms: int


class Whole:
    """The state of two collections, as the last finished publication left it; ``place`` is for messages."""

    def __init__(self, collections: Collections, place: str) -> None:
        self._in = collections
        self._place = place
        self._head: _Head | None = None
        self._state = State(0, {}, (), "")
        self._frequencies: dict[str, int] = {}

    def state(self) -> State:
        """Read anew where it was replaced. Raises IndexUnusable where there is none."""
        for _ in range(3 if self._in.exist() else 0):  # it may be replaced while it is read
            found = self._in.bodies([_KEY])
            if not found:
                break
            told = json.loads(found[_KEY])
            if told["schema"] != SCHEMA:
                raise IndexUnusable(
                    f"{self._place}: written by another version of ragla",
                    f"ragla index --to {self._place} --rebuild, or the same ragla here as there",
                )
            head = _Head(**told)
            if head == self._head:
                return self._state
            keys = [f"{_KEY}:{head.generation}:{part}" for part in range(head.parts)]
            whole = "".join(self._in.bodies(keys).values())
            if row_digest((whole,)).hex() == head.digest:
                said = json.loads(whole)
                self._state = State(**said | {"roots": tuple(said["roots"])})
                self._head = head
                self._frequencies.clear()
                return self._state
        raise IndexUnusable(
            f"{self._place}: no index here, or none that was finished", f"ragla index --to {self._place}"
        )

    def settle(self, state: State, words: WordCounts) -> None:
        """Make this the state; what was written before is deleted then."""
        whole = json.dumps(asdict(state))
        parts = [whole[start : start + _PART] for start in range(0, len(whole), _PART)]
        number = state.generation
        rows = [row(f"{_KEY}:{number}:{at}", "state", number, part) for at, part in enumerate(parts)]
        rows += [row(f"words:{number}:{at}", "words", number, part) for at, part in words.buckets()]
        self._in.write_rows(rows)
        digest, passages = row_digest((whole,)).hex(), self._in.passage_count()
        head = _Head(SCHEMA, number, len(parts), digest, words.bucket_count, passages, words.terms)
        self._in.write_rows([row(_KEY, "head", number, json.dumps(asdict(head)))])
        self._in.delete_other_generations(number)
        self._in.flush()

    def note_changing(self) -> None:
        """What is counted may be less than what ``sizes`` tells, until ``note_changed``."""
        self._in.write_rows([row(_CHANGING, _CHANGING, 0, "")])

    def note_changed(self) -> None:
        """What is counted is what ``sizes`` tells."""
        self._in.delete_kind(_CHANGING)

    def is_changing(self) -> bool:
        """Whether a publication is under way, or was interrupted."""
        return _CHANGING in self._in.bodies([_CHANGING])

    def sizes(self) -> tuple[int, int]:
        """How many passages the counts of words are of, and how many terms those have."""
        head = self._known()
        return head.passages, head.terms

    def frequencies(self, keys: Iterable[str]) -> dict[str, int]:
        """How many passages have the terms, by the keys of ``WordCounts``; read once for each state."""
        head, wanted = self._known(), set(keys)
        numbers = {key: bucket(key, head.buckets) for key in wanted - self._frequencies.keys()}
        names = {f"words:{head.generation}:{number}": number for number in numbers.values()}
        parts = {names[name]: json.loads(body) for name, body in self._in.bodies(list(names)).items()}
        for key, number in numbers.items():
            self._frequencies[key] = int(parts.get(number, {}).get(key, 0))
        return {key: self._frequencies[key] for key in wanted}

    def _known(self) -> _Head:
        if self._head is None:
            self.state()
        assert self._head is not None
        return self._head
