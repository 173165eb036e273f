"""A Milvus server that dies, falls silent, is gone or has a full disk; and collections that are not ours."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from passage_store_suite import EMBEDDER, SETTINGS, write_documents

from ragla.errors import IndexLocked, IndexUnusable, RaglaError
from ragla.retrieve import Retriever, index_folders, milvus_publish
from ragla.retrieve.milvus_client import Connection, target_of
from ragla.retrieve.milvus_collections import Collections
from ragla.retrieve.milvus_look import milvus_checks
from ragla.retrieve.milvus_publish import publish
from ragla.retrieve.milvus_rows import PASSAGE_FIELDS
from ragla.retrieve.milvus_store import MilvusStore
from ragla.retrieve.passage_store import State
from ragla.retrieve.remove import remove
from ragla.retrieve.store import Store

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from milvus_helpers import Server, at

from tests.faults.mounts import fill_up, small_disk

QUESTION = "moored boats at the north pier"
MIB = 1 << 20


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    index_folders([write_documents(folder / "docs")], folder / "index", SETTINGS, EMBEDDER)
    return folder / "index"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server") / "data").start()
    yield made
    made.kill()


def content(uri: str) -> list[Any]:
    """All that a collection holds and a reader sees."""
    opened = Collections(target_of(uri), at(uri))
    with closing(opened):
        passages = sorted(
            tuple(str(one[name]) for name in PASSAGE_FIELDS) for one in opened.all_passages(PASSAGE_FIELDS)
        )
        rows = [sorted(opened.all_bodies(kind)) for kind in ("file", "text", "head", "state", "words")]
    return [passages, *rows]


def found(uri: str, **more: object) -> list[str]:
    with closing(Retriever.on_milvus(at(uri, **more), EMBEDDER)) as retriever:
        return [one.passage.text for one in retriever.search(QUESTION, 3)]


@pytest.fixture(scope="module")
def whole(place: Path, server: Server) -> list[Any]:
    """What an undisturbed publication leaves."""
    uri = server.uri("whole")
    publish(place, target_of(uri), at(uri))
    return content(uri)


@pytest.mark.parametrize(
    ("method", "number"), [("upsert", 1), ("upsert", 4), ("upsert", 8), ("delete", 1), ("flush", 1)]
)
def test_a_server_that_is_killed_in_the_middle_ends_with_the_same_content(
    place: Path, server: Server, whole: list[Any], monkeypatch: pytest.MonkeyPatch, method: str, number: int
) -> None:
    """The connection breaks while a call is under way; the next run compares and goes on."""
    monkeypatch.setattr(milvus_publish, "BATCH_PASSAGES", 20)
    uri, calls = server.uri(f"killed_{method}_{number}"), []
    call = Connection.call

    def killing(self: Connection, name: str, *arguments: Any, **named: Any) -> Any:
        calls.append(name)
        if calls.count(method) != number or name != method:
            return call(self, name, *arguments, **named)
        killer = threading.Timer(0.003, server.kill)
        killer.start()
        try:
            return call(self, name, *arguments, **named)
        finally:
            killer.join()

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "call", killing)
        with pytest.raises(IndexUnusable) as caught:
            publish_often(place, uri, 20)  # the call may have been answered before the server was dead
    one_line_with_a_command(caught.value)
    server.start()
    publish(place, target_of(uri), at(uri))
    assert content(uri) == whole
    assert publish(place, target_of(uri), at(uri)).written == 0
    with closing(MilvusStore(target_of(uri), at(uri))) as store, closing(Store.read(place)) as index:
        assert store.is_settled(State.of(index))


def publish_often(place: Path, uri: str, times: int) -> None:
    for _ in range(times):
        publish(place, target_of(uri), at(uri, milvus_timeout_s=3))
        time.sleep(0.05)


def one_line_with_a_command(error: RaglaError) -> None:
    assert "\n" not in str(error)
    assert "milvus://127.0.0.1" in str(error)
    assert error.hint
    assert error.exit_code == IndexUnusable.exit_code


def test_a_server_that_falls_silent_is_waited_for_in_bounded_time(
    place: Path, server: Server, whole: list[Any]
) -> None:
    uri = server.uri("whole")
    before = found(uri)
    assert before
    with closing(Retriever.on_milvus(at(uri, milvus_timeout_s=1), EMBEDDER)) as retriever:
        server.pause()
        try:
            for attempt in (lambda: retriever.search(QUESTION, 3), lambda: found(uri, milvus_timeout_s=1)):
                started = time.monotonic()
                with pytest.raises(IndexUnusable, match="did not answer within 1 s") as caught:
                    attempt()
                assert time.monotonic() - started < 10
                one_line_with_a_command(caught.value)
        finally:
            server.resume()
        assert [one.passage.text for one in retriever.search(QUESTION, 3)] == before


def test_a_server_that_is_gone_is_said_at_once(server: Server, whole: list[Any]) -> None:
    with closing(Retriever.on_milvus(at(server.uri("whole"), milvus_timeout_s=2), EMBEDDER)) as retriever:
        server.kill()
        started = time.monotonic()
        for attempt in (lambda: found(server.uri("whole")), lambda: retriever.search(QUESTION, 3)):
            with pytest.raises(IndexUnusable, match=r"does not answer|did not answer") as caught:
                attempt()
            one_line_with_a_command(caught.value)
        assert time.monotonic() - started < 15
        time.sleep(6)  # long enough for tries to connect that come ever later
        server.start()
        started = time.monotonic()
        assert found(server.uri("whole"))
        assert time.monotonic() - started < 15


def test_a_full_disk_keeps_what_there_was(place: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        server = Server(disk / "data").start()
        try:
            uri = server.uri("small")
            publish(place, target_of(uri), at(uri))
            expected = content(uri)
            ballast = fill_up(disk, 0)
            with pytest.raises(RaglaError) as caught:
                publish(place, target_of(uri), at(uri), rebuild=True)
            assert "disk is full" in str(caught.value)
            assert "make room" in (caught.value.hint or "")
            ballast.unlink()
            server.kill()
            server.start()
            publish(place, target_of(uri), at(uri))
            assert content(uri) == expected
        finally:
            server.kill()


def test_a_file_that_another_process_has_open_is_said_to_be_locked(place: Path, tmp_path: Path) -> None:
    server = Server(tmp_path / "mine.db").start()
    try:
        uri = f"milvus:{tmp_path / 'mine.db'}"
        with pytest.raises(IndexLocked, match="another process"):
            publish(place, target_of(uri), at(uri))
    finally:
        server.kill()
    assert publish(place, target_of(uri), at(uri)).written


def test_collections_of_others_are_refused_and_replaced_when_told(
    place: Path, server: Server, tmp_path: Path
) -> None:
    uri = server.uri("others")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Boats are moored at the north pier.\n")
    index_folders([tmp_path / "docs"], tmp_path / "index", SETTINGS, EMBEDDER)
    publish(tmp_path / "index", target_of(uri), at(uri))
    with pytest.raises(IndexUnusable, match="holds the index of") as caught:
        publish(place, target_of(uri), at(uri))
    assert "--rebuild" in (caught.value.hint or "")
    assert publish(place, target_of(uri), at(uri), rebuild=True).written
    with closing(MilvusStore(target_of(uri), at(uri))) as store:
        assert store.problems() == []


def test_what_changes_here_is_brought_there_and_nothing_else(
    place: Path, server: Server, tmp_path: Path
) -> None:
    uri = server.uri("changes")
    index_dir = shutil.copytree(place, tmp_path / "index")
    docs = place.parent / "docs"
    publish(index_dir, target_of(uri), at(uri))
    kept = (docs / "travel.md").read_text(encoding="utf-8")
    try:
        (docs / "travel.md").write_text("Herons fish at night.\n", encoding="utf-8")
        index_folders([docs], index_dir, SETTINGS, EMBEDDER)
        published = publish(index_dir, target_of(uri), at(uri))
        assert (published.written, published.removed) == (1, 0)
        with closing(Retriever.on_milvus(at(uri), EMBEDDER)) as retriever:
            assert retriever.search("herons", 1)[0].passage.text == "Herons fish at night."
        (docs / "travel.md").unlink()
        index_folders([docs], index_dir, SETTINGS, EMBEDDER)
        assert publish(index_dir, target_of(uri), at(uri)).removed == 1
    finally:
        (docs / "travel.md").write_text(kept, encoding="utf-8")


def test_what_an_interrupted_run_left_of_a_file_that_is_gone_is_swept(
    place: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, index_dir = server.uri("swept"), shutil.copytree(place, tmp_path / "index")
    with monkeypatch.context() as patch:
        patch.setattr(
            Collections, "write_rows", lambda self, rows: 1 / 0
        )  # passages are there, their file is not
        with pytest.raises(ZeroDivisionError):
            publish(index_dir, target_of(uri), at(uri))
    with closing(Store.read(index_dir)) as store:
        gone = next(path for path in store.files() if path.endswith("numbers.md"))
    remove(index_dir, [gone], keep_previous=False)
    publish(index_dir, target_of(uri), at(uri))
    with closing(MilvusStore(target_of(uri), at(uri))) as milvus:
        assert milvus.problems() == []
        assert gone not in {file.absolute for file in milvus.files()}


def test_readers_go_on_while_files_are_replaced(place: Path, server: Server, tmp_path: Path) -> None:
    """They find what is there at the moment, whole; a document that goes while it is read is said to."""
    docs, uri = write_documents(tmp_path / "docs"), server.uri("replaced")
    index_folders([docs], tmp_path / "index", SETTINGS, EMBEDDER)
    publish(tmp_path / "index", target_of(uri), at(uri))
    failed: list[BaseException] = []

    def rewrite() -> None:
        try:
            for turn in range(6):
                for name in ("guides/boats.txt", "numbers.md"):
                    (docs / name).write_text(
                        f"Boats of turn {turn} are moored.\n\n" * (turn + 1), encoding="utf-8"
                    )
                index_folders([docs], tmp_path / "index", SETTINGS, EMBEDDER)
                publish(tmp_path / "index", target_of(uri), at(uri))
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=rewrite)
    searches, said = 0, set()
    with closing(Retriever.on_milvus(at(uri), EMBEDDER)) as retriever:
        writer.start()
        while writer.is_alive():
            try:
                retriever.search("boats moored", 5)
                searches += 1
            except IndexUnusable as error:
                said.add(str(error))
        writer.join()
        assert failed == []
        assert said <= {"the document was changed or removed meanwhile"}
        assert searches > 5
        assert "turn 5" in retriever.search("boats of turn 5", 1)[0].passage.text


def test_a_token_is_sent_and_never_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a server repeats of it."""
    from pymilvus.exceptions import MilvusException

    sent = []

    class Refusing:
        def __init__(self, **named: object) -> None:
            sent.append(named["token"])
            raise MilvusException(7, f"who is {named['token']}?")

    monkeypatch.setenv("ARCHIVE", "open sesame")
    monkeypatch.setattr("pymilvus.MilvusClient", Refusing)
    with pytest.raises(IndexUnusable, match="who is") as caught:
        found(server.uri("whole"), milvus_token_env="ARCHIVE")
    assert sent == ["open sesame"]
    assert "sesame" not in f"{caught.value} {caught.value.hint}"


def test_damage_is_never_shown(place: Path, tmp_path: Path) -> None:
    uri = f"milvus:{tmp_path / 'damaged.db'}"
    publish(place, target_of(uri), at(uri))

    def change(change_row: Callable[[dict[str, Any]], None]) -> None:
        with closing(Collections(target_of(uri), at(uri))) as opened:
            rows = [dict(one) for one in opened.all_passages([*PASSAGE_FIELDS, "vector"])]
            for one in rows:
                change_row(one)
            opened.write_passages(rows)

    change(lambda one: one.update(text=one["text"] + "!"))
    with pytest.raises(IndexUnusable, match="not what was stored"):
        found(uri)
    change(lambda one: one.update(document=one["document"] // 2))
    with closing(MilvusStore(target_of(uri), at(uri))) as store:
        assert len(store.problems()) > 1


def test_a_collection_that_is_opened_as_empty_is_damaged(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "emptied.db"
    uri = f"milvus:{file}"
    publish(place, target_of(uri), at(uri))
    (file / "collections" / "ragla" / "manifest.json").write_text("{{\n", encoding="ascii")
    with pytest.raises(IndexUnusable, match="none of its 316 passages can be read") as caught:
        found(uri)
    assert caught.value.hint == f"ragla index --to {uri} --rebuild"
    publish(place, target_of(uri), at(uri), rebuild=True)
    assert found(uri)


def test_fewer_passages_than_were_left_are_damage_unless_files_are_being_replaced(
    place: Path, server: Server, whole: list[Any]
) -> None:
    uri = server.uri("fewer")
    publish(place, target_of(uri), at(uri))
    with closing(MilvusStore(target_of(uri), at(uri))) as store:
        lost = next(one for one in store.files() if one.path == "guides/boats.txt")
        kept = store.passage_count() - lost.passages
        store.begin()
        store.remove([lost.absolute])
        assert found(uri)
        store.finish()
        with pytest.raises(IndexUnusable, match=f"{kept} of its 316 passages can be read") as caught:
            found(uri)
    one_line_with_a_command(caught.value)
    publish(place, target_of(uri), at(uri))
    assert found(uri)
    assert content(uri) == whole


@pytest.mark.parametrize("name", ["ragla", "ragla_rows"])
def test_a_file_that_was_cut_off_is_said_and_replaced(place: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "cut.db"
    uri = f"milvus:{file}"
    publish(place, target_of(uri), at(uri))
    parts = list((file / "collections" / name).rglob("*.parquet"))
    assert parts
    for cut in parts:
        os.truncate(cut, cut.stat().st_size // 2)
    for attempt in (lambda: found(uri), lambda: publish(place, target_of(uri), at(uri))):
        with pytest.raises(IndexUnusable, match="Milvus says") as caught:
            attempt()
        assert str(caught.value.hint).startswith(f"ragla index --to {uri} --rebuild")
    [check] = milvus_checks(at(uri), None)
    assert "Milvus says" in check.problems[0].what
    assert check.problems[0].mend == f"ragla index --to {uri} --rebuild"
    publish(place, target_of(uri), at(uri), rebuild=True)
    assert found(uri)
