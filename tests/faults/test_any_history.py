"""Whatever happens to a folder and to the runs over it, the index ends as one made from scratch."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fault_children import Child
from fault_corpus import Documents, check_answers, stored_texts
from fault_jobs import Job, perform
from hashing_embedder import HashingEmbedder
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from index_state import check_clean, content
from python_faults import Calls, failing

from ragla.errors import RaglaError
from ragla.retrieve import Retriever
from tests.conftest import EXAMPLES

NAMES = st.sampled_from(
    [f"part{number % 2}/f{number}.{'md' if number % 3 else 'txt'}" for number in range(8)]
)


class History(RuleBasedStateMachine):
    """``stored``: what the last finished run found, by path, as ragla must hold it until the next."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="history"))
        self.index_dir = self.place / "index"
        self.documents = Documents(self.place / "docs", seed=41)
        self.stored: dict[str, str] = {}
        self.reader: Retriever | None = None

    def teardown(self) -> None:
        if self.reader is not None:
            self.reader.close()
        shutil.rmtree(self.place)

    @initialize()
    def index_something(self) -> None:
        self.documents.fill(3)
        self.run()

    @rule(name=NAMES, paragraphs=st.integers(1, 5))
    def add_or_change(self, name: str, paragraphs: int) -> None:
        self.documents.write(name, paragraphs)

    @precondition(lambda self: self.documents.here)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.documents.delete(self.one(data))

    @precondition(lambda self: self.documents.here)
    @rule(data=st.data(), name=NAMES)
    def rename(self, data: st.DataObject, name: str) -> None:
        self.documents.rename(self.one(data), name)

    @precondition(lambda self: self.documents.here)
    @rule(data=st.data(), seconds=st.sampled_from([-3600, 0, 3600]))
    def touch(self, data: st.DataObject, seconds: int) -> None:
        now = time.time() + seconds
        os.utime(self.documents.folder / self.one(data), (now, now))

    @precondition(lambda self: self.documents.here)
    @rule(data=st.data())
    def change_under_the_same_size_and_date(self, data: st.DataObject) -> None:
        self.documents.change_in_place(self.one(data))

    @rule(rebuild=st.booleans())
    def run_to_the_end(self, rebuild: bool) -> None:
        self.run(rebuild)

    @rule(call=st.integers(1, 130), rebuild=st.booleans())
    def run_that_fails(self, call: int, rebuild: bool) -> None:
        with suppress(RaglaError), failing(Calls(self.index_dir, call)):
            self.perform(rebuild)

    @rule(share=st.floats(0, 1), rebuild=st.booleans())
    def run_that_is_killed(self, share: float, rebuild: bool) -> None:
        Child(Job(self.documents.folder, self.index_dir, rebuild, 2)).kill_after(share * 0.15)

    @rule()
    def open_anew(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = Retriever.open(self.index_dir, HashingEmbedder())

    @invariant()
    def each_document_is_as_it_was_stored_or_as_it_is(self) -> None:
        if not (self.index_dir / "current").exists():
            return
        texts = stored_texts(self.index_dir)
        for path in self.stored.keys() | texts.keys():
            allowed = self.documents.since.get(path, set()) | {self.stored.get(path)}
            assert texts.get(path) in allowed, path

    @invariant()
    def an_open_reader_finds_what_was_once_there(self) -> None:
        if self.reader is not None:
            for item in self.reader.search("ferry harbour keel", 3):
                self.documents.check(item.passage)

    def one(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.documents.here))

    def perform(self, rebuild: bool) -> None:
        perform(Job(self.documents.folder, self.index_dir, rebuild, 2))

    def run(self, rebuild: bool = False) -> None:
        """A run to the end, and all that must hold after it."""
        self.perform(rebuild)
        self.stored = {
            name: (self.documents.folder / name).read_text(encoding="utf-8") for name in self.documents.here
        }
        self.documents.since.clear()
        assert stored_texts(self.index_dir) == self.stored
        check_clean(self.index_dir)
        check_answers(self.documents, self.index_dir)
        scratch = self.place / "scratch"
        perform(Job(self.documents.folder, scratch))
        assert content(self.index_dir) == content(scratch)
        shutil.rmtree(scratch)


@pytest.mark.usefixtures("children")
class TestHistory(History.TestCase):
    settings = settings(max_examples=max(1, int(8 * EXAMPLES)), stateful_step_count=25, deadline=None)
