"""Reads, cuts and embeds the files of a run on a Ray cluster, and hands the results on in order, each once.

Files go out in units, as tasks; their passages go out again, in the very batches in which one machine would
embed them, to workers that hold the model. What is lost with a worker is done again elsewhere.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ragla.config import RetrieveSettings
from ragla.retrieve import ray_work
from ragla.retrieve.embed import Embedder
from ragla.retrieve.ray_cluster import Address, Floor, connected
from ragla.retrieve.ray_crew import Crew, Job
from ragla.retrieve.ray_readers import Readers
from ragla.retrieve.taking import Request, Taken, Taking, embedded_texts
from ragla.retrieve.update import BATCH_PASSAGES, is_batch

_STEP_S = 1.0
# A process with torch and a small model in it.
_WORKER_BYTES = 1 << 30


@dataclass(frozen=True)
class RaySource:
    """Where a run reads, cuts and embeds: at ``address``, on GPUs where it has some and ``wants_gpu``.

    ``embedder`` is the one of this machine, which workers are to be like; ``load`` makes it there, for the
    device it is called with. ``local`` says how files are read and cut.
    """

    address: Address
    load: Callable[[str], Embedder]
    wants_gpu: bool
    embedder: Embedder
    settings: RetrieveSettings
    local: Taking

    def take(self, requests: Iterable[Request]) -> Generator[Taken, None, None]:
        """What came of each file, in order, embedded; the cluster is connected to when there is a file.

        Raises UsageError, RaglaError as ``connected``, and RaglaError for a cluster that cannot do it.
        """
        asked = iter(requests)
        first = next(asked, None)
        if first is None:
            return
        with connected(self.address) as ray:
            yield from _Run(self, ray).take(itertools.chain([first], asked))


@dataclass
class _Batch:
    """Files whose passages are embedded together, and the jobs that do it."""

    files: list[Taken] = field(default_factory=list)
    passages: int = 0
    jobs: list[Job] = field(default_factory=list)

    def add(self, taken: Taken) -> None:
        self.files.append(taken)
        self.passages += len(taken.chunks)

    @property
    def is_done(self) -> bool:
        return all(job.vectors is not None for job in self.jobs)

    def embedded(self) -> Iterator[Taken]:
        """The files with their vectors."""
        parts = [job.vectors for job in self.jobs if job.vectors is not None]
        vectors = np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)
        start = 0
        for taken in self.files:
            if taken.outcome == "cut":
                part = vectors[start : start + len(taken.chunks)]
                start += len(taken.chunks)
                yield replace(taken, vectors=part)
            else:
                yield taken


class _Run:
    """One run on one connection."""

    def __init__(self, source: RaySource, ray: Any) -> None:
        self._embedder = source.embedder
        settings = source.settings
        self._most = max(BATCH_PASSAGES, 4 * settings.batch_size)
        self._floor = Floor(ray)
        count, options, device = _places(ray.cluster_resources(), source.wants_gpu)
        self._most_under_way = 6 * count + 4
        worker = ray.remote(ray_work.EmbeddingWorker).options(max_restarts=0, **options)
        hire = partial(worker.remote, source.load, device, source.embedder.identity, ray_work.RAGLA)
        self._crew = Crew(self._floor, hire, count, settings.batch_size)
        cutting = ray_work.cutting_for(
            source.embedder, settings.chunk_tokens, settings.chunk_overlap,
            source.local.max_bytes, source.local.retry,
        )  # fmt: skip
        self._readers = Readers(self._floor, cutting, source.local, 2 * count + 2)

    def take(self, requests: Iterator[Request]) -> Iterator[Taken]:
        """Keep readers and workers busy, and hand on what is finished, in order."""
        filling, under_way = _Batch(), deque[_Batch]()
        while True:
            self._readers.fill(requests)
            while self._has_room(under_way) and (taken := self._readers.next()) is not None:
                filling.add(taken)
                if is_batch(filling.passages, len(filling.files), self._most):
                    under_way.append(self._sent(filling))
                    filling = _Batch()
            if self._readers.is_idle and filling.files:
                under_way.append(self._sent(filling))
                filling = _Batch()
            while under_way and under_way[0].is_done:
                yield from under_way.popleft().embedded()
            if self._readers.is_idle and not under_way:
                return
            self._floor.step(_STEP_S)
            self._crew.check()

    def _has_room(self, under_way: deque[_Batch]) -> bool:
        """Where the first is late, having been lost, what is done behind it must not fill the memory."""
        return self._crew.has_room and len(under_way) < self._most_under_way

    def _sent(self, batch: _Batch) -> _Batch:
        texts = [text for taken in batch.files for text in embedded_texts(self._embedder, taken)]
        batch.jobs = [
            self._crew.embed(texts[start : start + self._most]) for start in range(0, len(texts), self._most)
        ]
        return batch


def _places(resources: dict[str, float], wants_gpu: bool) -> tuple[int, dict[str, float], str]:
    """How many workers embed, what each takes of the cluster, and the device they embed on."""
    gpus = int(resources.get("GPU", 0)) if wants_gpu else 0
    if gpus:
        return gpus, {"num_gpus": 1, "num_cpus": 0.1}, "cuda"
    fit = int(resources.get("memory", _WORKER_BYTES) / _WORKER_BYTES)
    return max(1, min(int(resources.get("CPU", 1)), fit)), {"num_cpus": 0.9}, "cpu"
