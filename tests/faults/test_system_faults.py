"""The calls by which SQLite and Python change files fail, each in turn, or the process dies in them."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fault_children import Child, finished
from fault_corpus import Documents, check_answers, stored_texts
from fault_jobs import Job, SystemFault
from index_state import check_clean, content, is_one_line_with_a_command

# all calls in a long run; else all but writes, and some of these
EVERY = 1 if int(os.environ.get("RAGLA_FAULTS", "60")) >= 500 else 16
ONCE = SystemFault("fail once", errno=errno.EIO)
FULL = SystemFault("fail from", errno=errno.ENOSPC)

pytestmark = pytest.mark.usefixtures("system_faults")


@dataclass(frozen=True)
class Change:
    """An index ``before`` a change, its texts before (``old``) and behind it (``new``), and how it goes.

    ``ends``: the content when it has also been brought up to date, with the change or without.
    """

    documents: Documents
    before: Path
    job: Job
    old: dict[str, str]
    new: dict[str, str]
    ends: list[tuple[str, str]]
    calls: str

    def index_in(self, place: Path) -> Path:
        """A copy of the index as it was before."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.before, place)
        return place


@pytest.fixture(scope="module", params=["update", "rebuild", "first", "rollback", "remove"])
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
    job = Job(documents.folder, place / "after", verb, 2, documents.here[0])
    shutil.copytree(before, job.index_dir)
    outcome = finished(job, SystemFault("count"))
    assert outcome.report is not None
    old, new = stored_texts(before) if request.param != "first" else {}, stored_texts(place / "after")
    without = shutil.copytree(before, place / "without")
    for index_dir in (job.index_dir, without):
        finished(Job(documents.folder, index_dir))
    ends = [content(job.index_dir), content(without)]
    return Change(documents, before, job, old, new, ends, outcome.calls)


def chosen_calls(calls: str) -> list[int]:
    """Numbers, from 1, of all calls but writes, and of each ``EVERY``-th write; the last ones always."""
    rare = [at for at, kind in enumerate(calls, 1) if kind != "w"]
    writes = [at for at, kind in enumerate(calls, 1) if kind == "w"]
    return sorted({*rare, *writes[::EVERY], *writes[-3:]})


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
    assert content(index_dir) in change.ends
    check_clean(index_dir)


@pytest.mark.parametrize("fault", [ONCE, FULL], ids=["EIO", "ENOSPC"])
def test_a_call_that_fails_costs_a_line(change: Change, tmp_path: Path, fault: SystemFault) -> None:
    """Once, or, as a disk that stays full, from then on."""
    for call in chosen_calls(change.calls)[:: 2 if fault == FULL and EVERY > 1 else 1]:
        index_dir = change.index_in(tmp_path / "index")
        outcome = finished(replace(change.job, index_dir=index_dir), replace(fault, call=call))
        assert not outcome.trace, f"call {call}: {outcome.trace}"
        if outcome.report is None:
            assert is_one_line_with_a_command(outcome.error), f"call {call}: {outcome.error}"
        check_what_is_left(change, index_dir)


def test_a_process_that_dies_in_a_call_loses_nothing(change: Change, tmp_path: Path) -> None:
    """With half of what it wrote, or before any other call."""
    for call in chosen_calls(change.calls):
        index_dir = change.index_in(tmp_path / "index")
        job = replace(change.job, index_dir=index_dir)
        assert Child(job, SystemFault("torn", call)).outcome() is None
        check_what_is_left(change, index_dir)


def test_nothing_is_renamed_that_is_not_on_disk(change: Change) -> None:
    """A power cut must not leave a name without its bytes: the file is flushed before, its folder behind."""
    renames = [
        (change.calls[at - 1], change.calls[at + 1 :]) for at, kind in enumerate(change.calls) if kind == "r"
    ]
    assert renames
    for before, behind in renames:
        assert before == "s"
        assert behind.lstrip("u").startswith("s")
