from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import IndexLocked, IndexUnusable, RaglaError, UsageError
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve import taking as taking_module
from ragla.retrieve import update as update_module
from ragla.retrieve.events import BatchStored, Event, FileRead, FilesFound
from ragla.retrieve.layout import current_database
from ragla.retrieve.selection import Selection

Index = Callable[..., IndexReport]
Found = Callable[[str], list[str]]


pytestmark = pytest.mark.usefixtures("no_tick")


def test_first_and_second_run(index: Index, embedder: HashingEmbedder, folder: Path) -> None:
    time.sleep(0.02)
    first = index()
    assert (first.indexed, first.unchanged, first.removed, first.skipped) == (3, 0, 0, ())
    assert first.passages == first.total_passages == len(embedder.texts)
    second = index()
    assert (second.indexed, second.unchanged, second.passages) == (0, 3, 0)


def test_title_is_embedded_with_the_passage(index: Index, embedder: HashingEmbedder) -> None:
    index()
    assert any(text.startswith("Travel") and "second class" in text for text in embedder.texts)


def test_a_touched_file_is_not_embedded_again(index: Index, embedder: HashingEmbedder, folder: Path) -> None:
    index()
    embedder.texts.clear()
    os.utime(folder / "travel.md")
    assert index().unchanged == 3
    assert embedder.texts == []


def test_a_change_under_an_old_date_is_found(index: Index, folder: Path, found: Found) -> None:
    time.sleep(0.02)
    index()
    path = folder / "travel.md"
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("second", "golden"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert index().indexed == 1
    assert found("golden class")
    assert not found("second")


def test_what_is_gone_leaves_nothing_behind(index: Index, folder: Path, found: Found) -> None:
    index()
    (folder / "guides" / "boats.txt").unlink()
    report = index()
    assert report.removed == 1
    assert not found("boats moored pier")


def test_a_missing_root_empties_nothing(index: Index, folder: Path, found: Found) -> None:
    index()
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(UsageError):
        index()
    assert found("boats pier")


def test_an_unreadable_folder_keeps_its_passages(
    index: Index, folder: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "guides":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report = index()
    assert report.removed == 0
    assert [Path(path).name for path, _ in report.skipped] == ["guides"]
    assert found("boats pier")


def test_bad_files_are_named_and_tried_again(index: Index, folder: Path, found: Found) -> None:
    bad = folder / "bad.txt"
    bad.write_bytes(bytes(range(256)) * 3)
    (folder / "empty.md").touch()
    (folder / "big.txt").write_text("words " * 200, encoding="utf-8")
    report = index(max_bytes=1000)
    reasons = {Path(path).name: reason for path, reason in report.skipped}
    assert reasons["bad.txt"] == "binary file"
    assert reasons["empty.md"] == "empty file"
    assert reasons["big.txt"].startswith("too large: 1,200 bytes, the limit is 1,000")
    assert report.indexed == 3
    assert len(index(max_bytes=1000).skipped) == 3  # still said, not forgotten
    bad.write_text("now it is a readable zebra", encoding="utf-8")
    assert index().indexed == 2
    assert found("zebra")


def test_a_file_that_turns_binary_loses_its_text(index: Index, folder: Path, found: Found) -> None:
    index()
    (folder / "guides" / "boats.txt").write_bytes(bytes(range(256)) * 20)
    index()
    assert not found("boats pier")


def test_a_file_that_vanishes_or_breaks_the_parser(
    index: Index, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(name: str, raw: bytes) -> object:
        raise RecursionError("deep")

    def vanish(event: Event) -> None:
        if isinstance(event, FilesFound):
            (folder / "travel.md").unlink()

    monkeypatch.setattr(taking_module, "read_document", explode)
    reasons = {Path(path).name: reason for path, reason in index(on_event=vanish).skipped}
    assert reasons["travel.md"] == "vanished before it was read"
    assert reasons["boats.txt"] == "cannot be parsed (RecursionError)"


def test_interrupt_keeps_the_batches_before(
    index: Index, folder: Path, found: Found, monkeypatch: pytest.MonkeyPatch, embedder: HashingEmbedder
) -> None:
    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)

    def interrupt(event: Event) -> None:
        if isinstance(event, BatchStored):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(on_event=interrupt)
    assert found("trains class")
    assert (index().indexed, len(embedder.texts)) == (2, 3)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from hashing_embedder import HashingEmbedder
from ragla.config import RetrieveSettings
from ragla.retrieve import index_folders, update
from ragla.retrieve.events import BatchStored, PassagesEmbedded
update._BATCH_FILES = 5
stored = 0
def kill(event):
    global stored
    stored += isinstance(event, BatchStored)
    if stored == 3 and isinstance(event, PassagesEmbedded):
        os.kill(os.getpid(), signal.SIGKILL)
index_folders([Path(sys.argv[1])], Path(sys.argv[2]), RetrieveSettings(), HashingEmbedder(), kill)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_kill_9_leaves_a_readable_index_and_the_next_run_goes_on(
    index: Index, folder: Path, tmp_path: Path, found: Found, embedder: HashingEmbedder
) -> None:
    for number in range(30):
        (folder / f"a{number:02}.txt").write_text(f"Item number{number} is here.", encoding="utf-8")
    arguments = [str(folder), str(tmp_path / "index"), str(Path(__file__).parent)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert found("number3")
    assert not found("number29")
    report = index()
    assert (report.indexed, report.unchanged) == (18, 15)
    assert len(embedder.texts) == 18
    assert found("number29")


def test_one_writer(index: Index, tmp_path: Path, found: Found) -> None:
    index()
    with FileLock(tmp_path / "index" / "index.lock"):
        with pytest.raises(IndexLocked) as caught:
            index()
        assert found("boats")
    assert caught.value.hint
    index()


def test_a_full_disk_keeps_what_was_there(
    index: Index, folder: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    connect = sqlite3.connect

    def small_disk(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    (folder / "large.txt").write_text("many different words here. " * 1000, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", small_disk)
        with pytest.raises(RaglaError, match="disk is full") as caught:
            index()
    assert caught.value.hint
    assert found("boats pier")
    assert index().indexed == 1


def test_a_disk_that_fills_up_under_the_faiss_file(
    index: Index, folder: Path, tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    (folder / "new.txt").write_text("a zebra", encoding="utf-8")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RaglaError, match="disk is full"):
            index(settings=RetrieveSettings(keep_previous=False))
    assert found("zebra")
    assert not list((tmp_path / "index").glob("*.tmp"))


def test_other_settings_are_refused_with_both_names(index: Index) -> None:
    index()
    with pytest.raises(IndexUnusable, match=r"'fake', now 'other'") as caught:
        index(embedder=HashingEmbedder("other"))
    assert "ragla index --rebuild" in str(caught.value.hint)
    with pytest.raises(IndexUnusable, match=r"chunk_tokens '180', now '100'"):
        index(settings=RetrieveSettings(chunk_tokens=100))


def test_rebuild_replaces_the_index_at_its_end(index: Index, tmp_path: Path, found: Found) -> None:
    index()
    other = HashingEmbedder("other", dimension=32)

    def interrupt(event: Event) -> None:
        if isinstance(event, FileRead):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(embedder=HashingEmbedder("third"), rebuild=True, on_event=interrupt)
    assert found("boats pier")  # the old one still answers
    assert index(embedder=other, rebuild=True).indexed == 3
    retriever = Retriever.open(tmp_path / "index", other)
    assert retriever.search("boats at the north pier", 1)[0].passage.path == "guides/boats.txt"
    retriever.close()
    assert len(list((tmp_path / "index").glob("passages-*"))) == 2  # the one before is kept


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"x" * 100, lambda raw: raw[:10]]
)
def test_a_damaged_database_is_named_and_rebuilt(
    index: Index, tmp_path: Path, found: Found, damage: Callable[[bytes], bytes]
) -> None:
    index()
    database = current_database(tmp_path / "index")
    assert database
    database.write_bytes(damage(database.read_bytes()))
    for attempt in (lambda: found("boats"), index):
        with pytest.raises(IndexUnusable) as caught:
            attempt()
        assert "--rebuild" in str(caught.value.hint)
    assert index(rebuild=True).indexed == 3
    assert found("boats pier")


def test_folders_added_later_stay_and_have_telling_paths(
    index: Index, tmp_path: Path, embedder: HashingEmbedder, folder: Path
) -> None:
    twin = tmp_path / "other" / "docs"
    twin.mkdir(parents=True)
    (twin / "travel.md").write_text("Zebras travel alone.", encoding="utf-8")
    index()
    assert index([twin]).removed == 0
    retriever = Retriever.open(tmp_path / "index", embedder)
    paths = {item.passage.path: item.passage for item in retriever.search("travel", 10)}
    retriever.close()
    assert "other/docs/travel.md" in paths
    assert len(paths) == 4
    assert all(Path(passage.absolute).is_file() for passage in paths.values())


def test_a_copy_of_the_index_path_in_chinese(index: Index, tmp_path: Path, embedder: HashingEmbedder) -> None:
    target = tmp_path / "索引 ünïcode"
    index(index_dir=target)
    retriever = Retriever.open(target, embedder)
    assert retriever.search("boats pier", 1)
    retriever.close()
    assert index(index_dir=target).unchanged == 3


def test_an_index_inside_the_folder_is_not_read(index: Index, folder: Path) -> None:
    index(index_dir=folder / "my-index")
    assert index(index_dir=folder / "my-index").unchanged == 3
    shutil.rmtree(folder / "my-index")


def test_what_was_chosen_is_kept_for_runs_that_do_not_say(
    index: Index, folder: Path, tmp_path: Path, found: Found
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "zebra.md").write_text("A zebra.", encoding="utf-8")
    (other / "giraffe.txt").write_text("A giraffe.", encoding="utf-8")
    assert index(selection=Selection(exclude=("guides/",))).indexed == 2
    assert index([other], selection=Selection(include=("*.md",))).indexed == 1
    report = index([folder, other])
    assert (report.unchanged, report.indexed, report.removed) == (3, 0, 0)
    assert index([folder, other], rebuild=True).indexed == 3
    assert not found("boats pier")
    assert index([other], selection=Selection()).indexed == 1
    assert index([folder, other]).unchanged == 4
    narrower = index(selection=Selection(include=("*.md",), exclude=("差旅.md",)))
    assert (narrower.unchanged, narrower.removed) == (1, 1)


def test_a_skipped_file_is_read_again_when_it_changes_or_on_request(
    index: Index, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = folder / "bad.bin"
    bad.write_bytes(bytes(range(256)) * 3)
    read: list[str] = []
    real = taking_module.read_document

    def listening(name: str, raw: bytes) -> object:
        read.append(name)
        return real(name, raw)

    monkeypatch.setattr(taking_module, "read_document", listening)
    time.sleep(0.02)
    for expected, more in ((1, {}), (0, {}), (1, {"retry": True}), (0, {})):
        read.clear()
        assert [reason for _, reason in index(**more).skipped] == ["binary file"]
        assert read.count("bad.bin") == expected
    os.utime(bad)
    read.clear()
    assert len(index().skipped) == 1
    assert read == []  # touched, the same bytes
    bad.write_text("readable now", encoding="utf-8")
    assert index().indexed == 1
