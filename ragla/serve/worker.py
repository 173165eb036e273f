"""A thread that does one job after the other, with a bounded queue before it. It knows no HTTP and no model.

A job always ends: with its result, with whatever it raised, or because it was stopped. Nobody who waits
for one waits for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

RECENT = 8  # jobs whose durations say how long the next will take
LONGEST_WAIT_S = 60  # that anybody is told to wait before asking again


class QueueFull(Exception):
    """No room in the queue. ``retry_after_s``: when there may be some."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("the queue is full")
        self.retry_after_s = retry_after_s


class Closed(Exception):
    """The worker takes no more jobs, and stops those it has."""


class Job:
    """Work to be done. It is given ``stopped``, to be asked now and then.

    ``deadline``: when it has taken too long, by ``monotonic``; time in the queue counts.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], Any], seconds: float) -> None:
        self.future: Future[Any] = Future()
        self.deadline = monotonic() + seconds
        self._work = work
        self._stop = threading.Event()

    def stop(self) -> None:
        """Nobody waits for the result any more."""
        self._stop.set()
        self.future.cancel()  # if it has not begun

    def stopped(self) -> bool:
        """Whether to stop."""
        return self._stop.is_set() or monotonic() > self.deadline

    def run(self) -> None:
        """Do the work, if somebody still waits for it; whatever it raises goes to the future."""
        if self.stopped() or not self.future.set_running_or_notify_cancel():
            self.future.cancel()
            return
        try:
            result = self._work(self.stopped)
        except Exception as error:
            self.future.set_exception(error)
        except BaseException as error:  # no job ends the thread
            self.future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
        else:
            self.future.set_result(result)


class Worker:
    """The thread and its queue; ``most_waiting`` jobs may wait beside the one that is done."""

    def __init__(self, name: str, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        with self._changed:
            return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether a job is being done."""
        return self._running is not None

    @property
    def alive(self) -> bool:
        """Whether jobs are done at all."""
        return self._thread.is_alive() and not self._closed

    def submit(self, work: Callable[[Callable[[], bool]], Any], seconds: float) -> Job:
        """Queue work that may take ``seconds`` in all. Raises QueueFull, Closed."""
        job = Job(work, seconds)
        with self._changed:
            if self._closed:
                raise Closed
            self._waiting = deque(other for other in self._waiting if not other.stopped())
            if self._running is not None and len(self._waiting) >= self.most_waiting:
                raise QueueFull(self._retry_after())
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def _retry_after(self) -> int:
        """Seconds until about half of those before are done."""
        each = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return max(1, min(LONGEST_WAIT_S, round(each * (len(self._waiting) + 1) / 2)))

    def close(self, seconds: float) -> bool:
        """Stop what runs and what waits; whether the thread has ended within ``seconds``."""
        with self._changed:
            self._closed = True
            if self._running is not None:
                self._running.stop()
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            began = monotonic()
            job.run()
            with self._changed:
                self._running = None
                if job.future.done() and not job.future.cancelled():
                    self._seconds.append(monotonic() - began)

    def _next(self) -> Job | None:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                for job in self._waiting:
                    if job.future.set_running_or_notify_cancel():
                        job.future.set_exception(Closed())
                self._waiting.clear()
                return None
            self._running = self._waiting.popleft()
            return self._running
