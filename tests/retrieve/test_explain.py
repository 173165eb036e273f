from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import UsageError
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve.filters import Filters
from ragla.retrieve.why_not import why_not

Index = Callable[..., IndexReport]
QUESTION = "Which class of trains do I book?"


@pytest.fixture(params=["Flat", "HNSW8"])
def retriever(
    request: pytest.FixtureRequest, index: Index, folder: Path, tmp_path: Path, embedder: HashingEmbedder
) -> Iterator[Retriever]:
    """Three documents, one with a copy, one that has no text."""
    (folder / "copy.md").write_text((folder / "travel.md").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    index(settings=RetrieveSettings(faiss_index=request.param))
    opened = Retriever.open(tmp_path / "index", embedder)
    yield opened
    opened.close()


def test_every_part_of_a_score_is_there(retriever: Retriever) -> None:
    found = retriever.explain(QUESTION, 1)
    assert [scored.score for scored in found.kept] == [found.parts[0].score]
    assert len(found.parts) == len(found.decisions) == retriever.passage_count
    for part in found.parts:
        trust = found.evidence.trust
        assert part.score == pytest.approx(trust * part.dense + (1 - trust) * part.lexical)
    dense, lexical = found.ranks(found.kept[0].passage.id)
    assert dense is not None
    assert lexical is not None
    assert found.words["trains"] > 0


def test_a_copy_is_folded_and_named(retriever: Retriever) -> None:
    first = retriever.search(QUESTION, 1)[0]
    assert {first.passage.path, *(copy.path for copy in first.copies)} == {"travel.md", "copy.md"}


def test_filters_come_before_the_places(retriever: Retriever) -> None:
    only = Filters(("guides/",))
    assert [found.passage.path for found in retriever.search(QUESTION, 1, filters=only)] == [
        "guides/boats.txt"
    ]
    assert (
        retriever.search(QUESTION, 9, filters=Filters(types=("txt",)))[0].passage.path == "guides/boats.txt"
    )
    retriever.restrict(types=("txt",))
    assert [found.passage.path for found in retriever.search(QUESTION, 9)] == ["guides/boats.txt"]
    with pytest.raises(UsageError, match="no document of the index matches"):
        retriever.search(QUESTION, filters=Filters(("nowhere/",)))


def test_rankings_of_each_side(retriever: Retriever) -> None:
    ranked = retriever.rankings(retriever.explain("moored boats", 9))
    assert [passage.path for passage in ranked["lexical"]] == ["guides/boats.txt"]
    assert ranked["dense"][0].path == ranked["hybrid"][0].path == "guides/boats.txt"
    assert len(ranked["dense"]) == retriever.passage_count


def test_why_a_file_was_not_found(retriever: Retriever) -> None:
    stages = {
        name: why_not(retriever, name, "moored boats at the pier", 1, 0.2)
        for name in ("guides/boats.txt", "travel.md", "picture.png")
    }
    assert stages["guides/boats.txt"].stage == "kept"
    assert stages["guides/boats.txt"].hint is None
    assert stages["travel.md"].stage == "below the floor"
    assert "relevance_floor=" in str(stages["travel.md"].hint)
    assert stages["picture.png"].stage == "skipped"
    assert why_not(retriever, "travel.md", "moored boats at the pier", 1, -1.0).stage == "past the last place"


def test_why_not_of_a_copy(retriever: Retriever) -> None:
    kept = retriever.search(QUESTION, 1)[0]
    found = why_not(retriever, kept.copies[0].path, QUESTION, 1, -1.0)
    assert found.stage == "copy"
    assert kept.passage.path in found.said


def test_a_file_far_from_the_question(index: Index, tmp_path: Path, embedder: HashingEmbedder) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(130):
        (many / f"{number:03d}.txt").write_text(f"heron number{number} lake", encoding="utf-8")
    (many / "odd.txt").write_text("quartz vein", encoding="utf-8")
    index([many])
    opened = Retriever.open(tmp_path / "index", embedder)
    found = why_not(opened, "odd.txt", "heron lake", 4, -1.0)
    opened.close()
    assert found.stage == "not near"
    assert "no word of the question" in found.said


def test_files_the_index_does_not_know(retriever: Retriever, folder: Path) -> None:
    with pytest.raises(UsageError, match="not in the index") as caught:
        why_not(retriever, "travle.md", QUESTION, 1, 0.0)
    assert "travel.md" in str(caught.value.hint)
    assert why_not(retriever, str(folder / "travel.md"), QUESTION, 1, -1.0).path == "travel.md"
