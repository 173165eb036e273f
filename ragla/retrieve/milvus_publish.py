"""An index of this machine brought to Milvus: what differs there is written, what is gone here is dropped.

The index of this machine stays the source: of it a collection can be made anew without reading or embedding
a document. Whatever interrupts a publication, the next one compares again and goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragla.config import RetrieveSettings
from ragla.errors import IndexUnusable
from ragla.retrieve import stored
from ragla.retrieve.chunk import Chunk
from ragla.retrieve.digests import row_digest, vector_digest
from ragla.retrieve.embed import Vectors
from ragla.retrieve.faults import damaged, database_errors
from ragla.retrieve.milvus_client import Target
from ragla.retrieve.milvus_collections import blocks
from ragla.retrieve.milvus_store import MilvusStore
from ragla.retrieve.milvus_words import WordCounts
from ragla.retrieve.passage_store import State, StoredFile
from ragla.retrieve.rows import FileRecord, IndexedFile
from ragla.retrieve.store import Store

BATCH_PASSAGES = 500
_BATCH_FILES = 200
_CHUNKS = """
SELECT start, "end", first_line, last_line, title, page, vector, vector_digest FROM chunks
WHERE document_id = ? ORDER BY start, "end", id
"""
_DOCUMENTS = """
SELECT files.id, absolute, documents.digest FROM files LEFT JOIN documents USING (id) ORDER BY absolute
"""
OnPassages = Callable[[int, int], None]
"""Is told how many passages were written, and how many there are to write."""


@dataclass(frozen=True)
class Published:
    """What a publication did: files written, files that were there as they are, files dropped; passages."""

    target: str
    written: int
    unchanged: int
    removed: int
    passages: int
    total_passages: int
    seconds: float


def publish(
    index_dir: Path,
    target: Target,
    settings: RetrieveSettings,
    on_passages: OnPassages = lambda done, of: None,
    *,
    rebuild: bool = False,
) -> Published:
    """Make the collection at ``target`` what the index in ``index_dir`` is. ``rebuild``: drop it first.

    Raises IndexUnusable for no index here, for a server that does not answer, and for a collection that was
    made of other folders or with another embedder; RaglaError where its disk is full.
    """
    started = time.monotonic()
    with (
        closing(Store.read(Path(index_dir))) as store,
        closing(MilvusStore(target, settings, writes=True)) as milvus,
        database_errors(store.database),
        store.transaction("DEFERRED"),
    ):
        state = State.of(store)
        is_new = milvus.prepare(int(state.fingerprint.get("dimension", 0)), anew=rebuild)
        there = {one.absolute: one for one in milvus.files()}
        _check_ours(milvus, state, {one.root for one in there.values()})
        return _bring(store, milvus, state, there, is_new, on_passages, started)


def _check_ours(milvus: MilvusStore, state: State, roots: set[str]) -> None:
    """Raise IndexUnusable where a collection holds the index of other folders."""
    if roots and not roots & set(state.roots):
        raise IndexUnusable(
            f"{milvus.place}: holds the index of {', '.join(sorted(roots)[:3])}",
            f"name another collection, or replace it: ragla index --to {milvus.place} --rebuild",
        )


def _bring(
    store: Store, milvus: MilvusStore, state: State, there: dict[str, StoredFile], is_new: bool,
    on_passages: OnPassages, started: float,
) -> Published:  # fmt: skip
    records, stamps, ids = store.files(), {}, {}
    made = json.dumps(state.fingerprint, sort_keys=True)
    for document_id, absolute, digest in store.connection.execute(_DOCUMENTS):
        record = records[absolute]
        content = record.root, record.path, record.sha256, record.status, record.reason
        stamps[absolute] = row_digest((*content, (digest or b"").hex(), made)).hex()
        ids[absolute] = int(document_id)
    gone = [absolute for absolute in there if absolute not in stamps]
    differing = [one for one in stamps if one not in there or there[one].stamp != stamps[one]]
    if gone or differing:
        milvus.begin()
    for some in blocks(gone, _BATCH_FILES):
        milvus.remove(some)
    skipped = [one for one in differing if records[one].status == "skipped"]
    for some in blocks(skipped, _BATCH_FILES):
        milvus.note_skipped([(records[one], stamps[one]) for one in some])
    indexed = [one for one in differing if records[one].status == "indexed"]
    counts = dict(store.connection.execute("SELECT document_id, count(*) FROM chunks GROUP BY document_id"))
    to_write, written = sum(counts.get(ids[one], 0) for one in indexed), 0
    for batch in _batches(store, [(ids[one], records[one]) for one in indexed]):
        milvus.write([(file, stamps[file.record.absolute]) for file in batch], are_new=is_new)
        written += sum(len(file.chunks) for file in batch)
        on_passages(written, to_write)
    total = store.passage_count()
    if milvus.passage_count() != total:  # what an interrupted run left of a file that is gone since
        milvus.sweep()
        if (there_are := milvus.passage_count()) != total:
            raise IndexUnusable(
                f"{milvus.place}: {there_are} passages are there, {total} are here",
                f"ragla index --to {milvus.place} --rebuild",
            )
    if differing or gone or not milvus.is_settled(state):
        milvus.settle(state, WordCounts.of(store))
    milvus.finish()
    return Published(
        milvus.place, len(differing), len(stamps) - len(differing), len(gone), written, total,
        time.monotonic() - started,
    )  # fmt: skip


def _batches(store: Store, wanted: Sequence[tuple[int, FileRecord]]) -> Iterator[list[IndexedFile]]:
    batch: list[IndexedFile] = []
    for document_id, record in wanted:
        batch.append(read_file(store, document_id, record))
        if len(batch) >= _BATCH_FILES or sum(len(file.chunks) for file in batch) >= BATCH_PASSAGES:
            yield batch
            batch = []
    if batch:
        yield batch


def read_file(store: Store, document_id: int, record: FileRecord) -> IndexedFile:
    """A file as it was indexed, its text and its vectors held against their digests."""
    chunks, vectors = [], []
    for *place, vector, digest in store.connection.execute(_CHUNKS, (document_id,)):
        if vector_digest(vector) != digest:
            raise damaged(store.database, "a vector has changed on disk")
        chunks.append(Chunk(*place))
        vectors.append(np.frombuffer(vector, dtype="<f4"))
    dimension = int(store.fingerprint().get("dimension", 0))
    made: Vectors = np.stack(vectors) if vectors else np.zeros((0, dimension), dtype=np.float32)
    return IndexedFile(record, stored.text(store, document_id), chunks, made.astype(np.float32))
