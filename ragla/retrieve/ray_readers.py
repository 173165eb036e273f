"""Files read and cut by the tasks of a Ray cluster, some at a time, handed on in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ragla.retrieve import ray_work
from ragla.retrieve.ray_cluster import Floor, raised
from ragla.retrieve.taking import Content, Request, Taken, Taking, unreadable_by_worker

# What one task gets: enough to be worth sending, little enough to be done again.
_UNIT_FILES, _UNIT_BYTES = 8, 4 << 20
# Ray does a task again by itself when its worker or machine is lost.
_RETRIES = 2
# So small that two of them have room beside a worker that embeds: readers never wait for one to end.
_SHARE = 0.05


@dataclass
class _Unit:
    """Some files, and what came of each so far. ``sent_ns``: before any of them was read."""

    requests: Sequence[Request]
    results: list[Taken | None]
    sent_ns: int

    @property
    def is_done(self) -> bool:
        return None not in self.results


class Readers:
    """Has at most ``most`` units of files under way. ``local``: reads here what the workers do not see.

    Raises RaglaError, in the floor's step, where a worker has another ragla or none.
    """

    def __init__(self, floor: Floor, cutting: ray_work.Cutting, local: Taking, most: int) -> None:
        self._floor = floor
        self._ray = floor.ray
        # one object for all tasks; a tokenizer is some hundred kilobytes
        self._cutting = self._ray.put(cutting)
        self._task = self._ray.remote(ray_work.read)
        self._local = local
        self._most = most
        self._units: deque[_Unit] = deque()
        self._next = 0
        self._shares_no_files = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that was asked for was handed on."""
        return not self._units

    def fill(self, requests: Iterator[Request]) -> None:
        """Send out files as far as there is room."""
        while len(self._units) < self._most:
            chosen: list[Request] = []
            size = 0
            while len(chosen) < _UNIT_FILES and size < _UNIT_BYTES:
                request = next(requests, None)
                if request is None:
                    break
                chosen.append(request)
                size += request.file.size
            if not chosen:
                return
            unit = _Unit(chosen, [None] * len(chosen), time.time_ns())
            self._units.append(unit)
            self._send(unit, range(len(chosen)), with_content=self._shares_no_files)

    def next(self) -> Taken | None:
        """What came of the next file, in order; None while that is not known."""
        if not self._units or not self._units[0].is_done:
            return None
        unit = self._units[0]
        taken = unit.results[self._next]
        self._next += 1
        if self._next == len(unit.results):
            self._units.popleft()
            self._next = 0
        return taken

    def _send(self, unit: _Unit, numbers: Sequence[int], with_content: bool) -> None:
        contents: dict[int, Content | None] = dict.fromkeys(numbers)
        if with_content:
            for number in numbers:
                content = self._local.content(unit.requests[number])
                if isinstance(content, Taken):
                    unit.results[number] = content
                    del contents[number]
                else:
                    contents[number] = content
        if not contents:
            return
        payload = [(unit.requests[number], content) for number, content in contents.items()]
        options = {"num_cpus": _SHARE, "max_retries": _RETRIES, "scheduling_strategy": "SPREAD"}
        reference = self._task.options(**options).remote(self._cutting, payload)
        self._floor.expect(reference, partial(self._ended, unit, list(contents), with_content))

    def _ended(self, unit: _Unit, numbers: list[int], with_content: bool, reference: Any) -> None:
        try:
            found = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise raised(error) from error
        except self._ray.exceptions.RayError:
            self._lost(unit, numbers, with_content)
            return
        for number, taken in zip(numbers, found, strict=True):
            unit.results[number] = taken and ray_work.at(taken, unit.sent_ns)
        absent = [number for number in numbers if unit.results[number] is None]
        if absent:
            self._shares_no_files = True
            self._send(unit, absent, with_content=True)

    def _lost(self, unit: _Unit, numbers: list[int], with_content: bool) -> None:
        """A worker ended again and again: find out with which file, and leave that one out."""
        if len(numbers) > 1:
            for number in numbers:
                self._send(unit, [number], with_content)
        else:
            unit.results[numbers[0]] = unreadable_by_worker(unit.requests[numbers[0]])
