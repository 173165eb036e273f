"""The calls by which SQLite and Python change files fail, each in turn, or the process dies in them."""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_children import Child, finished
from fault_corpus import Documents, check_answers, stored_texts
from fault_jobs import Job, SystemFault
from index_state import check_clean, content, is_one_line_with_a_command

pytestmark = pytest.mark.usefixtures("system_faults")


@dataclass(frozen=True)
class Change:
    """An index ``before`` a change, its texts before (``old``) and behind it (``new``), and how it goes.

    ``after``: the content when it has also been brought up to date.
    """

    documents: Documents
    before: Path
    verb: str
    old: dict[str, str]
    new: dict[str, str]
    after: tuple[str, str]
    calls: str

    def index_in(self, place: Path) -> Path:
        """A copy of the index as it was before."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.before, place)
        return place


@pytest.fixture(scope="module", params=["update", "rebuild", "first", "rollback"])
def change(
    request: pytest.FixtureRequest, children: None, tmp_path_factory: pytest.TempPathFactory
) -> Change:
    place = tmp_path_factory.mktemp(request.param)
    documents = Documents(place / "docs", seed=5)
    documents.fill(5)
    before = place / "before"
    before.mkdir()
    if request.param != "first":
        finished(Job(documents.folder, before))
        documents.change_some()
    if request.param == "rollback":
        finished(Job(documents.folder, before))
        documents.change_some()
    verb = "update" if request.param == "first" else request.param
    shutil.copytree(before, place / "after")
    outcome = finished(Job(documents.folder, place / "after", verb, 2), SystemFault("count"))
    assert outcome.report is not None
    old, new = stored_texts(before) if request.param != "first" else {}, stored_texts(place / "after")
    finished(Job(documents.folder, place / "after"))
    return Change(documents, before, verb, old, new, content(place / "after"), outcome.calls)


def chosen_calls(calls: str, every: int) -> list[int]:
    """Numbers, from 1, of all calls but writes, and of each ``every``-th write; the last ones always."""
    rare = [at for at, kind in enumerate(calls, 1) if kind != "w"]
    writes = [at for at, kind in enumerate(calls, 1) if kind == "w"]
    return sorted({*rare, *writes[::every], *writes[-3:]})


def check_what_is_left(change: Change, index_dir: Path) -> None:
    """What was there is there still or newer; a run without faults ends as if nothing had been."""
    documents, old, new = change.documents, change.old, change.new
    if (index_dir / "current").exists():
        texts = stored_texts(index_dir)
        check_answers(documents, index_dir)
        for path in texts.keys() | old.keys():
            assert texts.get(path) in (old.get(path), new.get(path)), path
    else:
        assert not old, "the index was lost"
    job = Job(documents.folder, index_dir, batch_files=2)
    assert finished(job).report is not None
    assert content(index_dir) == change.after
    check_clean(index_dir)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_call_that_fails_costs_a_line(change: Change, tmp_path: Path, number: int) -> None:
    """Once, or, as a disk that stays full, from then on."""
    for call in chosen_calls(change.calls, 6):
        index_dir = change.index_in(tmp_path / "index")
        action = "fail from" if number == errno.ENOSPC else "fail once"
        outcome = finished(
            Job(change.documents.folder, index_dir, change.verb, 2), SystemFault(action, call, number)
        )
        assert not outcome.trace, f"call {call}: {outcome.trace}"
        if outcome.report is None:
            assert is_one_line_with_a_command(outcome.error), f"call {call}: {outcome.error}"
        check_what_is_left(change, index_dir)


@pytest.mark.parametrize("action", ["kill", "torn"])
def test_a_process_that_dies_in_a_call_loses_nothing(change: Change, tmp_path: Path, action: str) -> None:
    """Before the call, or with half of what it wrote."""
    for call in chosen_calls(change.calls, 6):
        index_dir = change.index_in(tmp_path / "index")
        job = Job(change.documents.folder, index_dir, change.verb, 2)
        assert Child(job, SystemFault(action, call)).outcome() is None
        check_what_is_left(change, index_dir)
