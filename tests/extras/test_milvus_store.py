"""Milvus as a store of passages, as milvus-lite has it: a file, and a server in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from passage_store_suite import Conformance

from ragla.retrieve.milvus_client import target_of
from ragla.retrieve.milvus_publish import publish
from ragla.retrieve.milvus_store import MilvusStore
from ragla.retrieve.passage_store import PassageStore

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from milvus_helpers import Server, at


def published(place: Path, uri: str) -> MilvusStore:
    target, settings = target_of(uri), at(uri)
    publish(place, target, settings)
    store = MilvusStore(target, settings)
    store.state()
    return store


class TestFile(Conformance):
    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, truth_place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PassageStore]:
        with closing(published(truth_place, f"milvus:{tmp_path_factory.mktemp('milvus') / 'a.db'}")) as store:
            yield store

    @pytest.fixture
    def changing(self, truth_place: Path, tmp_path: Path) -> Iterator[PassageStore]:
        with closing(published(truth_place, f"milvus:{tmp_path / 'b.db'}")) as store:
            yield store


class TestServer(Conformance):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        made = Server(tmp_path_factory.mktemp("server") / "data").start()
        yield made
        made.kill()

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, truth_place: Path, server: Server) -> Iterator[PassageStore]:
        with closing(published(truth_place, server.uri("reading"))) as store:
            yield store

    @pytest.fixture
    def changing(self, truth_place: Path, server: Server) -> Iterator[PassageStore]:
        uri = server.uri("changing")
        publish(truth_place, target_of(uri), at(uri), rebuild=True)
        with closing(MilvusStore(target_of(uri), at(uri))) as store:
            store.state()
            yield store
