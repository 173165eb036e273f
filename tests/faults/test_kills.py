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

pytestmark = pytest.mark.usefixtures("children")

KILLS = int(os.environ.get("RAGLA_FAULTS", "60"))
ROUNDS = 6


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_kill_at_any_instant_loses_nothing(tmp_path: Path, seed: int) -> None:
    """Every round goes through the whole time a run takes; its documents change between runs."""
    chance = random.Random(seed)
    documents = Documents(tmp_path / "docs", seed)
    documents.fill(18)
    index_dir, twin = tmp_path / "index", tmp_path / "twin"
    index_dir.mkdir()
    kills = max(1, KILLS // ROUNDS)
    in_time = 0
    for number in range(kills):
        rebuild = number > 1 and chance.random() < 0.3
        shutil.copytree(index_dir, twin)
        unhurt = finished(Job(documents.folder, twin, rebuild))
        assert unhurt.report is not None
        # the instants cover the run evenly, its last moments twice
        share = (number + chance.random()) / kills
        moment = unhurt.seconds * (share if number % 3 else 0.85 + 0.15 * share)
        in_time += Child(Job(documents.folder, index_dir, rebuild)).kill_after(moment) is None
        if (index_dir / "current").exists():
            check_clean(index_dir)
            check_answers(documents, index_dir)
        if chance.random() < 0.5:  # else the documents change once more before the run is finished
            assert finished(Job(documents.folder, index_dir)).report is not None
            assert content(index_dir) == content(twin)
            check_clean(index_dir)
        documents.change_some()
        shutil.rmtree(twin)
    assert finished(Job(documents.folder, index_dir)).report is not None
    assert finished(Job(documents.folder, tmp_path / "scratch")).report is not None
    assert content(index_dir) == content(tmp_path / "scratch")
    assert check_answers(documents, index_dir) == len(documents.here)
    assert in_time >= kills / 2, "most kills came too late to mean anything"
