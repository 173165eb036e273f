"""One run over the folders: what changed is read, embedded and stored; what is gone is dropped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ragla.config import RetrieveSettings
from ragla.retrieve.changes import file_bytes, gone, looks_as_known, unreadable
from ragla.retrieve.chunk import Chunk, Chunker, embedded_text
from ragla.retrieve.dense import Block, is_recorded, write_dense
from ragla.retrieve.devices import device_names
from ragla.retrieve.embed import Embedder, Vectors
from ragla.retrieve.events import (
    BatchStored,
    FileRead,
    FileRemoved,
    FilesFound,
    FileSkipped,
    OnEvent,
    PassagesEmbedded,
)
from ragla.retrieve.faults import file_errors
from ragla.retrieve.read import Document, NotIndexable, read_document
from ragla.retrieve.reliability import measure
from ragla.retrieve.rows import FileRecord, IndexedFile
from ragla.retrieve.selection import Selection
from ragla.retrieve.store import Store
from ragla.retrieve.walk import FoundFile, Unreached, walk

# A batch is stored when it holds this many passages or files: what a kill can cost.
BATCH_PASSAGES = 256
_BATCH_FILES = 200


@dataclass
class _Pending:
    """Files read and cut, waiting to be embedded and stored."""

    most: int
    files: list[tuple[FileRecord, Document, list[Chunk]]] = field(default_factory=list)
    skipped: list[FileRecord] = field(default_factory=list)
    touched: list[FileRecord] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.files) + len(self.skipped) + len(self.touched)

    @property
    def is_full(self) -> bool:
        passages = sum(len(chunks) for _, _, chunks in self.files)
        return passages >= self.most or self.count >= _BATCH_FILES


class Update:
    """One run over the folders; its counts are the report."""

    def __init__(
        self, store: Store, chunker: Chunker, embedder: Embedder,
        settings: RetrieveSettings, on_event: OnEvent, max_bytes: int,
        selections: Mapping[Path, Selection] | None = None, retry: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self._chunker = chunker
        self._embedder = embedder
        self._settings = settings
        self._on_event = on_event
        self._max_bytes = max_bytes
        self._selections = selections
        self._retry = retry
        self._known = store.files()
        # each device has several batches to sort and to do before the next files are read
        devices = max(1, len(device_names(settings.device)))
        self._batch_passages = max(BATCH_PASSAGES, 4 * settings.batch_size) * devices
        self._pending = _Pending(self._batch_passages)
        self.embedded = 0
        self.indexed = self.unchanged = self.removed = 0
        self.skipped: list[tuple[str, str]] = []
        self.remarks: list[tuple[str, str]] = []

    def run(self, folders: list[Path], index_dir: Path) -> None:
        """Drop what is gone, then read, embed and store what is new or changed, batch by batch."""
        found, unreached = self._walk(folders, index_dir)
        self._drop_gone(folders, found, unreached)
        to_read = [file for file in found if not self._is_as_known(file)]
        self._on_event(FilesFound(len(found), len(to_read)))
        for file in to_read:
            self._take(file)
            if self._pending.is_full:
                self._flush()
        self._flush()
        self._write_dense()

    def _walk(self, folders: list[Path], index_dir: Path) -> tuple[list[FoundFile], list[Unreached]]:
        found: list[FoundFile] = []
        unreached: list[Unreached] = []
        for item in walk(folders, index_dir, self._selections):
            if isinstance(item, FoundFile):
                found.append(item)
            else:
                unreached.append(item)
                self._skip(str(item.absolute), item.reason)
        return found, unreached

    def _drop_gone(self, folders: list[Path], found: list[FoundFile], unreached: list[Unreached]) -> None:
        """Forget files that are no longer there."""
        absent = gone(self._known, folders, found, unreached)
        if not absent:
            return
        self._store.remove(absent)
        self.removed = len(absent)
        for absolute in absent:
            self._on_event(FileRemoved(absolute))

    def _is_as_known(self, file: FoundFile) -> bool:
        """Count a file that looks as it did when it was read: as unchanged, or as skipped as before."""
        known = self._known.get(str(file.absolute))
        if known is None or not looks_as_known(file, known, self._retry):
            return False
        self._count_known(known)
        return True

    def _count_known(self, known: FileRecord) -> None:
        if known.status == "indexed":
            self.unchanged += 1
        else:
            self._skip(known.absolute, known.reason or "")

    def _take(self, file: FoundFile) -> None:
        """Read a file and cut it; what cannot be read is noted and the run goes on."""
        record = _record(file)
        known = self._known.get(record.absolute)
        try:
            raw = file_bytes(file, self._max_bytes)
        except OSError as error:
            # Its old passages stay: an unreachable share must not empty the index.
            reason = unreadable(error)
            self._skip(record.absolute, reason)
            if known is None and not isinstance(error, FileNotFoundError):
                self._pending.skipped.append(replace(record, status="skipped", reason=reason))
            return
        except NotIndexable as refused:
            self._give_up(record, str(refused))
            return
        record = replace(record, sha256=hashlib.sha256(raw).hexdigest())
        if known is not None and known.sha256 == record.sha256:
            record = replace(record, root=known.root, path=known.path)
            if known.status == "indexed" or not self._retry:
                record = replace(record, status=known.status, reason=known.reason)
                self._pending.touched.append(record)
                self._count_known(known)
                return
        self._cut(record, raw)

    def _cut(self, record: FileRecord, raw: bytes) -> None:
        try:
            document = read_document(record.path, raw)
            chunks = self._chunker.chunks(document)
        except NotIndexable as reason:
            self._give_up(record, str(reason))
            return
        except Exception as error:  # parsers meet hostile files; none may end the run
            self._give_up(record, f"cannot be parsed ({type(error).__name__})")
            return
        if document.remark:
            self.remarks.append((record.absolute, document.remark))
        self._pending.files.append((replace(record, reason=document.remark), document, chunks))
        self._on_event(FileRead(record.absolute, len(chunks)))

    def _give_up(self, record: FileRecord, reason: str) -> None:
        known = self._known.get(record.absolute)
        record = replace(record, status="skipped", reason=reason)
        if known is not None and (known.status, known.reason) == ("skipped", reason):
            self._pending.touched.append(record)
        else:
            self._pending.skipped.append(record)
        self._skip(record.absolute, reason)

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append((path, reason))
        self._on_event(FileSkipped(path, reason))

    def _flush(self) -> None:
        """Embed and store what is pending, in one transaction."""
        pending, self._pending = self._pending, _Pending(self._batch_passages)
        if not pending.count:
            return
        vectors = self._embed(pending)
        indexed = [
            IndexedFile(record, document.text, chunks, part)
            for (record, document, chunks), part in zip(pending.files, _split(vectors, pending), strict=True)
        ]
        self._store.put(indexed, pending.skipped, pending.touched)
        self.indexed += len(indexed)
        self._on_event(BatchStored(len(indexed)))

    def _embed(self, pending: _Pending) -> Vectors:
        texts = [
            embedded_text(self._embedder, chunk.title, document.text[chunk.start : chunk.end])
            for _, document, chunks in pending.files
            for chunk in chunks
        ]
        parts = [np.zeros((0, self._embedder.dimension), dtype=np.float32)]
        # Sorted by length within a part, which the embedder does, and short enough to show progress.
        for start in range(0, len(texts), self._batch_passages):
            part = texts[start : start + self._batch_passages]
            parts.append(self._embedder.encode_passages(part, self._settings.batch_size))
            self.embedded += len(parts[-1])
            self._on_event(PassagesEmbedded(self.embedded))
        return np.concatenate(parts)

    def _write_dense(self) -> None:
        """Write the FAISS file anew when the passages changed since the last one."""
        store, settings = self._store, self._settings
        wanted = store.generation(), settings.faiss_index, settings.faiss_search
        record = store.dense_record()
        if (
            record is not None
            and (record.generation, record.factory, record.parameters) == wanted
            and store.is_measured()
            and is_recorded(store.dense_path, record)
        ):
            return
        dimension = self._embedder.dimension

        def blocks() -> Iterator[Block]:
            return store.vector_blocks(dimension)

        reliability = measure(store.connection, blocks, self._embedder, store.reliability())
        with file_errors(store.dense_path):
            record = write_dense(store.dense_path, blocks, store.passage_count(), dimension, *wanted)
        store.record_dense(record, reliability)


def _record(file: FoundFile) -> FileRecord:
    return FileRecord(
        str(file.absolute), str(file.root), file.path, file.size, file.mtime_ns, file.ctime_ns, file.inode,
        time.time_ns(), None, "indexed", None,
    )  # fmt: skip


def _split(vectors: Vectors, pending: _Pending) -> Iterator[Vectors]:
    start = 0
    for _, _, chunks in pending.files:
        yield vectors[start : start + len(chunks)]
        start += len(chunks)
