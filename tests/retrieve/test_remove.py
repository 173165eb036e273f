"""What is taken out of an index stays out, until it is taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.errors import IndexUnusable, UsageError
from ragla.retrieve import IndexReport
from ragla.retrieve.check import check_index, checks, content_hash
from ragla.retrieve.generations import rollback
from ragla.retrieve.preview import preview
from ragla.retrieve.remove import kept_out, remove, take_back
from ragla.retrieve.selection import Selection
from ragla.retrieve.store import Store

Index = Callable[..., IndexReport]
Found = Callable[[str], list[str]]


pytestmark = pytest.mark.usefixtures("no_tick")


def test_a_file_stays_out_of_every_later_run(index: Index, folder: Path, place: Path, found: Found) -> None:
    index()
    boats = folder / "guides" / "boats.txt"
    made = remove(place, [str(boats)], keep_previous=True)
    assert (made.files, made.folders, made.total_passages) == ((str(boats),), (), 2)
    assert boats.is_file()
    assert not found("boats pier")
    assert found("trains class")
    assert check_index(place) == []
    for more in ({}, {"selection": Selection()}, {"rebuild": True}, {"selection": Selection(hidden=True)}):
        report = index(**more)
        assert not found("boats pier")
        assert any("ragla remove --list" in reason for _, reason in report.remarks)
    assert kept_out(place) == [str(boats)]
    assert preview([folder], place, {}, lambda event: None).to_read == []


def test_taken_back_it_is_read_again(index: Index, folder: Path, place: Path, found: Found) -> None:
    index()
    whole = content_hash(place)
    remove(place, [str(folder / "guides")], keep_previous=True)
    assert take_back(place, [str(folder / "guides")], keep_previous=True) == [str(folder / "guides")]
    assert kept_out(place) == []
    assert index().indexed == 1
    assert found("boats pier")
    assert content_hash(place) == whole


@pytest.mark.parametrize("name", ["guides", "guides/", "./guides", "guides/boats.txt"])
def test_names_are_also_those_that_a_search_shows(
    index: Index, folder: Path, place: Path, name: str, found: Found
) -> None:
    index()
    remove(place, [name], keep_previous=True)
    (folder / "guides" / "new.txt").write_text("A zebra.", encoding="utf-8")
    index()
    assert not found("boats pier")
    assert bool(found("zebra")) == name.endswith(".txt")


def test_names_are_paths_from_here(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch, found: Found
) -> None:
    index()
    monkeypatch.chdir(folder / "guides")
    remove(place, ["boats.txt", "../差旅.md"], keep_previous=True)
    assert len(kept_out(place)) == 2
    assert take_back(place, ["boats.txt"], keep_previous=True) == [str(folder / "guides" / "boats.txt")]


def test_a_pattern_is_only_a_name(index: Index, folder: Path, place: Path, found: Found) -> None:
    (folder / "[a-z]*.md").write_text("A zebra.", encoding="utf-8")
    index()
    remove(place, [str(folder / "[a-z]*.md")], keep_previous=True)
    index(selection=Selection())
    assert not found("zebra")
    assert found("trains class")


def test_an_indexed_folder_is_forgotten(index: Index, folder: Path, tmp_path: Path, place: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "zebra.txt").write_text("A zebra.", encoding="utf-8")
    index([folder, other], selection=Selection(exclude=("guides/",)))
    made = remove(place, [str(folder)], keep_previous=True)
    assert (len(made.files), made.folders, made.total_passages) == (2, (str(folder),), 1)
    assert kept_out(place) == []
    assert index([folder]).indexed == 3  # named again it is a folder like any other


def test_a_folder_in_two_indexed_ones_stays_out_of_both(
    index: Index, folder: Path, place: Path, found: Found
) -> None:
    index([folder / "guides", folder])
    remove(place, [str(folder / "guides" / "boats.txt")], keep_previous=True)
    assert len(kept_out(place)) == 1
    index([folder, folder / "guides"])
    assert not found("boats pier")
    made = remove(place, [str(folder)], keep_previous=True)
    assert (made.folders, made.total_passages) == ((str(folder),), 0)


def test_nothing_is_changed_for_a_name_that_means_nothing(index: Index, folder: Path, place: Path) -> None:
    index()
    before = content_hash(place)
    with pytest.raises(UsageError, match="not in the index") as caught:
        remove(place, [str(folder / "travel.md"), "guides/boat.txt"], keep_previous=True)
    assert caught.value.hint == "did you mean guides/boats.txt?"
    assert content_hash(place) == before
    with pytest.raises(UsageError, match="not removed"):
        take_back(place, ["travel.md"], keep_previous=True)
    with pytest.raises(IndexUnusable):
        remove(place.with_name("none"), ["x"], keep_previous=True)


@pytest.mark.parametrize("name", ["", " ", ".", "..", "/"])
def test_a_slip_of_the_finger_removes_nothing(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    index()
    before = content_hash(place)
    monkeypatch.chdir(folder.parent)
    with pytest.raises(UsageError):
        remove(place, [name], keep_previous=True)
    assert content_hash(place) == before


def test_a_removal_can_be_undone_as_a_run(index: Index, folder: Path, place: Path) -> None:
    index()
    whole = content_hash(place)
    remove(place, [str(folder / "travel.md")], keep_previous=True)
    rollback(place)
    assert content_hash(place) == whole
    assert kept_out(place) == []
    assert index().indexed == 0


def test_scores_are_those_of_an_index_made_without(
    index: Index, folder: Path, place: Path, embedder: HashingEmbedder
) -> None:
    for number in range(6):
        text = f"Zebra {number} runs in the savannah. It is striped, number {number}, and quick.\n"
        (folder / f"{number}.txt").write_text(text * 2, encoding="utf-8")
    index()
    remove(place, [str(folder / "0.txt")], keep_previous=True)
    assert [check.name for check in checks(place) if check.waiting] == ["records"]
    index()
    assert not any(check.waiting for check in checks(place))
    (folder / "0.txt").unlink()
    index(index_dir=place.with_name("fresh"))
    assert readings(place) == readings(place.with_name("fresh"))


def readings(place: Path) -> object:
    with closing(Store.read(place)) as store:
        return json.loads(store.reliability())
