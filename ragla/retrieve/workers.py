"""Embedding on several devices at once: sentence-transformers' pool of processes, made fit to be interrupted.

The library starts a process for each device and hands them batches. Here these load the model themselves,
so that they start side by side and at once, compute on their share of the cores, say nothing on stderr,
leave Ctrl-C to the one that started them, and end when that one is gone, however it ended.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from tqdm import tqdm  # type: ignore[import-untyped]

from ragla.errors import RaglaError
from ragla.memory import out_of_memory


class SharedTransformer(SentenceTransformer):
    """The model in ``folder``, which other processes are handed by that name.

    ``worker_threads``: of each process on the CPU.
    """

    worker_threads = 1

    def __init__(self, folder: str, device: str) -> None:
        super().__init__(folder, device=device, local_files_only=True)
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., SentenceTransformer], tuple[str, int]]:
        return _in_worker, (self.folder, self.worker_threads)


def _in_worker(folder: str, threads: int) -> SentenceTransformer:
    """What the process for a device begins with: nothing of its parent is there but the names."""
    from transformers.utils import logging as transformers_logging

    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    logging.disable(logging.CRITICAL)  # an error is handed back
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # its own lock is a semaphore of the system, which a process that is ended leaves behind with a warning
    tqdm.set_lock(threading.RLock())
    torch.set_num_threads(threads)
    return SentenceTransformer(folder, device="cpu", local_files_only=True)


def _end_with_parent(parent: int) -> None:
    """A process that was killed stops no others; these would wait for work for ever.

    Until this process has been set up it knows its parent by number only.
    """
    while (process := multiprocessing.parent_process()) is None:
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(0.1)
    process.join()
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
            if hasattr(signal, "pthread_sigmask"):
                # started here, because starting it among the others would end the blocking for them
                resource_tracker.ensure_running()
            try:
                # In a thread, so that an interrupt of this one finds all of them started or none.
                with ThreadPoolExecutor(1) as starter:
                    starter.submit(self._start).result()
            except (OSError, RuntimeError, TypeError, AttributeError, ValueError) as error:
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise RaglaError(
                    f"cannot embed in several processes: {reason}", "name one device: --device cpu"
                ) from error
        assert self._pool is not None
        return self._pool

    def _start(self) -> None:
        """Start the processes from a thread that hears no Ctrl-C, as they then do not either.

        A terminal sends it to all of them; it is this process's to say that they end.
        """
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        on_cpu = sum(torch.device(name).type == "cpu" for name in self._devices)
        self._model.worker_threads = max(1, torch.get_num_threads() // max(1, on_cpu))
        self._pool = self._model.start_multi_process_pool(self._devices)

    def close(self) -> None:
        """End the processes at once; they may be in the middle of something."""
        pool, self._pool = self._pool, None
        if pool is not None:
            self._model.stop_multi_process_pool(pool)
