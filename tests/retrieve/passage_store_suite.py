"""What every ``PassageStore`` does, wherever its passages are. A subclass of ``Conformance`` brings one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import IndexUnusable
from ragla.retrieve import Retriever, index_folders
from ragla.retrieve.dense import Block
from ragla.retrieve.filters import Filters
from ragla.retrieve.lexical import query_tokens, weights_of
from ragla.retrieve.local_passages import LocalPassages
from ragla.retrieve.passage import Passage
from ragla.retrieve.passage_store import PassageStore
from ragla.retrieve.rows import IndexedFile
from ragla.retrieve.store import Store

EMBEDDER = HashingEmbedder()
SETTINGS = RetrieveSettings(chunk_tokens=24)
QUESTIONS = [
    "Which class of trains do I book?",
    "Who books the train of an otter?",
    "差旅费报销要什么？",
    "费",
    "naïve Straße",
    "moored boats at the north pier",
    "nothing of this stands anywhere: tungsten",
    "!?",
    "number 17 and number 18",
]
DOCUMENTS = {
    "travel.md": "# Travel\n\n## Booking\n\nBook trains in second class. Who travels books the train.\n",
    "guides/boats.txt": "Boats are moored at the north pier.\n\n" + "The otter sleeps on the boat. " * 12,
    "差旅.md": "# 差旅\n\n差旅报销需要发票。差旅费由部门承担。\n\n## 发票\n\n发票要有税号。\n",
    "odd.txt": "Die Straße ist naß, na\u00efve 😀 𠀀 crossing. " * 8,
    "long.txt": "x" * 70_000 + " is one word\n",
    "numbers.md": "".join(f"# Part {n}\n\nThis is about number {n} of boats.\n\n" for n in range(60)),
}


def write_documents(root: Path) -> Path:
    """The documents, and one that cannot be read."""
    for name, text in DOCUMENTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "broken.pdf").write_bytes(b"%PDF-1.4 nothing follows")
    return root


def where(passages: list[Passage]) -> list[tuple[str, int, int]]:
    return [(one.path, one.start, one.end) for one in passages]


class Conformance:
    """Held against an index of the same documents: numpy for vectors, FTS5 for words."""

    @pytest.fixture(scope="class")
    @classmethod
    def truth_place(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """An index of the documents."""
        folder = tmp_path_factory.mktemp("truth")
        index_folders([write_documents(folder / "docs")], folder / "index", SETTINGS, EMBEDDER)
        return folder / "index"

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, truth_place: Path) -> Iterator[PassageStore]:
        """A store of the same documents that no test changes."""
        raise NotImplementedError

    @pytest.fixture
    def changing(self, truth_place: Path) -> Iterator[PassageStore]:
        """One that a test may change."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def truth(cls, truth_place: Path) -> Iterator[LocalPassages]:
        with closing(LocalPassages(Store.read(truth_place), EMBEDDER.dimension)) as opened:
            yield opened

    def ids_of(self, store: PassageStore, truth: PassageStore) -> dict[int, int]:
        """The store's id for each of the truth's."""
        vector = EMBEDDER.encode_query("boats")
        mine, theirs = (self.all_passages(one, vector) for one in (store, truth))
        by_place = {(one.path, one.start): key for key, one in mine.items()}
        return {key: by_place[one.path, one.start] for key, one in theirs.items()}

    def all_passages(self, store: PassageStore, vector: np.ndarray) -> dict[int, Passage]:
        with store.snapshot():
            labels = dict.fromkeys(store.state().roots, "")
            return store.passages(store.nearest(vector, store.passage_count()), labels)

    # --- reading --------------------------------------------------------------------------------------

    def test_the_whole_is_described(self, store: PassageStore, truth: LocalPassages) -> None:
        assert store.state() == truth.state()
        assert store.state().fingerprint["embedder"] == EMBEDDER.name
        assert store.passage_count() == truth.passage_count() > 60

    def test_files_are_known_those_that_were_skipped_too(
        self, store: PassageStore, truth: LocalPassages
    ) -> None:
        def told(one: PassageStore) -> list[object]:
            return [replace(file, id=0, stamp="") for file in one.files()]

        assert told(store) == told(truth)
        assert [file.path for file in store.files() if file.status == "skipped"] == ["broken.pdf"]
        known = store.documents()
        assert "broken.pdf" not in {file.path for file in known}
        assert {one.id: one for one in store.documents([known[0].id, 17])} == {known[0].id: known[0]}
        absolutes = [file.absolute for file in store.files()]
        assert store.digests([*absolutes, "/not/there.md"]) == {file.absolute: file.sha256 for file in known}
        assert store.digests([]) == {}

    def test_passages_come_back_to_the_character(self, store: PassageStore, truth: LocalPassages) -> None:
        vector = EMBEDDER.encode_query("boats")
        mine = self.all_passages(store, vector)
        theirs = self.all_passages(truth, vector)
        plain = {(one.path, one.start): replace(one, id=0, document_id=0) for one in theirs.values()}
        assert {(p.path, p.start): replace(p, id=0, document_id=0) for p in mine.values()} == plain
        texts = {one.document_id: store.text(one.document_id) for one in mine.values()}
        assert all(texts[one.document_id][one.start : one.end] == one.text for one in mine.values())
        assert DOCUMENTS["odd.txt"] in texts.values()

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_the_nearest_are_those_of_a_product_of_all(
        self, store: PassageStore, truth_place: Path, question: str
    ) -> None:
        vector = EMBEDDER.encode_query(question)
        with store.snapshot():
            found = store.nearest(vector, 10)
            cosines = store.cosines(vector, found)
        every = [float(one) for _, block in vectors(truth_place) for one in block @ vector]
        assert [cosines[key] for key in found] == pytest.approx(sorted(every)[:-11:-1], abs=1e-6)
        assert store.nearest(vector, 0) == []

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_words_weigh_and_match_as_in_fts5(
        self, store: PassageStore, truth: LocalPassages, question: str
    ) -> None:
        words, ids = query_tokens(question), self.ids_of(store, truth)
        assert store.frequencies(words) == truth.frequencies(words)
        with store.snapshot():
            best, theirs = store.best_matches(words, 10), truth.best_matches(words, 10)
            assert list(best.values()) == pytest.approx(list(theirs.values()), rel=1e-6)
            some = list(ids)[::3]
            expected = {ids[key]: score for key, score in truth.bm25(words, some).items()}
            assert store.bm25(words, [ids[key] for key in some]) == pytest.approx(expected, rel=1e-6)
            weights = weights_of(truth.passage_count(), truth.frequencies(words))
            covered = {ids[key]: share for key, share in truth.coverage(weights, some).items()}
            assert store.coverage(weights, [ids[key] for key in some]) == pytest.approx(covered)

    def test_passages_with_a_word_are_counted(self, store: PassageStore) -> None:
        """Whatever its form, and a single character as the beginning of any word."""
        assert store.frequencies(["tungsten", "税", "trains", "pier", "number"]) == {
            "tungsten": 0, "税": 1, "trains": 1, "pier": 1, "number": 60,
        }  # fmt: skip

    def test_documents_are_chosen_before_the_best_are_taken(self, store: PassageStore) -> None:
        boats = next(file for file in store.documents() if file.path == "guides/boats.txt")
        vector = EMBEDDER.encode_query("number 17")
        with store.snapshot():
            found = store.nearest(vector, 5, [boats.id])
            matched = store.best_matches(["boat"], 5, [boats.id])
            passages = store.passages([*found, *matched], {boats.root: ""})
        assert found
        assert matched
        assert {one.path for one in passages.values()} == {"guides/boats.txt"}
        assert store.nearest(vector, 5, []) == [] == list(store.best_matches(["boat"], 5, []))
        assert store.best_matches([], 5) == {}

    @pytest.mark.parametrize("question", QUESTIONS)
    @pytest.mark.parametrize("filters", [Filters(), Filters(("*.md",))])
    def test_a_search_finds_the_same_in_the_same_order(
        self, store: PassageStore, truth: LocalPassages, question: str, filters: Filters
    ) -> None:
        """Of passages that score the same, and past the last place, any may come first."""
        mine, theirs = (
            Retriever(one, EMBEDDER).explain(question, 5, filters=filters) for one in (store, truth)
        )
        assert (mine.evidence, mine.words) == (theirs.evidence, theirs.words)
        assert [one.score for one in mine.kept] == pytest.approx([one.score for one in theirs.kept])
        scores = [round(part.score, 6) for part in theirs.parts]
        told = [one for one in theirs.kept if scores.count(round(one.score, 6)) == 1]
        kept = {round(one.score, 6): one for one in mine.kept}
        for one in told:
            assert where([kept[round(one.score, 6)].passage]) == where([one.passage])

    def test_a_whole_store_has_no_problems(self, store: PassageStore) -> None:
        assert store.problems() == []

    # --- writing --------------------------------------------------------------------------------------

    def test_the_same_again_changes_nothing(self, changing: PassageStore, truth_place: Path) -> None:
        file = a_file(truth_place, "guides/boats.txt")
        before = changing.passage_count()
        changing.put([file])
        changing.put([file])
        assert changing.passage_count() == before
        assert changing.problems() == []

    def test_a_file_that_changed_takes_the_place_of_what_it_was(
        self, changing: PassageStore, truth_place: Path
    ) -> None:
        file = a_file(truth_place, "guides/boats.txt")
        text = "Herons fish."
        chunk = replace(file.chunks[0], start=0, end=len(text), last_line=1, first_line=1)
        changed = IndexedFile(
            replace(file.record, sha256="0" * 64), text, [chunk], EMBEDDER.encode_passages([text])
        )
        before = changing.passage_count()
        changing.put([changed])
        assert changing.passage_count() == before - len(file.chunks) + 1
        assert changing.problems() == []
        with changing.snapshot():
            found = changing.passages(
                changing.nearest(EMBEDDER.encode_query("herons fish"), 1), {file.record.root: ""}
            )
            assert [one.text for one in found.values()] == [text]
            assert list(changing.best_matches(["heron"], 5)) == list(found)
        document = next(one for one in changing.documents() if one.path == "guides/boats.txt")
        assert (changing.text(document.id), document.sha256) == (text, "0" * 64)

    def test_what_is_removed_is_gone(self, changing: PassageStore) -> None:
        boats = next(file for file in changing.documents() if file.path == "guides/boats.txt")
        before = changing.passage_count()
        changing.remove([boats.absolute, "/nowhere/at all.txt"])
        assert changing.passage_count() == before - boats.passages
        assert boats.path not in {file.path for file in changing.files()}
        assert changing.best_matches(["otter"], 5) == {}
        with pytest.raises(IndexUnusable, match="changed or removed"):
            changing.text(boats.id)
        assert changing.problems() == []


def vectors(place: Path) -> list[Block]:
    with closing(Store.read(place)) as store:
        return list(store.vector_blocks(EMBEDDER.dimension))


def a_file(place: Path, path: str) -> IndexedFile:
    """A file of the index as it was stored."""
    from ragla.retrieve.milvus_publish import read_file

    with closing(Store.read(place)) as store:
        query = "SELECT id, absolute FROM files WHERE path = ?"
        document_id, absolute = store.connection.execute(query, (path,)).fetchone()
        return read_file(store, document_id, store.files()[absolute])


def damage_a_row(database: Path) -> None:
    """Half of a text, as a disk might leave it."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE documents SET text = substr(text, 2)")
