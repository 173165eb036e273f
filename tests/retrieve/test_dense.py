from __future__ import annotations

import contextlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from ragla.retrieve.dense import Block, Blocks, DenseIndex, DenseRecord, is_recorded, write_dense
from ragla.retrieve.durable import write_durably

VECTORS = np.eye(4, dtype=np.float32)
IDS = np.array([7, 3, 9, 1], dtype=np.int64)


def blocks(ids: np.ndarray, vectors: np.ndarray, size: int = 7) -> Blocks:
    return lambda: ((ids[at : at + size], vectors[at : at + size]) for at in range(0, len(ids), size))


def built(ids: np.ndarray, vectors: np.ndarray, *made: str) -> DenseIndex:
    return DenseIndex.build(blocks(ids, vectors), len(ids), vectors.shape[1], *made)


def written(
    path: Path, ids: np.ndarray, vectors: np.ndarray, factory: str = "Flat", parameters: str = ""
) -> DenseRecord:
    return write_dense(path, blocks(ids, vectors), len(ids), vectors.shape[1], 5, factory, parameters)


@pytest.mark.parametrize("factory", ["Flat", "HNSW16", "IVF1,Flat"])
def test_finds_what_plain_numpy_finds(factory: str) -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = np.arange(100, 160)
    found = built(ids, vectors, factory).search(vectors[11], 3)
    assert [i for i, _ in found] == [int(ids[i]) for i in np.argsort(-(vectors @ vectors[11]))[:3]]
    assert found[0][1] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("factory", ["Flat", "HNSW8"])
def test_saves_and_loads_under_any_path(tmp_path: Path, factory: str) -> None:
    path = tmp_path / "索引.faiss"
    record = written(path, IDS, VECTORS, factory)
    assert (record.count, record.dimension, record.generation, record.factory) == (4, 4, 5, factory)
    loaded = DenseIndex.load(path, record)
    assert loaded is not None
    assert loaded.search(VECTORS[2], 1)[0][0] == 9
    assert is_recorded(path, record)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", [0, 1, 7, 20])
def test_a_flat_file_written_as_the_vectors_come_is_the_one_faiss_writes(tmp_path: Path, count: int) -> None:
    import faiss

    vectors = np.random.default_rng(1).normal(size=(count, 5)).astype(np.float32)
    ids = np.arange(count) * 3 + 1
    record = written(tmp_path / "v.faiss", ids, vectors)
    whole = faiss.IndexIDMap2(faiss.IndexFlatIP(5))
    if count:
        whole.add_with_ids(vectors, ids)
    assert (tmp_path / "v.faiss").read_bytes() == faiss.serialize_index(whole).tobytes()
    loaded = DenseIndex.load(tmp_path / "v.faiss", record)
    assert loaded is not None
    assert loaded.is_exact


def test_a_faiss_with_another_format_builds_a_flat_index_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import faiss

    honest = faiss.serialize_index
    monkeypatch.setattr(faiss, "serialize_index", lambda index: np.append(honest(index), np.uint8(7)))
    record = written(tmp_path / "v.faiss", IDS, VECTORS)
    loaded = DenseIndex.load(tmp_path / "v.faiss", record)
    assert loaded is not None
    assert loaded.search(VECTORS[1], 1) == [(3, 1.0)]


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_faiss_never_parses_a_file_that_is_not_the_recorded_one(
    tmp_path: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import faiss

    path = tmp_path / "v.faiss"
    record = written(path, IDS, VECTORS)
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + b"\x01" if damage is None else damage)
    monkeypatch.setattr(faiss, "read_index", lambda reader: pytest.fail("parsed before it was checked"))
    assert not is_recorded(path, record)
    assert DenseIndex.load(path, record) is None
    path.unlink()
    assert not is_recorded(path, record)
    assert DenseIndex.load(path, record) is None


def test_an_empty_index_finds_nothing() -> None:
    assert built(IDS[:0], VECTORS[:0]).search(VECTORS[0], 3) == []


@pytest.mark.parametrize("factory", ["Flat", "HNSW8"])
def test_a_full_disk_is_an_error_of_the_system_and_leaves_the_old_file(
    tmp_path: Path, factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.faiss"
    before = written(path, IDS, VECTORS)

    @contextlib.contextmanager
    def full(path: Path) -> Iterator[IO[bytes]]:
        with Path("/dev/full").open("wb", buffering=0) as file:
            yield file

    monkeypatch.setattr("ragla.retrieve.dense.replacing", full)
    with pytest.raises(OSError, match="No space"):
        written(path, IDS, VECTORS, factory)
    assert is_recorded(path, before)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_flat_file_is_written_in_far_less_memory_than_it_has_vectors(tmp_path: Path) -> None:
    import faiss  # not to be counted

    assert faiss.__version__
    block, count, dimension = 500, 20_000, 256
    vectors = np.ones((block, dimension), dtype=np.float32)

    def many() -> Iterator[Block]:
        for start in range(0, count, block):
            yield np.arange(start, start + block), vectors

    tracemalloc.start()
    try:
        write_dense(tmp_path / "v.faiss", many, count, dimension, 1, "Flat", "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "v.faiss").stat().st_size > 4 * dimension * count
    assert peak < 4 * dimension * count / 5


@pytest.mark.parametrize("parameters", ["", "nprobe=2"])
def test_a_sample_of_what_comes_in_blocks_trains_an_index(
    parameters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragla.retrieve.dense._LEAST_SAMPLE", 64)
    monkeypatch.setattr("ragla.retrieve.dense._POINTS_A_CENTROID", 4)
    vectors = np.random.default_rng(2).normal(size=(301, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = built(np.arange(301), vectors, "IVF16,Flat", parameters)
    assert index.count == 301
    assert index.search(vectors[300], 1)[0][0] == 300
