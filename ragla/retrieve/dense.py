"""Nearest passages by vector: a FAISS index that is derived, checked before it is parsed, and replaceable."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragla.errors import UsageError
from ragla.retrieve.durable import write_durably
from ragla.retrieve.embed import Vectors


@dataclass(frozen=True)
class DenseRecord:
    """What the store remembers of the file it last wrote."""

    sha256: str
    count: int
    dimension: int
    generation: int
    factory: str


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
    def build(cls, ids: NDArray[np.int64], vectors: Vectors, dimension: int, factory: str) -> DenseIndex:
        """Index ``vectors`` (n, dimension) under ``ids`` (n,).

        Raises UsageError when FAISS does not know ``factory`` or cannot train it on so few vectors.
        """
        import faiss

        try:
            inner = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
            if len(ids) and not inner.is_trained:
                inner.train(vectors)
            index = faiss.IndexIDMap2(inner)
            if len(ids):
                index.add_with_ids(vectors, ids)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UsageError(
                f"retrieve.faiss_index {factory!r} does not work for {len(ids)} passages: {reason}",
                hint="set retrieve.faiss_index to Flat",
            ) from error
        return cls(index)

    @property
    def is_exact(self) -> bool:
        """Whether every vector is compared, so that a search among some finds the best of them."""
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

    def save(self, path: Path, generation: int, factory: str) -> DenseRecord:
        """Write to a temporary name, flush to disk, rename over ``path``; never leaves half a file there.

        FAISS serialises to bytes and Python writes them: FAISS itself cannot open every non-ASCII path.
        """
        import faiss

        payload: bytes = faiss.serialize_index(self._index).tobytes()
        write_durably(path, payload)
        return DenseRecord(
            hashlib.sha256(payload).hexdigest(), self.count, self.dimension, generation, factory
        )

    @classmethod
    def load(cls, path: Path, record: DenseRecord) -> DenseIndex | None:
        """The index in ``path``, or None when the file is not, to the byte, the one ``record`` names."""
        import faiss

        # Before anything is parsed: FAISS trusts the sizes it reads in a file.
        payload = verified_bytes(path, record)
        if payload is None:
            return None
        index = cls(faiss.deserialize_index(np.frombuffer(payload, dtype=np.uint8)))
        return index if (index.count, index.dimension) == (record.count, record.dimension) else None


def verified_bytes(path: Path, record: DenseRecord) -> bytes | None:
    """The content of ``path``, or None when it is not, to the byte, what ``record`` names."""
    try:
        payload = path.read_bytes()
    except OSError:
        return None
    return payload if hashlib.sha256(payload).hexdigest() == record.sha256 else None
