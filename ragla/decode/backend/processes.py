"""One model cut across processes: the first decodes, the others run the same passes when it tells them.

Every rank holds a share of each matrix and all must enter each forward pass together, with the same rows.
A draft depends on measured times, so ranks that decoded for themselves would soon draft different
trees. Here rank 0 alone retrieves, drafts, samples and prints; it announces each pass and each change of
a cache, and the other ranks follow.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import signal
import weakref
from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum

import torch
import torch.distributed as dist

from ragla.decode.backend import Backend
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows

PATIENCE = timedelta(days=7)  # a follower waits as long as the leader's user thinks


class Order(IntEnum):
    """What the leader announces; each is a list of numbers that begins with one of these."""

    STOP = 0
    NEW_CACHE = 1  # number, capacity
    DROP = 2  # number
    KEEP = 3  # number, length of the text, nodes…
    FORWARD = 4  # number, last rows wanted, ranks wanted, rows…


class Channel:
    """Lists of numbers from rank 0 to all others, through the host's memory."""

    def __init__(self) -> None:
        self.group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def send(self, numbers: Sequence[int]) -> None:
        """Give a list to every other rank."""
        content = torch.tensor(numbers, dtype=torch.long)
        dist.broadcast(torch.tensor([len(numbers)]), 0, group=self.group)
        dist.broadcast(content, 0, group=self.group)

    def receive(self) -> list[int]:
        """The next list of rank 0."""
        length = torch.zeros(1, dtype=torch.long)
        dist.broadcast(length, 0, group=self.group)
        content = torch.zeros(int(length), dtype=torch.long)
        dist.broadcast(content, 0, group=self.group)
        numbers: list[int] = content.tolist()
        return numbers

    def close(self) -> None:
        """Leave the group of processes, which else complains at the program's end."""
        with contextlib.suppress(RuntimeError, AssertionError):
            dist.destroy_process_group()
        _end_with_python()


def packed(rows: QueryRows) -> list[int]:
    """Rows as numbers: prefix, how many, whether they are a tree, ids, positions, who sees whom."""
    among = [] if rows.among is None else rows.among.long().flatten().tolist()
    return [
        rows.prefix,
        len(rows),
        int(rows.among is not None),
        *rows.ids.tolist(),
        *rows.places.tolist(),
        *among,
    ]


def unpacked(numbers: Sequence[int], device: torch.device) -> QueryRows:
    """Rows from their numbers."""
    (prefix, count, tree), rest = numbers[:3], torch.tensor(numbers[3:], dtype=torch.long)
    among = rest[2 * count :].view(count, count).bool() if tree else None
    return QueryRows(rest[:count], rest[count : 2 * count], among, prefix, device)


def _end_with_python() -> None:
    """End the process, with its exit code, as soon as Python has ended.

    The tensors' mesh keeps groups of processes alive, and gloo's threads, when they are taken down among
    the C++ destructors, abort the process every tenth time. All output has been written by then.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):  # of glibc: calls the function with the exit code
        library.on_exit(ctypes.cast(library._exit, ctypes.c_void_p), None)


class LedCache(KVCache):
    """The leader's cache: what is kept here is kept on every rank."""

    def __init__(self, inner: KVCache, number: int, leader: Leader) -> None:
        super().__init__(len(inner.rows), inner.capacity)
        self.inner = inner
        self.rows, self.layers = inner.rows, inner.layers
        self.number = number
        self._leader = leader
        weakref.finalize(self, leader.dropped.append, number).atexit = False

    def committed(self, rows: int) -> None:
        """The last forward's first ``rows`` rows are text: count them in."""
        self.inner.committed(rows)
        self.length = self.inner.length

    def keep(self, nodes: Sequence[int]) -> None:
        """Of the rows the last forward added keep these, in this order."""
        if list(nodes) != list(range(len(nodes))):  # else the next pass says where the text ends
            self._leader.order(Order.KEEP, self.number, self.length, *nodes)
        self.inner.keep(nodes)
        self.length = self.inner.length

    def truncate(self, length: int) -> None:
        """Drop all rows from ``length`` on; the next pass says so to the others."""
        self.inner.truncate(length)
        self.length = length


class Leader:
    """The backend of rank 0."""

    def __init__(self, inner: Backend, channel: Channel) -> None:
        self.inner = inner
        self.name, self.device = inner.name, inner.device
        self.context_end, self.drafts = inner.context_end, inner.drafts
        self.drafts_with_prompt = inner.drafts_with_prompt
        self.dropped: list[int] = []
        self._channel = channel
        self._caches = 0
        self._open = True
        atexit.register(self.close)

    def order(self, *numbers: int) -> None:
        """Announce something, after the caches that are no longer used."""
        while self.dropped:
            self._channel.send([Order.DROP, self.dropped.pop()])
        self._channel.send(numbers)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of ``capacity`` rows, on every rank."""
        self._caches += 1
        self.order(Order.NEW_CACHE, self._caches, capacity)
        return LedCache(self.inner.new_cache(capacity), self._caches, self)

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows."""
        return self.inner.forward(rows, self._announced(rows, cache, last, 0), last=last)

    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int, last: int = 1
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """What ``forward`` gives for ``last``, the same bits, and the ``count`` best ids after every row."""
        return self.inner.forward_ranked(rows, self._announced(rows, cache, last, count), count, last)

    def _announced(self, rows: QueryRows, cache: KVCache, last: int, count: int) -> KVCache:
        if not isinstance(cache, LedCache):
            raise TypeError("a cache of another backend")
        self.order(Order.FORWARD, cache.number, last, count, *packed(rows))
        return cache.inner

    def close(self) -> None:
        """Let the other ranks go. Called at the program's end, too."""
        if self._open:
            self._open = False
            with contextlib.suppress(RuntimeError):  # of a rank that is gone already
                self._channel.send([Order.STOP])
            self._channel.close()


class Follower:
    """Any other rank: runs what rank 0 announces until it stops."""

    def __init__(self, inner: Backend, channel: Channel) -> None:
        self.inner = inner
        self._channel = channel
        self._caches: dict[int, KVCache] = {}

    def follow(self) -> None:
        """Obey until rank 0 stops or is gone. An interrupt is rank 0's to act on."""
        with contextlib.suppress(ValueError):  # not the main thread: no signals come here
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            while (order := self._channel.receive())[0] != Order.STOP:
                self._obey(*order)
        except RuntimeError as error:
            if "onnection" not in str(error):  # closed or reset: rank 0 has ended in the middle of a pass
                raise
        self._channel.close()

    def _obey(self, order: int, number: int, *rest: int) -> None:
        if order == Order.NEW_CACHE:
            self._caches[number] = self.inner.new_cache(rest[0])
        elif order == Order.DROP:
            del self._caches[number]
        elif order == Order.KEEP:
            cache, (length, *nodes) = self._caches[number], rest
            cache.length = length  # a prompt's last pass adds text too, before its draft
            cache.keep(nodes)
        else:
            self._forward(self._caches[number], *rest)

    def _forward(self, cache: KVCache, last: int, count: int, *numbers: int) -> None:
        rows = unpacked(numbers, self.inner.device)
        cache.truncate(rows.prefix)
        if count:
            self.inner.forward_ranked(rows, cache, count, last)
        else:
            self.inner.forward(rows, cache, last=last)


def shared(inner: Backend) -> tuple[Backend, Follower | None]:
    """The backend to decode with, and on every rank but 0 the follower that must run instead."""
    channel = Channel()
    if dist.get_rank() == 0:
        return Leader(inner, channel), None
    return inner, Follower(inner, channel)
