"""Odd trees, and trees that change while they are read: nothing stops a run, follows a link out or hangs."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.retrieve import IndexReport, index_folders
from ragla.retrieve.events import Event, FilesFound
from ragla.retrieve.layout import current_database

posix = pytest.mark.skipif(os.name == "nt", reason="the file system here has no such thing")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    (made / "plain.md").write_text("A plain zebra.")
    return made


Run = Callable[..., IndexReport]


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Run:
    def index(*roots: Path, **more: Any) -> IndexReport:
        place = more.pop("place", tmp_path / "index")
        return index_folders(list(roots) or [root], place, RetrieveSettings(), HashingEmbedder(), **more)

    return index


def indexed(tmp_path: Path) -> dict[str, str]:
    database = current_database(tmp_path / "index")
    assert database is not None
    connection = sqlite3.connect(database)
    found = dict(connection.execute("SELECT path, text FROM files JOIN documents USING (id)"))
    connection.close()
    return found


def reasons(report: IndexReport) -> dict[str, str]:
    return {Path(path).name: reason for path, reason in report.skipped}


def when_found(act: Callable[[], object]) -> Callable[[Event], None]:
    """Act between the walk and the reading."""

    def on_event(event: Event) -> None:
        if isinstance(event, FilesFound):
            act()

    return on_event


@posix
def test_links_of_every_kind(root: Path, tmp_path: Path, run: Run) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (root / "sub").mkdir()
    (root / "sub/up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "ping").symlink_to(root / "pong")
    (root / "pong").symlink_to(root / "ping")
    (root / "broken.md").symlink_to("nowhere.md")
    (root / "absolute.md").symlink_to(outside / "secret.md")
    (root / "relative.md").symlink_to("../outside/secret.md")
    (root / "folder").symlink_to(outside)
    (root / "sideways.md").symlink_to("sub/../../outside/secret.md")
    (root / "system").symlink_to("/etc")
    (root / "twice.md").symlink_to("absolute.md")
    (root / "same.md").symlink_to("plain.md")
    report = run()
    out = "link leads out of the folder"
    assert reasons(report) == {
        "self": "link loop",
        "ping": "link loop",
        "pong": "link loop",
        "broken.md": "broken link",
        **dict.fromkeys(("absolute.md", "relative.md", "folder", "sideways.md", "system", "twice.md"), out),
    }
    assert list(indexed(tmp_path)) == ["plain.md"]


@posix
def test_a_link_into_another_root_brings_its_files_once(root: Path, tmp_path: Path, run: Run) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.md").write_text("An other zebra.")
    (root / "b.md").symlink_to(other / "b.md")
    assert run(root, other, root).indexed == 2
    assert sorted(indexed(tmp_path)) == ["b.md", "plain.md"]


@posix
def test_a_root_that_is_a_link(root: Path, tmp_path: Path, run: Run) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    assert run().indexed == 1
    assert run(alias).unchanged == 1


@posix
def test_pipes_and_sockets_are_not_opened(root: Path, tmp_path: Path, run: Run) -> None:
    os.mkfifo(root / "pipe.md")
    before = Path.cwd()
    os.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        os.chdir(before)
        assert reasons(run()) == dict.fromkeys(("pipe.md", "socket.md"), "not a regular file")


@posix
def test_a_file_that_becomes_a_pipe_after_the_walk(root: Path, tmp_path: Path, run: Run) -> None:
    (root / "b.md").write_text("soon a pipe")

    def replace() -> None:
        (root / "b.md").unlink()
        os.mkfifo(root / "b.md")

    assert reasons(run(on_event=when_found(replace))) == {"b.md": "not a regular file"}
    assert list(indexed(tmp_path)) == ["plain.md"]


def test_a_file_that_becomes_a_folder_after_the_walk(root: Path, tmp_path: Path, run: Run) -> None:
    (root / "b.md").write_text("soon a folder")

    def replace() -> None:
        (root / "b.md").unlink()
        (root / "b.md").mkdir()

    (reason,) = reasons(run(on_event=when_found(replace))).values()
    assert reason in (
        "cannot be read: Is a directory",
        "not a regular file",
        "cannot be read: Permission denied",
    )


@posix
def test_a_file_that_becomes_a_link_out_after_the_walk(root: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (root / "b.md").write_text("soon a link")

    def replace() -> None:
        (root / "b.md").unlink()
        (root / "b.md").symlink_to(tmp_path / "secret.md")

    assert reasons(run(on_event=when_found(replace)))["b.md"].startswith("cannot be read")
    assert list(indexed(tmp_path)) == ["plain.md"]
    assert reasons(run()) == {"b.md": "link leads out of the folder"}


def test_files_that_vanish_or_grow_after_the_walk(root: Path, tmp_path: Path, run: Run) -> None:
    (root / "gone.md").write_text("soon gone")
    (root / "grows.md").write_text("small")

    def change() -> None:
        (root / "gone.md").unlink()
        (root / "grows.md").write_text("zebra " * 1000)

    report = run(on_event=when_found(change), max_bytes=2000)
    assert reasons(report) == {
        "gone.md": "vanished before it was read",
        "grows.md": "too large: 2,001 bytes, the limit is 2,000",
    }
    assert run(max_bytes=10_000).indexed == 1
    assert set(indexed(tmp_path)) == {"plain.md", "grows.md"}


def test_a_file_that_cannot_be_opened_is_tried_again_by_itself(
    root: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "denied.md").write_text("A denied zebra.")
    opening = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if Path(path).name == "denied.md":
            raise PermissionError(13, "Permission denied")
        return opening(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        for _ in range(2):
            assert reasons(run()) == {"denied.md": "cannot be read: Permission denied"}
    assert run().indexed == 1
    assert "denied.md" in indexed(tmp_path)


@posix
def test_a_sparse_file_is_too_large_without_being_read(root: Path, tmp_path: Path, run: Run) -> None:
    with (root / "sparse.txt").open("wb") as opened:
        opened.truncate(1 << 40)
    assert reasons(run())["sparse.txt"].startswith("too large: 1,099,511,627,776 bytes")


@posix
def test_names(root: Path, tmp_path: Path, run: Run) -> None:
    names = [
        "-rf.md", "a b'c\"d.md", "new\nline.md", "escape\x1b[2J.md", "a%2fb.md", "[a-z]*?.md", "café.md",
        "cafe\u0301.md", "差旅.md", "n" * 250 + ".md", "CON.md", "~.md", "$(reboot).md",
        "'; DROP TABLE files;--.md",
    ]  # fmt: skip
    for name in names:
        (root / name).write_text(f"zebra of {len(name)}")
    (root / "folder.md").mkdir()
    (root / "folder.md/inside.md").write_text("inside zebra")
    report = run()
    assert report.skipped == ()
    assert report.indexed == len(names) + 2
    shown = indexed(tmp_path)
    assert "escape [2J.md" in shown
    assert "folder.md/inside.md" in shown
    assert run().unchanged == len(names) + 2


@posix
def test_a_name_that_is_no_unicode(root: Path, tmp_path: Path, run: Run) -> None:
    (root / os.fsdecode(b"caf\xe9.md")).write_text("x")
    (root / os.fsdecode(b"dir\xff")).mkdir()
    (root / os.fsdecode(b"dir\xff/a.md")).write_text("x")
    report = run()
    assert [reason for _, reason in report.skipped] == ["the name is not valid UTF-8: rename it"] * 2
    assert all(path.isprintable() for path, _ in report.skipped)
    assert report.indexed == 1


@posix
def test_a_tree_deeper_than_a_path_may_be_long(root: Path, tmp_path: Path, run: Run) -> None:
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(root)
        for _ in range(60):
            os.mkdir("d" * 100)  # noqa: PTH102
            os.chdir("d" * 100)
        Path("deepest.md").write_text("x")
    finally:
        os.fchdir(before)
        os.close(before)
    report = run()
    assert report.indexed == 1
    assert [reason for _, reason in report.skipped] == ["folder cannot be read: File name too long"]


def test_a_deep_tree_within_the_limit(root: Path, tmp_path: Path, run: Run) -> None:
    deepest = root.joinpath(*["d"] * 400)
    deepest.mkdir(parents=True)
    (deepest / "deep.md").write_text("A deep zebra.")
    assert run().indexed == 2


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b"\xef\xbb\xbf*.log\r\n", {"plain.md", "b.txt"}),
        (b"*\n!*/\n!*.md\n", {"plain.md"}),
        (b"\xff\xfe\x00\x01\n*.txt\n*.log", {"plain.md"}),
        (b"[\n[z-a]\n\\\n!\n*.log\n", {"plain.md", "b.txt"}),
        (b"(((((*.log\n**/**/**/**/**/a\n*.log", {"plain.md", "b.txt"}),
        (b"*.log " * 3 + b"\n", {"plain.md", "b.txt", "c.log"}),
    ],
)
def test_ignore_files_nobody_should_write(
    root: Path, tmp_path: Path, run: Run, content: bytes, left: set[str]
) -> None:
    (root / "b.txt").write_text("b zebra")
    (root / "c.log").write_text("c zebra")
    (root / ".gitignore").write_bytes(content)
    run()
    assert set(indexed(tmp_path)) == left


@posix
@pytest.mark.parametrize("kind", ["folder", "loop", "pipe"])
def test_an_ignore_file_that_is_none(root: Path, tmp_path: Path, run: Run, kind: str) -> None:
    path = root / ".gitignore"
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        os.mkfifo(path)
    assert run().indexed == 1


def test_other_indexes_are_not_documents(root: Path, tmp_path: Path, run: Run) -> None:
    assert run(place=root / "mine").indexed == 1
    (root / "theirs").mkdir()
    assert run(place=root / "theirs").indexed == 1
    assert run(place=root / "mine").unchanged == 1


@posix
def test_two_names_of_one_file(root: Path, tmp_path: Path, run: Run) -> None:
    os.link(root / "plain.md", root / "again.md")
    assert run().indexed == 2
    (root / "plain.md").write_text("Both changed.")
    assert run().indexed == 2
    assert set(indexed(tmp_path).values()) == {"Both changed."}


def test_a_name_that_changes_its_case(root: Path, tmp_path: Path, run: Run) -> None:
    run()
    (root / "plain.md").rename(root / "PLAIN.md")
    run()
    assert list(indexed(tmp_path)) == ["PLAIN.md"]


def test_an_emptied_folder_empties_the_index_and_says_nothing_odd(
    root: Path, tmp_path: Path, run: Run
) -> None:
    run()
    (root / "plain.md").unlink()
    report = run()
    assert (report.removed, report.total_passages, report.skipped) == (1, 0, ())
