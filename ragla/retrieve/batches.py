"""Texts in batches of like length, smaller ones where memory runs out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragla.errors import RaglaError
from ragla.memory import out_of_memory

Encode = Callable[[list[str], int], NDArray[np.float32]]
"""Called with texts, the longest first, and how many a batch may have; returns their vectors in order."""
OnBatch = Callable[[int], None]
"""Called with how many texts were encoded since it was called last."""
Measure = Callable[[Sequence[str]], list[int]]
"""How long the model finds each of the texts."""


def ignore_batch(texts: int) -> None:
    """The listener of those who do not watch."""


class Batches:
    """Encodes texts in batches of at most as many as are asked for, and of no more than once fitted.

    ``limit`` is what memory running out has left of the batch size, None until it did. It lasts, so that a
    limit is run into once.
    """

    def __init__(self, measure: Measure, dimension: int, name: str) -> None:
        self._measure = measure
        self._dimension = dimension
        self._name = name
        self.limit: int | None = None
        self.on_batch: OnBatch = ignore_batch
        """Told of each batch of a long list; may be replaced."""

    def vectors(
        self, texts: Sequence[str], batch_size: int, encode: Encode, together: int = 1
    ) -> NDArray[np.float32]:
        """One row for each text, shape (len(texts), dimension).

        ``together``: how many batches one call of ``encode`` gets, where several processes share them.

        Sorted by length, so that a batch is padded to little more than it holds; the longest come first,
        so that a batch which is too large shows before much was done. Raises RaglaError when the memory
        does not even suffice for one text.
        """
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        lengths = self._measure(texts)
        order = sorted(range(len(texts)), key=lambda number: -lengths[number])
        at = 0
        while at < len(order):
            size = min(batch_size, self.limit or batch_size)
            chosen = order[at : at + size * together]
            made = _tried(encode, [texts[number] for number in chosen], size)
            if made is None:
                self._halve(min(size, len(chosen)))
                continue
            vectors[chosen] = made
            at += len(chosen)
            self.on_batch(len(chosen))
        return vectors

    def _halve(self, size: int) -> None:
        if size == 1:
            raise RaglaError(
                f"not enough memory to embed a single passage with {self._name}",
                "choose a smaller embedder, another --device, or a lower retrieve.chunk_tokens",
            )
        self.limit = size // 2
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()  # what is left of the failed batch lies in pieces

    @property
    def notice(self) -> str | None:
        """What was done, in a line; None where nothing was."""
        if self.limit is None:
            return None
        return (
            f"memory ran out: {self.limit} passages are embedded at a time; "
            f"begin so with --set retrieve.batch_size={self.limit}"
        )


def _tried(encode: Encode, texts: list[str], size: int) -> NDArray[np.float32] | None:
    """None where memory ran out."""
    try:
        return encode(texts, size)
    except Exception as error:  # each device has its own way to say so
        if not out_of_memory(error):
            raise
    return None
