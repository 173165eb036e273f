"""One run over the folders: what changed is read, embedded and stored; what is gone is dropped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ragla.config import RetrieveSettings
from ragla.retrieve.changes import gone, looks_as_known
from ragla.retrieve.dense import Block, is_recorded, write_dense
from ragla.retrieve.devices import device_names
from ragla.retrieve.embed import Embedder, Vectors, Watchable
from ragla.retrieve.events import (
    BatchStored,
    EmbedderLoading,
    EmbeddingBegun,
    FileRead,
    FileRemoved,
    FilesFound,
    FileSkipped,
    OnEvent,
    PassagesEmbedded,
    VectorsBegun,
)
from ragla.retrieve.faults import file_errors
from ragla.retrieve.pace import Pace, note_pace
from ragla.retrieve.reliability import measure
from ragla.retrieve.rows import FileRecord, IndexedFile
from ragla.retrieve.selection import Selection
from ragla.retrieve.store import Store
from ragla.retrieve.taking import Request, Source, Taken, Taking, document_of, embedded_texts
from ragla.retrieve.walk import FoundFile, Unreached, walk

# A batch is stored when it holds this many passages or files: what a kill can cost.
BATCH_PASSAGES = 256
_BATCH_FILES = 200


def is_batch(passages: int, files: int, most: int) -> bool:
    """Whether so many passages of so many files are embedded and stored together; ``most``: passages."""
    return passages >= most or files >= _BATCH_FILES


@dataclass
class _Pending:
    """Files read and cut, waiting to be embedded and stored."""

    most: int
    files: list[Taken] = field(default_factory=list)
    skipped: list[FileRecord] = field(default_factory=list)
    touched: list[FileRecord] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.files) + len(self.skipped) + len(self.touched)

    @property
    def is_full(self) -> bool:
        passages = sum(len(taken.chunks) for taken in self.files)
        return is_batch(passages, self.count, self.most)


class Update:
    """One run over the folders; its counts are the report."""

    def __init__(
        self, store: Store, embedder: Embedder, settings: RetrieveSettings, on_event: OnEvent, source: Source,
        selections: Mapping[Path, Selection] | None = None, retry: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._on_event = on_event
        self._selections = selections
        self._retry = retry
        self._source = source
        self._known = store.files()
        # each device has several batches to sort and to do before the next files are read
        devices = max(1, len(device_names(settings.device)))
        self._batch_passages = max(BATCH_PASSAGES, 4 * settings.batch_size) * devices
        self._pending = _Pending(self._batch_passages)
        self.embedded = 0
        self.indexed = self.unchanged = self.removed = 0
        self.skipped: list[tuple[str, str]] = []
        self.remarks: list[tuple[str, str]] = []
        if isinstance(embedder, Watchable):
            embedder.watch(lambda: on_event(EmbedderLoading(embedder.name)), self._count_embedded)

    def run(self, folders: list[Path], index_dir: Path) -> None:
        """Drop what is gone, then read, embed and store what is new or changed, batch by batch."""
        found, unreached = self._walk(folders, index_dir)
        self._drop_gone(folders, found, unreached)
        to_read = [file for file in found if not self._is_as_known(file)]
        self._on_event(FilesFound(len(found), len(to_read)))
        started = time.perf_counter()
        requests = (Request(file, self._known.get(str(file.absolute))) for file in to_read)
        with closing(self._source.take(requests)) as takes:
            for taken in takes:
                self._accept(taken)
                if self._pending.is_full:
                    self._flush()
        self._flush()
        if isinstance(self._source, Taking):  # of this machine alone
            note_pace(self._store, Pace(self.embedded, time.perf_counter() - started))
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

    def _accept(self, taken: Taken) -> None:
        """Note what came of a file; what cannot be read is said and the run goes on."""
        record = taken.record
        known = self._known.get(record.absolute)
        match taken.outcome:
            case "unread" | "vanished":
                # Its old passages stay: an unreachable share must not empty the index.
                self._skip(record.absolute, record.reason or "")
                if known is None and taken.outcome == "unread":
                    self._pending.skipped.append(record)
            case "refused":
                self._give_up(record, record.reason or "")
            case "same":
                assert known is not None
                self._pending.touched.append(record)
                self._count_known(known)
            case "cut":
                if record.reason:
                    self.remarks.append((record.absolute, record.reason))
                self._pending.files.append(taken)
                self._on_event(FileRead(record.absolute, len(taken.chunks)))
                if taken.vectors is not None:
                    self._count_embedded(len(taken.vectors))

    def _give_up(self, record: FileRecord, reason: str) -> None:
        known = self._known.get(record.absolute)
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
        indexed = [
            IndexedFile(taken.record, document_of(taken).text, taken.chunks, part)
            for taken, part in zip(pending.files, self._vectors(pending.files), strict=True)
        ]
        self._store.put(indexed, pending.skipped, pending.touched)
        self.indexed += len(indexed)
        self._on_event(BatchStored(len(indexed)))

    def _vectors(self, files: Sequence[Taken]) -> list[Vectors]:
        """Those of each file: embedded now, together, where the source has not done it."""
        bare = [taken for taken in files if taken.vectors is None]
        embedded = _split(self._embed(bare), bare) if bare else iter(())
        return [next(embedded) if taken.vectors is None else taken.vectors for taken in files]

    def _embed(self, files: Sequence[Taken]) -> Vectors:
        texts = [text for taken in files for text in embedded_texts(self._embedder, taken)]
        if texts:
            self._on_event(EmbeddingBegun())
        parts = [np.zeros((0, self._embedder.dimension), dtype=np.float32)]
        # Sorted by length within a part, which the embedder does, and short enough to show progress.
        for start in range(0, len(texts), self._batch_passages):
            part, before = texts[start : start + self._batch_passages], self.embedded
            parts.append(self._embedder.encode_passages(part, self._settings.batch_size))
            if self.embedded == before:  # nobody counted while it was done
                self._count_embedded(len(part))
        return np.concatenate(parts)

    def _count_embedded(self, passages: int) -> None:
        self.embedded += passages
        self._on_event(PassagesEmbedded(self.embedded))

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
        self._on_event(VectorsBegun())
        dimension = self._embedder.dimension

        def blocks() -> Iterator[Block]:
            return store.vector_blocks(dimension)

        reliability = measure(store.connection, blocks, self._embedder, store.reliability())
        with file_errors(store.dense_path):
            record = write_dense(store.dense_path, blocks, store.passage_count(), dimension, *wanted)
        store.record_dense(record, reliability)


def _split(vectors: Vectors, files: Sequence[Taken]) -> Iterator[Vectors]:
    start = 0
    for taken in files:
        yield vectors[start : start + len(taken.chunks)]
        start += len(taken.chunks)
