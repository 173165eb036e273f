"""What runs on the workers of a Ray cluster: files are read and cut there, passages are embedded."""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragla import __version__
from ragla.errors import RaglaError
from ragla.process import prepare
from ragla.retrieve.chunk import CHUNKER, Chunker
from ragla.retrieve.read import READERS
from ragla.retrieve.taking import Content, Request, Taken, Taking

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ragla.retrieve.embed import Embedder, Vectors

RAGLA = (__version__, CHUNKER, READERS)
"""What two machines must have in common to read and cut alike."""


@dataclass(frozen=True)
class Cutting:
    """All that reading and cutting needs to know of an embedder: no model, and no torch."""

    name: str
    max_tokens: int
    overhead_tokens: int
    tokenizer_json: str
    chunk_tokens: int
    chunk_overlap: int
    max_bytes: int
    retry: bool
    ragla: tuple[str, ...] = RAGLA

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """Neither cuts nor pads."""
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.tokenizer_json)


@functools.lru_cache(maxsize=1)
def _taking(cutting: Cutting) -> Taking:
    chunker = Chunker(cutting, cutting.chunk_tokens, cutting.chunk_overlap)  # type: ignore[arg-type]  # enough of one
    return Taking(chunker, cutting.max_bytes, cutting.retry)


def read(cutting: Cutting, requests: Sequence[tuple[Request, Content | None]]) -> list[Taken | None]:
    """What came of each file; None for one that is not, on this machine, the file that was found.

    Content that comes with a request is read in place of the file. Raises RaglaError where this machine's
    ragla would read or cut otherwise.
    """
    prepare()
    _check_alike(cutting.ragla)
    taking = _taking(cutting)
    return [_read_one(taking, request, content) for request, content in requests]


def _read_one(taking: Taking, request: Request, content: Content | None) -> Taken | None:
    if content is not None:
        return taking.of_content(request, content)
    return taking.one(request) if _is_here(request) else None


def _is_here(request: Request) -> bool:
    """Another machine may have another file of that path, or none."""
    try:
        status = request.file.absolute.stat(follow_symlinks=False)
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (request.file.size, request.file.mtime_ns)


class EmbeddingWorker:
    """An embedder on the machine where this is made, loaded by ``load``, which is called with the device."""

    def __init__(
        self, load: Callable[[str], Embedder], device: str, identity: dict[str, str], ragla: tuple[str, ...]
    ) -> None:
        # Here nothing is done that can fail: of an actor that could not be made Ray tells the text alone.
        self._load = load
        self._device = device
        self._identity = identity
        self._ragla = ragla

    def ready(self) -> None:
        """Load the model. Raises RaglaError where it is not the one of ``identity``, or ragla another."""
        prepare()
        _check_alike(self._ragla)
        if self._device == "cpu":
            os.environ["OMP_NUM_THREADS"] = "1"  # there is a worker for each core; torch reads it once
        try:
            self._embedder = self._load(self._device)
        except RaglaError as error:
            raise type(error)(f"{platform.node()}: {error}", error.hint) from error
        if self._embedder.identity != self._identity:
            raise RaglaError(
                f"{platform.node()}: its {self._embedder.name} is not the embedder that is here",
                f"the same files on every machine: ragla models pull {self._embedder.name}",
            )

    def embed(self, texts: list[str], batch_size: int) -> Vectors:
        """Unit vectors, shape (len(texts), dimension)."""
        return self._embedder.encode_passages(texts, batch_size)


def _check_alike(wanted: tuple[str, ...]) -> None:
    if wanted != RAGLA:
        raise RaglaError(
            f"{platform.node()}: another ragla ({' '.join(RAGLA)}) than here ({' '.join(wanted)})",
            f"the same on every machine: pip install 'ragla[ray]=={wanted[0]}'",
        )


def cutting_for(
    embedder: Embedder, chunk_tokens: int, chunk_overlap: int, max_bytes: int, retry: bool
) -> Cutting:
    """What workers need to read and cut for an embedder."""
    return Cutting(
        embedder.name, embedder.max_tokens, embedder.overhead_tokens, embedder.tokenizer.to_str(),
        chunk_tokens, chunk_overlap, max_bytes, retry,
    )  # fmt: skip


def at(taken: Taken, read_ns: int) -> Taken:
    """The same, read at a time of another clock: that of the machine which later asks what has changed."""
    record: Any = dataclasses.replace(taken.record, read_ns=read_ns)
    return dataclasses.replace(taken, record=record)
