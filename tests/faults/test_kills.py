"""Killed at any instant, an index opens, is whole, answers, and is finished by the next run."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from fault_children import Child, finished
from fault_corpus import Documents, check_answers
from fault_jobs import Job
from index_state import check_clean, content

from ragla.retrieve import IndexReport

pytestmark = pytest.mark.usefixtures("children")

KILLS = int(os.environ.get("RAGLA_FAULTS", "60"))
ROUNDS = 6
VERBS = ["update", "update", "update", "rebuild", "rollback"]


class Round:
    """Kills one after the other; the documents change between the runs."""

    def __init__(self, place: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.documents = Documents(place / "docs", seed)
        self.documents.fill(14)
        self.index_dir, self.twin = place / "index", place / "twin"
        self.index_dir.mkdir()

    def kill_once(self, verb: str, share: float) -> bool:
        """Kill a run when ``share`` of the time it takes is over; whether it was still at work."""
        shutil.rmtree(self.twin, ignore_errors=True)
        shutil.copytree(self.index_dir, self.twin)
        unhurt = finished(Job(self.documents.folder, self.twin, verb))
        assert not unhurt.trace
        if unhurt.report is None:
            assert verb == "rollback", "only going back may be refused, where there is nothing to go back to"
        before = content(self.index_dir) if verb == "rollback" else None
        killed = Child(Job(self.documents.folder, self.index_dir, verb)).kill_after(unhurt.seconds * share)
        if (self.index_dir / "current").exists():
            check_clean(self.index_dir)
            check_answers(self.documents, self.index_dir)
        if verb == "rollback":
            assert content(self.index_dir) in (before, content(self.twin))
        elif self.chance.random() < 0.5:  # else the documents change before the run is finished
            assert finished(Job(self.documents.folder, self.index_dir)).report
            assert content(self.index_dir) == content(self.twin)
            check_clean(self.index_dir)
        return killed is None


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_kill_at_any_instant_loses_nothing(tmp_path: Path, seed: int) -> None:
    """Every round goes through the whole time a run takes, and through its last moments once more."""
    history = Round(tmp_path, seed)
    documents, index_dir = history.documents, history.index_dir
    kills = max(1, KILLS // ROUNDS)
    in_time = 0
    for number in range(kills):
        share = (number + history.chance.random()) / kills
        verb = history.chance.choice(VERBS) if number > 1 else "update"
        in_time += history.kill_once(verb, share if number % 3 else 0.85 + 0.15 * share)
        documents.change_some()
    assert finished(Job(documents.folder, index_dir)).report
    assert finished(Job(documents.folder, tmp_path / "scratch")).report
    assert content(index_dir) == content(tmp_path / "scratch")
    assert check_answers(documents, index_dir) == len(documents.here)
    assert in_time >= kills / 3, "most kills came too late to mean anything"


def test_an_interrupt_at_any_instant_ends_a_run_soon(tmp_path: Path) -> None:
    """Ctrl-C is heard within a batch, loses nothing that was stored, and the next run goes on."""
    documents = Documents(tmp_path / "docs", seed=50)
    documents.fill(18)
    unhurt = finished(Job(documents.folder, tmp_path / "scratch"))
    heard = 0
    for number in range(8):
        index_dir = tmp_path / f"index{number}"
        child = Child(Job(documents.folder, index_dir))
        outcome, seconds = child.interrupt_after(unhurt.seconds * (number + 0.5) / 8)
        assert outcome is not None
        if outcome.report is None:
            heard += 1
            assert outcome.trace.rstrip().endswith("KeyboardInterrupt")
            assert seconds < max(2.0, unhurt.seconds), "the interrupt was not heard"
        stored = check_answers(documents, index_dir) if (index_dir / "current").exists() else 0
        again = finished(Job(documents.folder, index_dir)).report
        assert isinstance(again, IndexReport)
        assert (again.unchanged, again.indexed) == (stored, len(documents.here) - stored)
        assert content(index_dir) == content(tmp_path / "scratch")
    assert heard >= 3
