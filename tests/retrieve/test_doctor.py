"""What is found wrong with an index, and that a whole one is found whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragla.retrieve import IndexReport
from ragla.retrieve import update as update_module
from ragla.retrieve.check import check_index, content_hash

Index = Callable[..., IndexReport]


def test_a_whole_index_has_no_problem(index: Index, tmp_path: Path) -> None:
    index()
    assert check_index(tmp_path / "index") == []


def test_no_index_is_a_problem_with_its_command(tmp_path: Path) -> None:
    (problem,) = check_index(tmp_path)
    assert problem.mend == f"ragla index FOLDER --index {tmp_path}"


def test_the_content_hash_is_that_of_the_content_alone(
    index: Index, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    made = content_hash(tmp_path / "index")
    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)
    travel = folder / "travel.md"
    text = travel.read_text(encoding="utf-8")
    other = tmp_path / "other"
    travel.write_text("# Nothing\n", encoding="utf-8")
    index(index_dir=other)
    assert content_hash(other) != made
    travel.write_text(text, encoding="utf-8")
    index(index_dir=other)
    assert content_hash(other) == made
