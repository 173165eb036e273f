#!/usr/bin/env python3
"""What moving an index from FAISS to Milvus takes, and what is found there: seconds, bytes, recall@10.

    python scripts/milvus_figures.py --passages 100000
    python scripts/milvus_figures.py --passages 100000 --indexes FLAT HNSW --uri milvus://127.0.0.1:19530/figures

Without ``--uri`` a milvus-lite server is started on this machine for the while. Vectors are made up: points
around 1,000 centres, 384 numbers each; words are drawn by a power law. Recall is held against FAISS' flat
index, what words find against SQLite's FTS5; of passages that score the same, any will do. JSON to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ragla.config import RetrieveSettings
from ragla.retrieve.chunk import Chunk
from ragla.retrieve.dense import write_dense
from ragla.retrieve.layout import next_database, point_to
from ragla.retrieve.local_passages import LocalPassages
from ragla.retrieve.milvus_client import target_of
from ragla.retrieve.milvus_publish import publish
from ragla.retrieve.milvus_store import MilvusStore
from ragla.retrieve.rows import FileRecord, IndexedFile
from ragla.retrieve.store import Store

DIMENSION = 384
PASSAGES_A_FILE = 20
WORDS = 90
QUERIES = 200
Figures = dict[str, Any]


def vectors_of(count: int, seed: int) -> np.ndarray:
    """Unit vectors around centres, (count, DIMENSION)."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(1000, DIMENSION))
    made = centres[random.integers(0, len(centres), count)] + random.normal(size=(count, DIMENSION))
    unit: np.ndarray = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    return unit


def words_of(random: np.random.Generator, count: int) -> list[str]:
    """Words as texts have them: few are everywhere, most are rare."""
    return [f"word{number % 50_000}" for number in random.zipf(1.25, size=count)]


def make_index(place: Path, passages: int) -> None:
    """An index of so many passages, without reading or embedding anything."""
    random = np.random.default_rng(0)
    place.mkdir(parents=True)
    store = Store.write(next_database(place), {"embedder": "made up", "dimension": str(DIMENSION)})
    point_to(store.database)
    with closing(store):
        for start in range(0, passages, 50 * PASSAGES_A_FILE):
            files = []
            for first in range(start, min(passages, start + 50 * PASSAGES_A_FILE), PASSAGES_A_FILE):
                count = min(PASSAGES_A_FILE, passages - first)
                texts = [" ".join(words_of(random, WORDS)) for _ in range(count)]
                files.append(file_of(first, texts, vectors_of(count, first)))
            store.put(files)
        blocks = lambda: store.vector_blocks(DIMENSION)  # noqa: E731
        record = write_dense(
            store.dense_path, blocks, store.passage_count(), DIMENSION, store.generation(), "Flat", ""
        )
        store.record_dense(record, "")


def file_of(number: int, texts: list[str], vectors: np.ndarray) -> IndexedFile:
    """A file of passages that stand one after the other."""
    chunks, start = [], 0
    for at, text in enumerate(texts, 1):
        chunks.append(Chunk(start, start + len(text), at, at, f"Part {at}", None))
        start += len(text) + 1
    path = f"{number:09d}.txt"
    record = FileRecord(
        f"/figures/{path}", "/figures", path, start, 0, 0, 0, 0, f"{number:064x}", "indexed", None
    )
    return IndexedFile(record, "\n".join(texts), chunks, vectors)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A milvus-lite server on a free port; its URI."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("milvus-lite")), "server", "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--data-dir", str(folder)], stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"milvus://127.0.0.1:{port}/figures"
    finally:
        process.terminate()
        process.wait()


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def timed(look: Callable[[Any], Any], queries: list[Any]) -> tuple[list[Any], float]:
    """What each query finds, and the median of milliseconds."""
    found, taken = [], []
    for query in queries:
        started = time.perf_counter()
        found.append(look(query))
        taken.append(1000 * (time.perf_counter() - started))
    return found, statistics.median(taken)


def found_of(scores: dict[int, float], best: dict[int, float]) -> float:
    """The share of places whose passage is as good as what should be there: of equals, any will do."""
    least = min(best.values(), default=0.0) - 1e-5
    return sum(score >= least for score in scores.values()) / max(1, len(best))


def measure(place: Path, uri: str, index: str, folder: Path | None) -> Figures:
    """Move the index there, compare what is found."""
    settings = RetrieveSettings.model_validate({"milvus_index": index, "milvus_timeout_s": 600})
    target = target_of(uri)
    published = publish(place, target, settings, rebuild=True)
    vectors = list(vectors_of(QUERIES, 77_777_777))
    random = np.random.default_rng(5)
    asked = [[f"word{number}" for number in random.integers(20, 5000, 4)] for _ in range(40)]
    with (
        closing(LocalPassages(Store.read(place), DIMENSION)) as local,
        closing(MilvusStore(target, settings)) as milvus,
    ):
        milvus.state()
        truth, faiss_ms = timed(lambda one: local.nearest(one, 10), vectors)
        milvus.nearest(vectors[0], 10)
        near, milvus_ms = timed(lambda one: milvus.nearest(one, 10), vectors)
        lexical, fts_ms = timed(lambda one: local.best_matches(one, 10), asked)
        milvus.best_matches(asked[0], 10)
        words, bm25_ms = timed(lambda one: milvus.best_matches(one, 10), asked)
        recalls = [
            found_of(milvus.cosines(one, mine), local.cosines(one, flat))
            for one, mine, flat in zip(vectors, near, truth, strict=True)
        ]
        return {
            "index": index,
            "passages": published.total_passages,
            "seconds": published.seconds,
            "passages_a_second": published.passages / published.seconds,
            "bytes": None if folder is None else size_of(folder),
            "recall_at_10": statistics.mean(recalls),
            "lexical_at_10": statistics.mean(map(found_of, words, lexical)),
            "faiss_ms": faiss_ms, "milvus_ms": milvus_ms, "fts5_ms": fts_ms, "bm25_ms": bm25_ms,
        }  # fmt: skip


def main() -> int:
    """Make, move, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--indexes", nargs="+", default=["FLAT"], choices=["FLAT", "HNSW", "IVF_FLAT"])
    parser.add_argument("--uri", help="a server that runs already; its collection is replaced")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ragla-figures-") as name:
        place = Path(name) / "index"
        started = time.perf_counter()
        make_index(place, flags.passages)
        made = time.perf_counter() - started
        sizes = {path.suffix: path.stat().st_size for path in place.iterdir() if path.is_file()}
        found = []
        for index in flags.indexes:
            folder = None if flags.uri else Path(name) / f"milvus-{index}"
            if folder is None:
                found.append(measure(place, flags.uri, index, None))
            else:
                with server(folder) as uri:
                    found.append(measure(place, uri, index, folder))
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    document = {
        "made_seconds": made, "sqlite_bytes": sizes[".sqlite"], "faiss_bytes": sizes[".faiss"],
        "cores": os.cpu_count(), "load": os.getloadavg()[0], "runs": found,
    }  # fmt: skip
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
