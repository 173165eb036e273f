"""Which content a document was indexed with: what earlier answers are held against."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.errors import IndexUnusable
from ragla.retrieve import IndexReport, Retriever, indexed_digests

Index = Callable[..., IndexReport]


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def test_digests_are_those_of_the_content_that_was_indexed(
    index: Index, folder: Path, tmp_path: Path
) -> None:
    travel = folder / "travel.md"
    (folder / "empty.md").write_text("")
    asked = [str(travel), str(folder / "empty.md"), str(folder / "gone.md")]
    index()
    before = digest(travel)
    assert indexed_digests(tmp_path / "index", asked) == {str(travel): before}
    travel.write_text("# Travel\n\nBook boats.\n")
    assert indexed_digests(tmp_path / "index", asked) == {str(travel): before}
    index()
    assert (
        indexed_digests(tmp_path / "index", asked) == {str(travel): digest(travel)} != {str(travel): before}
    )
    travel.unlink()
    index()
    assert indexed_digests(tmp_path / "index", asked) == {}


def test_without_an_index_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(IndexUnusable):
        indexed_digests(tmp_path, ["a"])


def test_a_document_that_was_changed_since_it_was_found_is_missing(
    index: Index, folder: Path, tmp_path: Path, embedder: HashingEmbedder
) -> None:
    index()
    retriever = Retriever.open(tmp_path / "index", embedder)
    found = {hit.passage.absolute: hit.passage.document_id for hit in retriever.search("boats trains", 9)}
    travel, boats = str(folder / "travel.md"), str(folder / "guides" / "boats.txt")
    assert retriever.documents([found[travel], found[boats]]) == [
        (travel, digest(Path(travel))),
        (boats, digest(Path(boats))),
    ]
    Path(travel).write_text("# Travel\n\nBook boats.\n")
    index()
    assert retriever.documents([found[travel], found[boats]]) == [(boats, digest(Path(boats)))]
    retriever.close()
