"""What an index of many more documents would take: disk, memory, time, and which store suits it.

Every figure is a range. It grows from what the index at hand takes; nothing is assumed of the documents to
come but that they are like those that are there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ragla.errors import UsageError
from ragla.retrieve.advice import LARGE, advise
from ragla.retrieve.corpus_figures import CorpusFigures

MOST = 10**12
_FORM = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]{1,3})?) ?([kmbgt]?)", re.IGNORECASE)
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
# 95 % of normally distributed means.
_DEVIATIONS = 1.96
# Another day, another load: a pace that was measured once is not believed closer than this.
_PACE_WITHIN = 1.25
# A FAISS file is built anew in the memory of one machine after every change, and training its lists takes
# the square of their number: an hour of two cores at this many passages, a day at eight times as many.
ONE_MACHINE = 20_000_000
_SHARE_OF_MEMORY = 0.5
# An id beside each vector.
_ID_BYTES = 8
# What a run holds in memory of each file, as Python objects: its row of the index and its place in the walk.
# Measured with 100,000 files whose paths have 60 characters.
FILE_BYTES = 2_000
_DAY_S = 86_400


@dataclass(frozen=True)
class Range:
    """From ``low`` to ``high``."""

    low: float
    high: float

    def times(self, factor: float) -> Range:
        """Both ends multiplied."""
        return Range(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Plan:
    """What ``documents`` like those of an index would take.

    ``passages`` and ``passages_a_document``: numbers; ``database`` and ``vectors``: bytes on disk, ``disk``
    both and the index of before; ``search_memory`` and ``index_memory``: bytes, without the models;
    ``seconds``: of one machine like this, None where no pace is known; ``machines``: how many of them do it
    in a day; ``factory``: of FAISS, None where another store is recommended.
    """

    documents: int
    figures: CorpusFigures
    passages_a_document: Range
    passages: Range
    database_a_passage: Range
    vector_bytes: int
    database: Range
    vectors: Range
    disk: Range
    search_memory: Range
    index_memory: Range
    seconds: Range | None
    machines: int | None
    store: str
    factory: str | None
    store_reason: str
    indexing: str
    indexing_reason: str


def documents_of(text: str) -> int:
    """The number in ``10000000``, ``10,000,000``, ``10M``, ``2.5k``, ``1e7``. Raises UsageError."""
    found = _FORM.fullmatch(text.strip())
    try:
        number = (
            Decimal(found[1].replace(",", "").replace("_", "")) * _SCALES[found[2].lower()] if found else 0
        )
    except InvalidOperation:
        number = 0
    if not 1 <= number <= MOST or number != int(number):
        raise UsageError(
            f"--plan {text}: no number of documents from 1 to a trillion",
            "write it as 10000000 or 10M: ragla info --plan 10M",
        )
    return int(number)


def plan(documents: int, figures: CorpusFigures, free_mebibytes: float) -> Plan:
    """What ``documents`` like those of ``figures`` would take, on a machine with so much free memory."""
    each = _passages_a_document(figures)
    passages = each.times(documents)
    low, high = figures.database_bytes
    # a passage's vector alone is in the database, too
    a_passage = Range(
        max(low / figures.passages, 4.0 * figures.dimension),
        max(high / figures.passages, 4.0 * figures.dimension),
    )
    database = Range(passages.low * a_passage.low, passages.high * a_passage.high)
    store, factory, reason = _store(math.ceil(passages.high), figures.dimension, free_mebibytes)
    vector = _vector_bytes(factory, figures.dimension)
    vectors = passages.times(vector)
    seconds = _seconds(figures, passages)
    machines = None if seconds is None else max(1, math.ceil(seconds.high / _DAY_S))
    indexing, why = _indexing(machines)
    built = vectors if factory not in (None, "Flat") else Range(0, 0)
    held = FILE_BYTES * documents
    return Plan(
        documents=documents,
        figures=figures,
        passages_a_document=each,
        passages=passages,
        database_a_passage=a_passage,
        vector_bytes=vector,
        database=database,
        vectors=vectors,
        disk=Range(database.low + vectors.low, 2 * (database.high + vectors.high)),
        search_memory=vectors,
        index_memory=Range(held + built.low, held + built.high),
        seconds=seconds,
        machines=machines,
        store=store,
        factory=factory,
        store_reason=reason,
        indexing=indexing,
        indexing_reason=why,
    )


def _passages_a_document(figures: CorpusFigures) -> Range:
    """The mean as so many documents tell it; they are taken to spread by their mean at least."""
    mean = figures.passages / figures.documents
    spread = max(_DEVIATIONS * figures.spread / mean, 1.0) / math.sqrt(figures.documents)
    return Range(mean / (1 + spread), mean * (1 + spread))


def _store(passages: int, dimension: int, free_mebibytes: float) -> tuple[str, str | None, str]:
    """The store, its factory string where it is FAISS, and why."""
    advice = advise(passages, dimension, free_mebibytes)
    if passages <= LARGE:
        return "faiss", advice.factory, advice.reason
    eighth = dimension * passages / 2**20  # 8 bits a number
    if eighth > _SHARE_OF_MEMORY * free_mebibytes:
        return (
            "milvus", None,
            f"vectors of {eighth / 1024:,.1f} GiB, 8 bits a number, are over half of the free memory here",
        )  # fmt: skip
    if passages > ONE_MACHINE:
        return "milvus", None, f"FAISS would train its lists for hours, above {ONE_MACHINE:,} passages"
    return "faiss", advice.factory, advice.reason


def _vector_bytes(factory: str | None, dimension: int) -> int:
    """A passage's, in the FAISS file and in memory; of a server, of vectors that are kept whole."""
    numbers = dimension if factory is not None and factory.endswith("SQ8") else 4 * dimension
    return numbers + _ID_BYTES


def _seconds(figures: CorpusFigures, passages: Range) -> Range | None:
    pace = figures.pace
    if pace is None or pace.passages <= 0 or pace.seconds <= 0:
        return None
    a_passage = pace.seconds / pace.passages
    return Range(passages.low * a_passage / _PACE_WITHIN, passages.high * a_passage * _PACE_WITHIN)


def _indexing(machines: int | None) -> tuple[str, str]:
    if machines is None:
        return "unknown", "nothing was measured: ragla info --plan N --measure, or index a larger sample"
    if machines == 1:
        return "local", "one machine embeds it within a day"
    return "ray", f"{machines:,} machines like this one embed it in a day, ragla index --on ray"
