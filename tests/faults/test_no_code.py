"""Nothing in an index is code: no pickle is written, and none that lies there is read."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path

import pytest
from fault_corpus import Documents, check_answers
from fault_jobs import Job, perform
from hashing_embedder import HashingEmbedder

from ragla.errors import IndexUnusable
from ragla.retrieve import Retriever


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.mark,))


def is_pickle(raw: bytes) -> bool:
    try:
        return bool(list(pickletools.genops(raw)))
    except ValueError:
        return False


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    made = Documents(tmp_path / "docs", seed=60)
    made.fill(5)
    return made


def test_no_file_of_an_index_is_a_pickle(tmp_path: Path, documents: Documents) -> None:
    perform(Job(documents.folder, tmp_path / "index"))
    written = [path for path in (tmp_path / "index").iterdir() if path.stat().st_size]
    assert len(written) >= 4
    assert [path.name for path in written if is_pickle(path.read_bytes())] == []
    assert is_pickle(pickle.dumps(documents.texts))


@pytest.mark.parametrize("name", ["vectors-1.faiss", "passages-1.sqlite", "current"])
def test_a_pickle_in_place_of_a_file_is_not_read(tmp_path: Path, documents: Documents, name: str) -> None:
    index_dir, mark = tmp_path / "index", tmp_path / "mark"
    perform(Job(documents.folder, index_dir))
    (index_dir / name).write_bytes(pickle.dumps(Trap(mark)))
    if name == "vectors-1.faiss":
        assert check_answers(documents, index_dir) == 5
    else:
        with pytest.raises(IndexUnusable):
            Retriever.open(index_dir, HashingEmbedder())
    assert not mark.exists()
    pickle.loads((index_dir / name).read_bytes())
    assert mark.exists()  # it was a trap indeed
