"""Earlier answers as a source of drafts, bounded, the least used forgotten first."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from time import time

from ragla.trie.token_trie import TokenTrie

MOST_USES = 256  # past it all uses are halved, so that yesterday's favourite can leave
SPARE_REMOVALS = 64  # a trie is built anew when more answers than it holds and these were taken out of it


def answer_name(token_ids: Sequence[int]) -> str:
    """A name that only this answer has: twelve hexadecimal digits of its SHA-256."""
    return sha256(packed(token_ids)).hexdigest()[:12]


def packed(token_ids: Sequence[int]) -> bytes:
    """Token ids as little-endian int32. Raises OverflowError for an id that is none."""
    try:
        return struct.pack(f"<{len(token_ids)}i", *token_ids)
    except struct.error as error:
        raise OverflowError(f"not all token ids fit 32 bits: {error}") from error


@dataclass
class KeptAnswer:
    """An answer's tokens, and what speaks for keeping it.

    ``uses``: draft tokens that were accepted from it, and times that it was given again, faded. A new
    answer starts level with the one that made room for it. ``last_used``: seconds since the epoch.
    """

    token_ids: tuple[int, ...]
    uses: int
    last_used: float


class Answers:
    """A trie of named answers, of at most ``max_nodes`` nodes and ``max_mebibytes`` MiB.

    Where they do not all fit, the least used leaves first: among equals the one not used for the longest
    time, then the oldest. A new answer is spared once, and starts level with what it displaced (dynamic
    aging: Arlitt et al., 2000); without that, answers used long ago would shut out all new ones. Equal
    answers are kept once. ``used`` counts uses since it was last cleared, by name.
    """

    def __init__(
        self,
        order: int,
        max_nodes: int,
        max_mebibytes: float = inf,
        clock: Callable[[], float] = time,
    ) -> None:
        self.trie = TokenTrie(order)
        fitting = max_mebibytes * 2**20 / self.trie.windows.node_bytes
        self.max_nodes = int(min(max_nodes, fitting))
        self.kept: dict[str, KeptAnswer] = {}  # the oldest first
        self.used: Counter[str] = Counter()
        self._names: dict[tuple[int, ...], str] = {}
        self._removals = 0
        self._clock = clock

    def keep(self, token_ids: Sequence[int], name: str | None = None) -> str | None:
        """Add an answer, cut to what surely fits, and return the name it is kept under.

        One of the same name is replaced; the same answer again counts as a use of the first. None: it was
        not kept, because nothing of it fits or memory ran out, in which case all answers are forgotten.
        """
        try:
            fitting = self._cut(token_ids)
            if not fitting:
                return None
            if fitting in self._names:
                self.use(self._names[fitting])
                return self._names[fitting]
            name = name or answer_name(token_ids)
            self._remove(name)
            self._add(name, KeptAnswer(fitting, 0, self._clock()))
            self._make_room(name)
        except MemoryError:
            self.clear()
            return None
        return name

    def restore(self, answers: Iterable[tuple[str, KeptAnswer]]) -> None:
        """Add answers as they were kept before, best first, as many as fit."""
        restored = []
        try:
            for name, kept in answers:
                fitting = self._cut(kept.token_ids)
                if not fitting or fitting in self._names or name in self.kept:
                    continue
                self._add(name, KeptAnswer(fitting, kept.uses, kept.last_used))
                if self.trie.node_count > self.max_nodes:
                    self._remove(name)
                    break
                restored.append(name)
        except MemoryError:
            self.clear()
            return
        for name in reversed(restored):  # the best last, as if it were the newest
            self.kept[name] = self.kept.pop(name)

    def remove(self, name: str) -> None:
        """Forget one answer, if there is one of that name."""
        try:
            self._remove(name)
        except MemoryError:
            self.clear()

    def use(self, name: str) -> None:
        """Count a token that a later answer copied from an earlier one."""
        kept = self.kept.get(name)
        if kept is None:
            return
        self.used[name] += 1
        kept.uses += 1
        kept.last_used = self._clock()
        if kept.uses > MOST_USES:
            for other in self.kept.values():
                other.uses //= 2

    def clear(self) -> None:
        """Forget every answer."""
        self.kept.clear()
        self._names.clear()
        self._removals = 0
        self.trie.clear()

    def _cut(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        """As much of an answer as fits, alone, whatever its tokens are: a token adds ``order + 1`` nodes."""
        return tuple(token_ids[: self.max_nodes // (self.trie.windows.order + 1)])

    def _add(self, name: str, kept: KeptAnswer) -> None:
        self.trie.insert(kept.token_ids, name)
        self.kept[name] = kept
        self._names[kept.token_ids] = name

    def _remove(self, name: str) -> None:
        kept = self.kept.pop(name, None)
        if kept is None:
            return
        del self._names[kept.token_ids]
        self._removals += 1
        if self._removals > len(self.kept) + SPARE_REMOVALS:
            self._rebuild()
        else:
            self.trie.forget(kept.token_ids, name)

    def _rebuild(self) -> None:
        """Count what is kept anew: a trie remembers where what it has forgotten began and ended."""
        self._removals = 0
        self.trie.clear()
        for name, kept in self.kept.items():
            self.trie.insert(kept.token_ids, name)

    def _make_room(self, spared: str) -> None:
        """Remove the least used until the rest fits."""
        while self.trie.node_count > self.max_nodes:
            least = min((name for name in self.kept if name != spared), key=self._worth)
            self.kept[spared].uses = max(self.kept[spared].uses, self.kept[least].uses)
            self._remove(least)

    def _worth(self, name: str) -> tuple[int, float]:
        return self.kept[name].uses, self.kept[name].last_used
