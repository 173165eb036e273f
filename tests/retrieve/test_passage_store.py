"""The index of this machine as a store of passages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from passage_store_suite import EMBEDDER, Conformance, damage_a_row

from ragla.errors import IndexUnusable
from ragla.retrieve.layout import current_database
from ragla.retrieve.local_passages import LocalPassages
from ragla.retrieve.passage_store import PassageStore
from ragla.retrieve.store import Store


def opened(place: Path) -> LocalPassages:
    database = current_database(place)
    assert database is not None
    return LocalPassages(Store.write(database, {}), EMBEDDER.dimension)


class TestFaiss(Conformance):
    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, truth_place: Path) -> Iterator[PassageStore]:
        with closing(opened(truth_place)) as store:
            yield store

    @pytest.fixture
    def changing(self, truth_place: Path, tmp_path: Path) -> Iterator[PassageStore]:
        shutil.copytree(truth_place, tmp_path / "copy")
        with closing(opened(tmp_path / "copy")) as store:
            yield store

    def test_damage_is_a_problem_and_never_shown(self, truth_place: Path, tmp_path: Path) -> None:
        shutil.copytree(truth_place, tmp_path / "copy")
        database = current_database(tmp_path / "copy")
        assert database is not None
        damage_a_row(database)
        with closing(opened(tmp_path / "copy")) as store:
            assert store.problems()
            ids = store.nearest(EMBEDDER.encode_query("boats"), 5)
            with pytest.raises(IndexUnusable, match="changed on disk"):
                store.passages(ids, dict.fromkeys(store.state().roots, ""))
