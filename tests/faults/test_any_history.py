"""Whatever happens to a folder and to the runs over it, the index ends as one made from scratch."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from fault_children import Child
from fault_corpus import Documents, check_answers, stored_texts
from fault_jobs import Job, perform
from hashing_embedder import HashingEmbedder
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from index_state import check_clean, content
from python_faults import Calls, failing

from ragla.errors import RaglaError
from ragla.retrieve import Retriever
from ragla.retrieve.remove import take_back

NAMES = st.sampled_from(
    [f"part{number % 2}/f{number}.{'md' if number % 3 else 'txt'}" for number in range(8)]
)
VERBS = st.sampled_from(["update", "rebuild"])


class History(RuleBasedStateMachine):
    """``stored``: what the last finished run left, by path, as ragla must hold it until the next.

    ``before``: what was stored before the run that changed it last; None where a run since did not finish,
    or none changed anything.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="history"))
        self.index_dir = self.place / "index"
        self.documents = Documents(self.place / "docs", seed=41)
        self.stored: dict[str, str] = {}
        self.before: dict[str, str] | None = None
        self.is_interrupted = False
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

    @rule(verb=VERBS)
    def run_to_the_end(self, verb: str) -> None:
        self.run(verb)

    @precondition(lambda self: self.before is not None)
    @rule()
    def go_back(self) -> None:
        perform(self.job("rollback"))
        assert self.before is not None
        self.stored, self.before = self.before, self.stored
        assert stored_texts(self.index_dir) == self.stored
        check_clean(self.index_dir)
        for name in self.stored.keys() | set(self.documents.here):
            self.documents.since.setdefault(name, set()).add(self.documents.texts.get(name))

    @precondition(lambda self: self.documents.here)
    @rule(data=st.data())
    def remove_and_take_back(self, data: st.DataObject) -> None:
        self.run()
        name = self.one(data)
        perform(replace(self.job("remove"), name=name))
        without = {path: text for path, text in self.stored.items() if path != name}
        assert stored_texts(self.index_dir) == without
        perform(self.job("update"))
        assert stored_texts(self.index_dir) == without
        check_clean(self.index_dir)
        take_back(self.index_dir, [str(self.documents.folder / name)], keep_previous=True)
        self.run()
        self.before = without

    @rule(call=st.integers(1, 130), verb=VERBS)
    def run_that_fails(self, call: int, verb: str) -> None:
        self.before, self.is_interrupted = None, True
        with suppress(RaglaError), failing(Calls(self.index_dir, call)):
            perform(self.job(verb))

    @rule(share=st.floats(0, 1), verb=VERBS)
    def run_that_is_killed(self, share: float, verb: str) -> None:
        self.before, self.is_interrupted = None, True
        Child(self.job(verb)).kill_after(share * 0.15)

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

    def job(self, verb: str) -> Job:
        return Job(self.documents.folder, self.index_dir, verb, 2)

    def run(self, verb: str = "update") -> None:
        """A run to the end, and all that must hold after it."""
        perform(self.job(verb))
        old, self.stored = self.stored, self.documents.texts
        if old and (verb == "rebuild" or old != self.stored):
            self.before = None if self.is_interrupted else old
        self.is_interrupted = False
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
    # A step takes a tenth of a second: to shrink what fails would take longer than all other tests.
    settings = settings(
        max_examples=max(1, settings.default.max_examples * 8 // 100),
        stateful_step_count=25,
        phases=[Phase.explicit, Phase.generate],
    )
