"""Embedding on several devices at once: sentence-transformers' pool of processes, made fit to be interrupted.

The library starts a process for each device and hands them batches. Here they also compute on their share
of the cores, say nothing on stderr, leave Ctrl-C to the one that started them, and end when that one is
gone, however it ended.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from ragla.errors import RaglaError
from ragla.memory import out_of_memory


class SharedTransformer(SentenceTransformer):
    """A model that several processes compute with. ``worker_threads``: of each process on the CPU."""

    worker_threads = 1

    @classmethod
    def _multi_process_worker(
        cls, target_device: str, model: Any, input_queue: Any, results_queue: Any
    ) -> None:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        logging.disable(logging.CRITICAL)  # the error itself is handed back
        torch.set_num_threads(model.worker_threads)
        super()._multi_process_worker(target_device, model, input_queue, results_queue)


def _end_with_parent() -> None:
    """A process that was killed stops no others; these would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Workers:
    """A process for each of ``devices``, which may name one more than once; they start when they are needed.

    Starting them moves the model to the CPU, where it stays.
    """

    def __init__(self, model: SharedTransformer, devices: Sequence[str]) -> None:
        self._model = model
        self._devices = list(devices)
        self._pool: dict[Any, Any] | None = None

    @property
    def running(self) -> bool:
        """Whether the processes were started."""
        return self._pool is not None

    @property
    def count(self) -> int:
        """How many there are once they run."""
        return len(self._devices)

    @contextlib.contextmanager
    def pool(self) -> Iterator[dict[Any, Any]]:
        """The library's pool; an error that leaves it in an unknown state ends it.

        Raises RaglaError where the processes cannot be started, or one of them died.
        """
        try:
            yield self._started()
        except BaseException as error:
            if out_of_memory(error):  # handed back by a process, which goes on
                raise
            dead = self._pool is not None and not all(one.is_alive() for one in self._pool["processes"])
            self.close()
            if isinstance(error, Exception) and dead:
                raise RaglaError(
                    "a process that embeds ended unexpectedly; memory may have run out",
                    "name fewer devices, or take smaller batches: --set retrieve.batch_size=8",
                ) from error
            raise

    def _started(self) -> dict[Any, Any]:
        if self._pool is None:
            on_cpu = sum(torch.device(name).type == "cpu" for name in self._devices)
            self._model.worker_threads = max(1, torch.get_num_threads() // max(1, on_cpu))
            try:
                with _deaf_to_interrupts():
                    self._pool = self._model.start_multi_process_pool(self._devices)
            except (OSError, RuntimeError, TypeError, AttributeError, ValueError) as error:
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise RaglaError(
                    f"cannot embed in several processes: {reason}", "name one device: --device cpu"
                ) from error
        return self._pool

    def close(self) -> None:
        """End the processes at once; they may be in the middle of something."""
        pool, self._pool = self._pool, None
        if pool is not None:
            self._model.stop_multi_process_pool(pool)


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """What is started within never hears Ctrl-C, which a terminal sends to all; this process does afterwards.

    Blocked, not ignored: an interrupt that comes meanwhile is not lost.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # started here, because starting it among the others would end the blocking for them
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
