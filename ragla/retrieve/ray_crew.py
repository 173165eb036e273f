"""Workers of a Ray cluster that hold the embedder: passages go to one that is ready, or, lost, to another."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ragla.errors import RaglaError
from ragla.retrieve.embed import Vectors
from ragla.retrieve.ray_cluster import Floor, raised

# One is computed and one waits, so that no worker waits for its next.
_JOBS_A_WORKER = 2
# A batch that ends its worker so often does not fit its memory.
_TRIES = 4
# Loading a model takes some ten seconds; a machine that has to be started first, minutes.
READY_S = 300.0


@dataclass(eq=False)
class Job:
    """Passages to embed at once, and their vectors (len(texts), dimension) when that is done."""

    texts: list[str]
    vectors: Vectors | None = None
    tries: int = 0


class Crew:
    """``count`` workers, which ``hire`` makes; one that is lost is replaced when there is room for it.

    Raises, in the floor's step, what a worker raises, and RaglaError when a batch was lost too often.
    """

    def __init__(self, floor: Floor, hire: Callable[[], Any], count: int, batch_size: int) -> None:
        self._floor = floor
        self._ray = floor.ray
        self._hire = hire
        self._batch_size = batch_size
        self._count = count
        self._waiting: deque[Job] = deque()
        self._busy: dict[Any, deque[Job]] = {}
        self._starting: set[Any] = set()
        self._last_seen = time.monotonic()
        for _ in range(count):
            self._start()

    @property
    def has_room(self) -> bool:
        """Whether more passages would keep somebody from waiting."""
        return len(self._waiting) < _JOBS_A_WORKER * self._count

    def embed(self, texts: list[str]) -> Job:
        """Hand passages to the workers."""
        job = Job(texts)
        self._waiting.append(job)
        self._hand_out()
        return job

    def check(self) -> None:
        """Raise RaglaError where for a long time no worker was ready."""
        if self._busy:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > READY_S:
            raise RaglaError(
                f"no worker of the Ray cluster was ready to embed in {READY_S:.0f} s",
                "see what it has free: ray status; what was stored is kept, run the command again",
            )

    def _start(self) -> None:
        worker = self._hire()
        self._starting.add(worker)
        self._floor.expect(worker.ready.remote(), partial(self._started, worker))

    def _started(self, worker: Any, reference: Any) -> None:
        self._starting.discard(worker)
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise raised(error) from error
        except self._ray.exceptions.RayError:
            self._start()
            return
        self._busy[worker] = deque()
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._busy:
            worker = min(self._busy, key=lambda one: len(self._busy[one]))
            if len(self._busy[worker]) >= _JOBS_A_WORKER:
                return
            job = self._waiting.popleft()
            if job.vectors is not None:  # done after all, by a worker that was lost behind it
                continue
            self._busy[worker].append(job)
            reference = worker.embed.remote(job.texts, self._batch_size)
            self._floor.expect(reference, partial(self._ended, worker, job))

    def _ended(self, worker: Any, job: Job, reference: Any) -> None:
        try:
            job.vectors = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise raised(error) from error
        except self._ray.exceptions.RayError as error:
            self._replace(worker, error)
        if worker in self._busy:
            self._busy[worker].remove(job)
        self._hand_out()

    def _replace(self, worker: Any, error: Exception) -> None:
        """Once, however many passages were lost with it; only those that it was at may be to blame."""
        lost = self._busy.pop(worker, None)
        if lost is None:
            return
        lost[0].tries += 1
        if lost[0].tries >= _TRIES:
            raise RaglaError(
                f"workers of the Ray cluster ended {_TRIES} times over the same passages: out of memory?",
                "what was stored is kept; take smaller batches: --set retrieve.batch_size=8",
            ) from error
        self._waiting.extendleft(reversed(lost))
        self._ray.kill(worker)  # it is not to come back with any of them
        self._start()
