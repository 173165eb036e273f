from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ragla.errors import UsageError
from ragla.retrieve.dense import DenseIndex
from ragla.retrieve.durable import write_durably

VECTORS = np.eye(4, dtype=np.float32)
IDS = np.array([7, 3, 9, 1], dtype=np.int64)


@pytest.mark.parametrize("factory", ["Flat", "HNSW16", "IVF1,Flat"])
def test_finds_what_plain_numpy_finds(factory: str) -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = np.arange(100, 160)
    found = DenseIndex.build(ids, vectors, 16, factory).search(vectors[11], 3)
    assert [i for i, _ in found] == [int(ids[i]) for i in np.argsort(-(vectors @ vectors[11]))[:3]]
    assert found[0][1] == pytest.approx(1, abs=1e-5)


def test_saves_and_loads_under_any_path(tmp_path: Path) -> None:
    path = tmp_path / "索引.faiss"
    record = DenseIndex.build(IDS, VECTORS, 4, "Flat").save(path, 5, "Flat")
    assert (record.count, record.dimension, record.generation) == (4, 4, 5)
    loaded = DenseIndex.load(path, record)
    assert loaded is not None
    assert loaded.search(VECTORS[2], 1)[0][0] == 9


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_faiss_never_parses_a_file_that_is_not_the_recorded_one(
    tmp_path: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import faiss

    path = tmp_path / "v.faiss"
    record = DenseIndex.build(IDS, VECTORS, 4, "Flat").save(path, 1, "Flat")
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + b"\x01" if damage is None else damage)
    monkeypatch.setattr(faiss, "deserialize_index", lambda raw: pytest.fail("parsed before it was checked"))
    assert DenseIndex.load(path, record) is None
    path.unlink()
    assert DenseIndex.load(path, record) is None


def test_an_empty_index_finds_nothing() -> None:
    empty = DenseIndex.build(IDS[:0], VECTORS[:0], 4, "Flat")
    assert empty.search(VECTORS[0], 3) == []


@pytest.mark.parametrize("factory", ["Nonsense", "IVF1000,Flat"])
def test_a_factory_that_does_not_work_is_named(factory: str) -> None:
    with pytest.raises(UsageError, match=factory) as caught:
        DenseIndex.build(IDS, VECTORS, 4, factory)
    assert "Flat" in str(caught.value.hint)


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
