"""The file of a flat FAISS index, made from vectors as they come: FAISS itself would hold all of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragla.retrieve.embed import Vectors

Block = tuple[NDArray[np.int64], Vectors]
Blocks = Callable[[], Iterator[Block]]
"""Begins anew at each call: ids (n,) with their vectors (n, dimension), block by block."""

_COUNT = struct.Struct("<q")


@dataclass(frozen=True)
class FlatFormat:
    """What FAISS writes before, between and behind the two counts of an index of ids over a flat index."""

    head: bytes
    middle: bytes
    tail: bytes

    @classmethod
    def known(cls, dimension: int) -> FlatFormat | None:
        """The format, or None when this FAISS has another: told by writing two vectors in both ways."""
        empty = _serialised(0, dimension)
        form = cls(empty[:8], empty[16:45], empty[53:-16])
        pair = np.arange(2), np.ones((2, dimension), np.float32)
        return (
            form
            if b"".join(form.parts(lambda: iter([pair]), 2, dimension)) == _serialised(2, dimension)
            else None
        )

    def parts(self, blocks: Blocks, count: int, dimension: int) -> Iterator[bytes]:
        """The bytes of the file."""
        number, numbers = _COUNT.pack(count), _COUNT.pack(count * dimension)
        yield self.head + number + self.middle + number + self.tail + numbers
        every = [np.zeros(0, dtype="<i8")]
        for ids, vectors in blocks():
            yield np.ascontiguousarray(vectors, dtype="<f4").tobytes()
            every.append(ids.astype("<i8"))
        yield number + np.concatenate(every).tobytes()


def _serialised(count: int, dimension: int) -> bytes:
    """What FAISS makes of so many vectors of ones."""
    import faiss

    index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
    if count:
        index.add_with_ids(np.ones((count, dimension), np.float32), np.arange(count))
    return bytes(faiss.serialize_index(index).tobytes())
