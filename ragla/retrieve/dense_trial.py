"""Another FAISS index tried on a sample of an index's vectors: what it finds of what comparing all finds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragla.errors import UsageError
from ragla.retrieve.dense import DenseIndex, spread
from ragla.retrieve.embed import Vectors
from ragla.retrieve.retriever import POOL
from ragla.retrieve.store import Store

# Bounds time and memory: 100 MB of 384 numbers, and again in each of the two indexes.
SAMPLE = 65_536
_ASKED = 200
_NEAREST = 10


@dataclass(frozen=True)
class Trial:
    """``recall``: of the ten nearest by comparing all, the share among the ten that the index finds.

    ``sample`` of ``passages`` vectors were indexed, and others searched for. ``ms`` and ``flat_ms``: median
    of a search for 50, milliseconds; ``seconds``: to build, once for every run that changes passages.
    """

    factory: str
    parameters: str
    sample: int
    passages: int
    recall: float
    ms: float
    flat_ms: float
    seconds: float


def try_factory(
    index_dir: Path, factory: str, parameters: str = "", sample: int = SAMPLE, asked: int = _ASKED
) -> Trial:
    """Build an index of at most ``sample`` vectors and search it for ``asked`` vectors that are not in it.

    Raises IndexUnusable for no index, UsageError for a factory that does not work, or too few passages.
    """
    every, passages = _spread(Path(index_dir), sample + asked)
    if len(every) < 2 * _NEAREST:
        raise UsageError(f"{len(every)} passages are too few to try an index on", "ragla index FOLDER")
    step = max(2, len(every) // asked)
    queries, vectors = every[::step], np.delete(every, np.s_[::step], axis=0)
    ids = np.arange(len(vectors))

    def built(*made: str) -> DenseIndex:
        return DenseIndex.build(lambda: iter([(ids, vectors)]), len(ids), vectors.shape[1], *made)

    flat = built()
    started = time.perf_counter()
    index = built(factory, parameters)
    seconds = time.perf_counter() - started
    found, took = [], []
    for query in queries:  # in turns, so that what else the machine does slows both
        nearest, flat_took = _timed(flat, query)
        near, index_took = _timed(index, query)
        found.append(len(set(nearest) & set(near)) / len(nearest))
        took.append((index_took, flat_took))
    ms, flat_ms = (statistics.median(times) * 1000 for times in zip(*took, strict=True))
    return Trial(factory, parameters, len(ids), passages, statistics.mean(found), ms, flat_ms, seconds)


def _timed(index: DenseIndex, query: Vectors) -> tuple[Sequence[int], float]:
    started = time.perf_counter()
    found = index.search(query, POOL)
    return [one for one, _ in found[:_NEAREST]], time.perf_counter() - started


def _spread(index_dir: Path, wanted: int) -> tuple[Vectors, int]:
    """Vectors of at most ``wanted`` passages, evenly spread, and how many passages there are."""
    store = Store.read(index_dir)
    try:
        with store.transaction("DEFERRED"):
            passages = store.passage_count()
            dimension = int(store.fingerprint().get("dimension", 0))
            return spread(lambda: store.vector_blocks(dimension), passages, dimension, wanted), passages
    finally:
        store.close()
