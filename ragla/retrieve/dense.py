"""Nearest passages by vector: a FAISS index that is derived, checked before it is parsed, and replaceable."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ragla.errors import UsageError
from ragla.retrieve.durable import replacing
from ragla.retrieve.embed import Vectors
from ragla.retrieve.flat_format import Block, Blocks, FlatFormat

__all__ = [
    "FLAT",
    "Block",
    "Blocks",
    "DenseIndex",
    "DenseRecord",
    "check_factory",
    "is_recorded",
    "spread",
    "write_dense",
]

FLAT = "Flat"
# FAISS wants 39 points a centroid, and more than 256 change nothing; 64 keep the sample small.
_POINTS_A_CENTROID = 64
_LEAST_SAMPLE = 65_536
# Of the lists of an IVF index, the share that a search looks at; and the beam of an HNSW graph.
_PROBED = 16
_BEAM = 128
_TOO_FEW = re.compile(r"as large as number of clusters \((\d+)\)")
_CHOSEN_BY_INDEX = "leave retrieve.faiss_search empty, or set what the index has: nprobe=32, efSearch=256"


@dataclass(frozen=True)
class DenseRecord:
    """What the store remembers of the file it last wrote. ``parameters``: as they were set, not as chosen."""

    sha256: str
    count: int
    dimension: int
    generation: int
    factory: str
    parameters: str = ""


class DenseIndex:
    """Inner-product search over unit vectors; ids are chunk ids."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @property
    def count(self) -> int:
        """Vectors held."""
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._index.d)

    @classmethod
    def build(
        cls, blocks: Blocks, count: int, dimension: int, factory: str = FLAT, parameters: str = ""
    ) -> DenseIndex:
        """Index ``count`` vectors, which come in blocks; twice where the index has to be trained.

        Raises UsageError when FAISS does not know ``factory`` or ``parameters``, or cannot train it on so
        few vectors.
        """
        import faiss

        inner = _made(factory, parameters, dimension)
        try:
            if count and not inner.is_trained:
                inner.train(spread(blocks, count, dimension, _prepare_training(inner)))
            index = faiss.IndexIDMap2(inner)
            for ids, vectors in blocks():
                index.add_with_ids(vectors, ids)
        except RuntimeError as error:
            raise _unfit(factory, count, error) from error
        return cls(index)

    @property
    def is_exact(self) -> bool:
        """Whether every vector is compared, so that a search, even among some, finds the best."""
        import faiss

        return isinstance(faiss.downcast_index(self._index.index), faiss.IndexFlat)

    def search(
        self, query: Vectors, limit: int, among: NDArray[np.int64] | None = None
    ) -> list[tuple[int, float]]:
        """The ``limit`` nearest to ``query`` (dimension,): (chunk id, cosine), best first.

        ``among``: the only ids to look at, for an index that ``is_exact``.
        """
        import faiss

        if self.count == 0:
            return []
        chosen = None
        if among is not None:
            selector = faiss.IDSelectorBatch(among)  # FAISS holds no reference to it
            chosen = faiss.SearchParameters()
            chosen.sel = selector
        scores, ids = self._index.search(query.reshape(1, -1), min(limit, self.count), params=chosen)
        return [(int(i), float(s)) for i, s in zip(ids[0], scores[0], strict=True) if i >= 0]

    def write(self, file: _Hashed) -> None:
        """Serialise into a file that Python opened: FAISS itself cannot open every non-ASCII path."""
        import faiss

        try:
            writer = faiss.PyCallbackIOWriter(file.write)  # type: ignore[attr-defined]  # not in its stubs
            faiss.write_index(self._index, writer)
        except RuntimeError as error:
            raise file.error or error from error

    @classmethod
    def load(cls, path: Path, record: DenseRecord) -> DenseIndex | None:
        """The index in ``path``, or None when the file is not, to the byte, the one ``record`` names."""
        import faiss

        try:
            with path.open("rb") as file:
                # Before anything is parsed: FAISS trusts the sizes it reads in a file.
                if hashlib.file_digest(file, "sha256").hexdigest() != record.sha256:
                    return None
                file.seek(0)
                reader = faiss.PyCallbackIOReader(file.read)  # type: ignore[attr-defined]  # not in its stubs
                index = cls(faiss.read_index(reader))
        except OSError:
            return None
        return index if (index.count, index.dimension) == (record.count, record.dimension) else None


def check_factory(factory: str, parameters: str, dimension: int) -> None:
    """Raise UsageError where FAISS knows no such index, or it no such search parameters."""
    if (factory, parameters) != (FLAT, ""):
        _made(factory, parameters, dimension)


def write_dense(
    path: Path, blocks: Blocks, count: int, dimension: int, generation: int, factory: str, parameters: str
) -> DenseRecord:
    """Write the FAISS file of ``count`` vectors; never leaves half a file.

    A flat one is written as the vectors come, so that no folder is too large for the memory. Any other is
    built in memory. Raises OSError when it cannot be written, UsageError as ``DenseIndex.build``.
    """
    streamed = FlatFormat.known(dimension) if (factory, parameters) == (FLAT, "") else None
    index = None if streamed else DenseIndex.build(blocks, count, dimension, factory, parameters)
    with replacing(path) as file:
        hashed = _Hashed(file)
        if index is not None:
            index.write(hashed)
        elif streamed is not None:
            for part in streamed.parts(blocks, count, dimension):
                hashed.write(part)
    return DenseRecord(hashed.digest.hexdigest(), count, dimension, generation, factory, parameters)


def is_recorded(path: Path, record: DenseRecord) -> bool:
    """Whether the content of ``path`` is, to the byte, what ``record`` names."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == record.sha256
    except OSError:
        return False


def _made(factory: str, parameters: str, dimension: int) -> Any:
    """An empty index, with its search parameters."""
    import faiss

    try:
        inner = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise UsageError(
            f"retrieve.faiss_index {factory!r} is none that FAISS knows for {dimension} dimensions: "
            f"{_reason(error)}",
            hint="set retrieve.faiss_index to Flat, or see what ragla info advises",
        ) from error
    lists = faiss.try_extract_index_ivf(inner)
    if lists is not None:
        lists.nprobe = max(1, lists.nlist // _PROBED)
    elif isinstance(inner, faiss.IndexHNSW):
        inner.hnsw.efSearch = _BEAM
    try:
        faiss.ParameterSpace().set_index_parameters(inner, parameters)  # type: ignore[arg-type]  # wrong stub
    except RuntimeError as error:
        raise UsageError(
            f"retrieve.faiss_search {parameters!r} is nothing that {factory!r} knows", hint=_CHOSEN_BY_INDEX
        ) from error
    return inner


def _unfit(factory: str, count: int, error: RuntimeError) -> UsageError:
    reason = _reason(error)
    if few := _TOO_FEW.search(reason):
        said = f"needs at least {int(few[1]):,} passages to be trained with, there are {count:,}"
    else:
        said = f"does not work for {count:,} passages: {reason}"
    return UsageError(f"retrieve.faiss_index {factory!r} {said}", hint="set retrieve.faiss_index to Flat")


def _prepare_training(inner: Any) -> int:
    """How many vectors to train with.

    FAISS is kept from saying on stderr that they are few, and from ordering the codes of a product quantiser
    for a way of searching that is not used, which takes minutes.
    """
    import faiss

    lists = faiss.try_extract_index_ivf(inner)
    owners = [inner] if lists is None else [inner, faiss.downcast_index(lists)]
    for owner in owners:
        if hasattr(owner, "do_polysemous_training"):
            owner.do_polysemous_training = False
        for clustered in (owner, getattr(owner, "pq", owner)):
            if hasattr(clustered, "cp"):
                clustered.cp.min_points_per_centroid = 1
                clustered.cp.max_points_per_centroid = _POINTS_A_CENTROID
    return max(_LEAST_SAMPLE, 0 if lists is None else _POINTS_A_CENTROID * int(lists.nlist))


def spread(blocks: Blocks, count: int, dimension: int, wanted: int) -> Vectors:
    """At most ``wanted`` of ``count`` vectors (n, dimension), evenly spread."""
    step = max(1, -(-count // wanted))
    sample = np.empty((-(-count // step), dimension), dtype=np.float32)
    filled = seen = 0
    for _, vectors in blocks():
        part = vectors[-seen % step :: step]
        sample[filled : filled + len(part)] = part
        filled, seen = filled + len(part), seen + len(vectors)
    return sample[:filled]


def _reason(error: RuntimeError) -> str:
    """The last line of what FAISS says, without its place in FAISS."""
    return str(error).strip().splitlines()[-1].rpartition(": ")[2]


class _Hashed:
    """A file being written, and the SHA-256 of what was; FAISS loses ``error``, which is kept for it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, payload: bytes) -> int:
        self.digest.update(payload)
        try:
            return self._file.write(payload)
        except OSError as error:
            self.error = error
            raise
