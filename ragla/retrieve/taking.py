"""One file, read and cut, wherever that is done; no index is touched and nobody is told."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from ragla.retrieve.changes import file_bytes, unreadable
from ragla.retrieve.chunk import Chunk, Chunker, embedded_text
from ragla.retrieve.embed import Embedder, Vectors
from ragla.retrieve.read import Document, NotIndexable, read_document
from ragla.retrieve.rows import FileRecord
from ragla.retrieve.walk import FoundFile


@dataclass(frozen=True)
class Request:
    """A file to be read, and what the index knows of it."""

    file: FoundFile
    known: FileRecord | None


@dataclass(frozen=True)
class Content:
    """The bytes of a file, and its record, which was made before they were read."""

    record: FileRecord
    raw: bytes


@dataclass(frozen=True)
class Taken:
    """What came of a file.

    ``cut``: its text and chunks; their vectors (len(chunks), dimension) where they were embedded already.
    ``same``: its content is what is indexed of it. ``refused``: there is no text in it. ``unread``: it could
    not be read; ``vanished``: not even found. The record's reason says why, or what is amiss with the text.
    """

    outcome: Literal["cut", "same", "refused", "unread", "vanished"]
    record: FileRecord
    document: Document | None = None
    chunks: Sequence[Chunk] = ()
    vectors: Vectors | None = None


class Source(Protocol):
    """Whoever reads and cuts files for a run, and may embed them."""

    def take(self, requests: Iterable[Request]) -> Generator[Taken, None, None]:
        """What came of each file, in order."""
        ...


@dataclass(frozen=True)
class Taking:
    """How files are read and cut: at most ``max_bytes`` each; ``retry``: known ones of no text, too."""

    chunker: Chunker
    max_bytes: int
    retry: bool

    def take(self, requests: Iterable[Request]) -> Generator[Taken, None, None]:
        """One after the other, in this process."""
        yield from map(self.one, requests)

    def one(self, request: Request) -> Taken:
        """Read a file and cut it; whatever is wrong with it is in the result."""
        got = self.content(request)
        return got if isinstance(got, Taken) else self.of_content(request, got)

    def content(self, request: Request) -> Content | Taken:
        """The bytes of a file, or what came of it where they cannot be had."""
        record = _record(request.file)
        try:
            return Content(record, file_bytes(request.file, self.max_bytes))
        except FileNotFoundError as error:
            return Taken("vanished", replace(record, status="skipped", reason=unreadable(error)))
        except OSError as error:
            return Taken("unread", replace(record, status="skipped", reason=unreadable(error)))
        except NotIndexable as refused:
            return _refused(record, str(refused))

    def of_content(self, request: Request, content: Content) -> Taken:
        """The same of a file whose bytes were read already."""
        known, raw = request.known, content.raw
        record = replace(content.record, sha256=hashlib.sha256(raw).hexdigest())
        if known is not None and known.sha256 == record.sha256:
            record = replace(record, root=known.root, path=known.path)
            if known.status == "indexed" or not self.retry:
                return Taken("same", replace(record, status=known.status, reason=known.reason))
        return self._cut(record, raw)

    def _cut(self, record: FileRecord, raw: bytes) -> Taken:
        try:
            document = read_document(record.path, raw)
            chunks = self.chunker.chunks(document)
        except NotIndexable as reason:
            return _refused(record, str(reason))
        except Exception as error:  # parsers meet hostile files; none may end the run
            return _refused(record, f"cannot be parsed ({type(error).__name__})")
        return Taken("cut", replace(record, reason=document.remark), document, chunks)


def _refused(record: FileRecord, reason: str) -> Taken:
    return Taken("refused", replace(record, status="skipped", reason=reason))


def _record(file: FoundFile) -> FileRecord:
    return FileRecord(
        str(file.absolute), str(file.root), file.path, file.size, file.mtime_ns, file.ctime_ns, file.inode,
        time.time_ns(), None, "indexed", None,
    )  # fmt: skip


def document_of(taken: Taken) -> Document:
    """The document of a file that was cut."""
    assert taken.document is not None, taken.record.absolute
    return taken.document


def embedded_texts(embedder: Embedder, taken: Taken) -> list[str]:
    """What is embedded for each chunk of a file."""
    text = document_of(taken).text if taken.chunks else ""
    return [embedded_text(embedder, chunk.title, text[chunk.start : chunk.end]) for chunk in taken.chunks]


def unreadable_by_worker(request: Request) -> Taken:
    """What came of a file with which the process that read it ended, each time it was tried."""
    return _refused(_record(request.file), "reading it ended the process that did: memory may have run out")
