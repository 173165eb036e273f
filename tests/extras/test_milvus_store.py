"""Milvus as a store of passages, as milvus-lite has it: a file, and a server in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from passage_store_suite import EMBEDDER, SETTINGS, Conformance, write_documents

from ragla.retrieve import Retriever, index_folders
from ragla.retrieve.filters import Filters
from ragla.retrieve.milvus_client import target_of
from ragla.retrieve.milvus_publish import publish
from ragla.retrieve.milvus_store import MilvusStore
from ragla.retrieve.passage_store import PassageStore
from ragla.serve.library import OpenIndex

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


@pytest.mark.parametrize("index", ["HNSW", "IVF_FLAT", "AUTOINDEX"])
def test_other_indexes_of_vectors_find_what_is_nearest(index: str, tmp_path: Path) -> None:
    docs = write_documents(tmp_path / "docs")
    index_folders([docs], tmp_path / "index", SETTINGS, EMBEDDER)
    uri = f"milvus:{tmp_path / 'a.db'}"
    publish(tmp_path / "index", target_of(uri), at(uri, milvus_index=index))
    with closing(Retriever.on_milvus(at(uri), EMBEDDER)) as retriever:
        assert retriever.search("boats at the north pier", 1)[0].passage.path == "guides/boats.txt"
        assert retriever.search("number 17", 1, filters=Filters(("*.md",)))[0].passage.text.count("17")


def test_a_reader_of_a_server_sees_what_was_brought_since(tmp_path: Path) -> None:
    docs = write_documents(tmp_path / "docs")
    index_folders([docs], tmp_path / "index", SETTINGS, EMBEDDER)
    uri = f"milvus:{tmp_path / 'a.db'}"
    publish(tmp_path / "index", target_of(uri), at(uri))
    reader = OpenIndex(tmp_path / "none", Retriever.on_milvus(at(uri), EMBEDDER))
    with reader.reader() as opened:
        assert "heron" not in opened.search("herons", 1, floor=-1.0)[0].passage.text.lower()
    (docs / "new.md").write_text("Herons fish at night.\n", encoding="utf-8")
    index_folders([docs], tmp_path / "index", SETTINGS, EMBEDDER)
    publish(tmp_path / "index", target_of(uri), at(uri))
    with reader.reader() as opened, closing(opened):
        assert opened.search("herons", 1)[0].passage.text == "Herons fish at night."
