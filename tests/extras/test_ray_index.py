"""Indexing on a Ray cluster: two nodes of this machine, one of which is lost in the middle."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray_helpers
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import ModelUnavailable, RaglaError
from ragla.retrieve import IndexReport, index_folders, ray_crew, ray_readers, ray_work
from ragla.retrieve.events import BatchStored, Event, FileRead, FileSkipped, PassagesEmbedded
from ragla.retrieve.ray_cluster import address_of
from ragla.retrieve.ray_source import RaySource
from tests.faults.index_state import check_clean, content

pytestmark = pytest.mark.xdist_group("ray")  # one cluster for all

SETTINGS = RetrieveSettings(keep_previous=False)
FILES = 60


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Files of all kinds of outcome, and a book of more passages than are embedded at once."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(FILES):
        chapters = (f"# Part {part}\n\nHarbour {number} has {part} boats.\n\n" for part in range(8))
        (folder / f"{number:02}.md").write_text("".join(chapters), encoding="utf-8")
    (folder / "empty.md").write_text("")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "差旅.md").write_text("# 差旅\n\n差旅报销需要发票。\n", encoding="utf-8")
    chapters = (f"# Chapter {number}\n\nA chapter about {number}.\n\n" for number in range(600))
    (folder / "a book.md").write_text("".join(chapters), encoding="utf-8")
    return folder


def index_on_ray(
    docs: Path,
    index: Path,
    load: Callable[[str], HashingEmbedder] = ray_helpers.load_quick,
    on_event: Callable[[Event], None] = lambda event: None,
    on: str = "ray",
) -> IndexReport:
    embedder = HashingEmbedder()
    source = partial(RaySource, address_of(on), load, False, embedder, SETTINGS)
    report = index_folders([docs], index, SETTINGS, embedder, on_event, source=source)
    assert embedder.texts == []  # none on this machine
    return report


@pytest.fixture
def alone(docs: Path, tmp_path: Path) -> Path:
    """The same documents, indexed by one process."""
    index_folders([docs], tmp_path / "alone", SETTINGS, HashingEmbedder())
    return tmp_path / "alone"


def test_an_index_made_on_a_cluster_is_the_one_that_a_single_machine_makes(
    cluster: Any, docs: Path, alone: Path, tmp_path: Path
) -> None:
    events: list[Event] = []
    report = index_on_ray(docs, tmp_path / "index", on_event=events.append)
    assert content(tmp_path / "index") == content(alone)
    check_clean(tmp_path / "index")
    assert report.passages == FILES * 8 + 600 + 1
    assert {(Path(path).name, reason) for path, reason in report.skipped} == {
        ("empty.md", "empty file"),
        ("picture.png", "binary file (PNG image)"),
    }
    kinds = Counter(type(event) for event in events)
    assert (kinds[FileRead], kinds[FileSkipped]) == (FILES + 2, 2)
    assert [event.passages for event in events if isinstance(event, PassagesEmbedded)][-1] == report.passages
    again = index_on_ray(docs, tmp_path / "index", on_event=events.append)
    assert (again.indexed, again.passages) == (0, 0)


def test_a_node_that_is_lost_in_the_middle_costs_nothing(
    cluster: Any, docs: Path, alone: Path, tmp_path: Path
) -> None:
    lost = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    stored: list[int] = []

    def lose_it(event: Event) -> None:
        if isinstance(event, BatchStored) and not stored:
            cluster.remove_node(lost, allow_graceful=False)
        if isinstance(event, BatchStored):
            stored.append(event.files)

    report = index_on_ray(docs, tmp_path / "index", ray_helpers.load_slow, lose_it)
    assert len(stored) > 2
    assert sum(stored) == report.indexed == FILES + 2  # each once
    assert content(tmp_path / "index") == content(alone)
    check_clean(tmp_path / "index")


def test_workers_that_are_killed_in_the_middle_are_replaced(
    cluster: Any, docs: Path, alone: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill_all(event: Event) -> None:
        if isinstance(event, BatchStored) and not killed:
            killed.extend(processes("EmbeddingWorker"))
            for process in killed:
                os.kill(process, signal.SIGKILL)

    index_on_ray(docs, tmp_path / "index", ray_helpers.load_slow, kill_all)
    assert killed
    assert content(tmp_path / "index") == content(alone)


def processes(named: str) -> list[int]:
    """Those of this cluster that are called so."""
    ours = ray_helpers.processes_with(f"RAGLA_TEST_CLUSTER={os.environ['RAGLA_TEST_CLUSTER']}")
    return [process for process, command in ours.items() if named in command]


def test_a_document_that_ends_its_readers_is_left_out(
    cluster: Any, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "07.md").write_bytes(ray_helpers.POISON)
    monkeypatch.setattr(ray_work, "read", ray_helpers.read_deadly)
    monkeypatch.setattr(ray_readers, "_RETRIES", 0)  # starting a process takes seconds
    report = index_on_ray(docs, tmp_path / "index")
    reasons = {Path(path).name: reason for path, reason in report.skipped}
    assert set(reasons) == {"07.md", "empty.md", "picture.png"}
    assert "ended the process" in reasons["07.md"]
    assert report.indexed == FILES + 1
    again = index_folders([docs], tmp_path / "index", SETTINGS, HashingEmbedder())
    assert again.indexed == 1  # what could not even be read is tried again


def test_passages_that_end_their_workers_end_the_run_and_keep_what_is_stored(
    cluster: Any, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "zz.md").write_text(f"{ray_helpers.DEADLY}\n")
    monkeypatch.setattr(ray_crew, "_TRIES", 2)
    with pytest.raises(RaglaError, match="over the same passages") as caught:
        index_on_ray(docs, tmp_path / "index", ray_helpers.load_slow)
    assert "batch_size" in (caught.value.hint or "")
    (docs / "zz.md").write_text("No longer.\n")
    report = index_folders([docs], tmp_path / "index", SETTINGS, HashingEmbedder())
    assert report.unchanged > 0
    check_clean(tmp_path / "index")


def test_files_that_workers_do_not_see_are_sent_to_them(
    cluster: Any, docs: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_work, "read", ray_helpers.read_blind)
    index_on_ray(docs, tmp_path / "index")
    assert content(tmp_path / "index") == content(alone)


def test_workers_with_another_model_another_ragla_or_none_are_refused(
    cluster: Any, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelUnavailable, match="is not on this machine") as missing:
        index_on_ray(docs, tmp_path / "index", ray_helpers.load_none)
    assert missing.value.hint == "ragla models pull fake"
    assert "\n" not in str(missing.value)
    with pytest.raises(RaglaError, match="is not the embedder that is here"):
        index_on_ray(docs, tmp_path / "index", ray_helpers.load_other)
    monkeypatch.setattr(ray_work, "read", ray_helpers.read_otherwise)
    with pytest.raises(RaglaError, match="another ragla") as other:
        index_on_ray(docs, tmp_path / "index")
    assert "pip install 'ragla[ray]==0.0.1'" in (other.value.hint or "")


def test_a_cluster_without_room_is_not_waited_for_for_ever(
    cluster: Any, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(ray_crew, "READY_S", 3.0)
    monkeypatch.setattr("ragla.retrieve.ray_source._places", lambda *_: (1, {"num_cpus": 99}, "cpu"))
    with pytest.raises(RaglaError, match="ready to embed in 3 s"):
        index_on_ray(docs, tmp_path / "index")
    assert not ray.is_initialized()


def test_a_cluster_is_reached_by_its_client_server_and_missed_when_it_goes(
    cluster: Any, client_port: int, docs: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = f"ray://127.0.0.1:{client_port}"
    index_on_ray(docs, tmp_path / "index", on=on)
    assert content(tmp_path / "index") == content(alone)
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "1")  # seconds

    def end_it(event: Event) -> None:
        if isinstance(event, BatchStored):
            for process in processes("ray.util.client.server"):
                os.kill(process, signal.SIGKILL)

    with pytest.raises(RaglaError, match=f"the Ray cluster at 127.0.0.1:{client_port} is gone") as gone:
        index_on_ray(docs, tmp_path / "broken off", ray_helpers.load_slow, end_it, on=on)
    assert "\n" not in str(gone.value)
    check_clean(tmp_path / "broken off")
