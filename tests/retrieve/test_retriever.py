from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.errors import IndexUnusable
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve.retriever import root_labels
from ragla.retrieve.store import Store

Index = Callable[..., IndexReport]


@pytest.fixture
def retriever(index: Index, tmp_path: Path, embedder: HashingEmbedder) -> Iterator[Retriever]:
    index()
    opened = Retriever.open(tmp_path / "index", embedder)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("Which class of trains do I book?", "travel.md"),
        ("差旅费报销要什么？", "差旅.md"),
        ("BOATS", "guides/boats.txt"),
    ],
)
def test_the_passage_a_question_is_about_comes_first(retriever: Retriever, question: str, path: str) -> None:
    best = retriever.search(question, 1)[0].passage
    assert best.path == path
    assert retriever.document_text(best.document_id)[best.start : best.end] == best.text
    lines = Path(best.absolute).read_text(encoding="utf-8").split("\n")
    assert best.text.startswith(lines[best.first_line - 1])
    assert best.text.endswith(lines[best.last_line - 1])


def test_characters_beyond_the_basic_plane_do_not_shift_offsets(
    index: Index, folder: Path, tmp_path: Path, embedder: HashingEmbedder
) -> None:
    (folder / "emoji.txt").write_text("😀𠀀 é " * 10 + "\n\nzebra 😀 crossing.\n" * 30, encoding="utf-8")
    index()
    opened = Retriever.open(tmp_path / "index", embedder)
    for item in opened.search("zebra crossing", 5):
        passage = item.passage
        assert opened.document_text(passage.document_id)[passage.start : passage.end] == passage.text
    opened.close()


def test_a_floor_leaves_nothing_for_an_unrelated_question(retriever: Retriever) -> None:
    assert retriever.search("What is the boiling point of tungsten?", 4, floor=0.3) == []
    assert retriever.search("钨的沸点", 4, floor=0.3) == []
    assert retriever.search("moored boats at the north pier", 4, floor=0.3)


@pytest.mark.parametrize("question", ["", " ", '"', "AND OR NOT", "a* (b", "\x00", "?" * 5000])
def test_no_question_is_an_error(retriever: Retriever, question: str) -> None:
    assert len(retriever.search(question, 3)) <= 3


def test_passage_count_and_fingerprint(retriever: Retriever) -> None:
    assert retriever.passage_count == 3
    assert retriever.fingerprint["embedder"] == "fake"


def test_an_open_retriever_sees_what_is_indexed_later(
    retriever: Retriever, index: Index, folder: Path
) -> None:
    gone = retriever.search("boats pier", 1)[0].passage
    (folder / "guides" / "boats.txt").unlink()
    (folder / "new.txt").write_text("A zebra.", encoding="utf-8")
    index()
    assert retriever.search("zebra", 1)[0].passage.path == "new.txt"
    assert not [item for item in retriever.search("boats pier", 9) if item.lexical > 0]
    with pytest.raises(IndexUnusable):
        retriever.document_text(gone.document_id)


@pytest.mark.parametrize("damage", [None, b"", b"not faiss at all"])
def test_a_lost_faiss_file_is_made_again_without_embedding(
    index: Index, tmp_path: Path, embedder: HashingEmbedder, damage: bytes | None
) -> None:
    index()
    path = next((tmp_path / "index").glob("*.faiss"))
    good = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    embedder.texts.clear()
    opened = Retriever.open(tmp_path / "index", embedder)
    assert opened.search("moored boats pier", 1)[0].passage.path == "guides/boats.txt"
    opened.close()
    index()
    assert path.read_bytes() == good
    assert embedder.texts == []


def test_a_damaged_vector_is_not_searched(index: Index, tmp_path: Path, embedder: HashingEmbedder) -> None:
    index()
    store = Store.read(tmp_path / "index")
    store.connection.execute("PRAGMA query_only = OFF")
    store.connection.execute("UPDATE chunks SET vector = x'00' WHERE id = 1")
    store.connection.execute("DELETE FROM meta WHERE key = 'dense'")
    store.close()
    with pytest.raises(IndexUnusable, match="vector"):
        Retriever.open(tmp_path / "index", embedder)


def test_no_index(tmp_path: Path, embedder: HashingEmbedder) -> None:
    with pytest.raises(IndexUnusable, match="no index here") as caught:
        Retriever.open(tmp_path, embedder)
    assert caught.value.hint == "ragla index FOLDER"
    assert list(tmp_path.iterdir()) == []


def test_another_schema_is_refused(index: Index, tmp_path: Path, embedder: HashingEmbedder) -> None:
    index()
    store = Store.read(tmp_path / "index")
    store.connection.execute("PRAGMA query_only = OFF")
    store.connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    store.close()
    with pytest.raises(IndexUnusable, match="schema 999"):
        Retriever.open(tmp_path / "index", embedder)


def test_threads_take_turns(retriever: Retriever) -> None:
    results: list[str] = []

    def ask() -> None:
        results.extend(retriever.search("boats pier", 1)[0].passage.path for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["guides/boats.txt"] * 20


def test_labels_tell_roots_apart() -> None:
    assert root_labels(["/a/docs"]) == {"/a/docs": ""}
    assert root_labels(["/a/docs", "/b/notes"]) == {"/a/docs": "docs/", "/b/notes": "notes/"}
    assert root_labels(["/a/docs", "/b/docs"]) == {"/a/docs": "a/docs/", "/b/docs": "b/docs/"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, ragla.retrieve; "
        "print([m for m in ('torch', 'faiss', 'sentence_transformers', 'pypdf') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
