"""An index that follows its folders: what wakes it, what does not, and what it survives."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import IndexLocked, RaglaError, UsageError
from ragla.retrieve import IndexReport, Retriever, Selection, index_folders
from ragla.retrieve.layout import writing
from ragla.retrieve.walk import FoundFile, Reach, resolve_roots, walk
from ragla.retrieve.watch import check_watching, follow

SECONDS = 60.0  # until a test that waits has failed


class Follower:
    """Follows folders in a thread; ``next`` waits for the next report, ``problem`` for the next problem."""

    def __init__(self, roots: list[Path], index_dir: Path, embedder: HashingEmbedder) -> None:
        self.roots, self.index_dir, self.embedder = resolve_roots(roots), index_dir, embedder
        self.reports: list[IndexReport] = []
        self.problems: list[str] = []
        self.stop = threading.Event()
        self.changed = threading.Condition()
        self.selection: Selection | None = None
        self.thread = threading.Thread(target=self._run)
        self.raised: BaseException | None = None

    def _run(self) -> None:
        try:
            for report in follow(self.roots, self.index_dir, self._update, self._problem, self.stop):
                with self.changed:
                    self.reports.append(report)
                    self.changed.notify_all()
        except BaseException as error:
            self.raised = error

    def _update(self) -> IndexReport:
        chosen, self.selection = self.selection, None
        return index_folders(self.roots, self.index_dir, RetrieveSettings(), self.embedder, selection=chosen)

    def _problem(self, error: RaglaError) -> None:
        with self.changed:
            self.problems.append(str(error))
            self.changed.notify_all()

    def next(self) -> IndexReport:
        with self.changed:
            assert self.changed.wait_for(lambda: self.reports, SECONDS), (self.raised, self.problems)
            return self.reports.pop(0)

    def problem(self) -> str:
        with self.changed:
            assert self.changed.wait_for(lambda: self.problems, SECONDS), self.raised
            return self.problems.pop(0)


@pytest.fixture
def follower(folder: Path, tmp_path: Path, embedder: HashingEmbedder) -> Iterator[Callable[..., Follower]]:
    started = []

    def start(roots: list[Path] | None = None, selection: Selection | None = None) -> Follower:
        made = Follower(roots or [folder], tmp_path / "index", embedder)
        made.selection = selection
        made.thread.start()
        started.append(made)
        return made

    yield start
    for one in started:
        one.stop.set()
        one.thread.join(SECONDS)
        assert not one.thread.is_alive()


def test_it_follows_what_is_added_changed_and_removed(
    folder: Path, follower: Callable[..., Follower], found: Callable[[str], list[str]]
) -> None:
    followed = follower()
    assert followed.next().indexed == 3
    new = folder / "new" / "lamp.txt"
    new.parent.mkdir()
    new.write_text("The lamp is blue.\n", encoding="utf-8")
    assert followed.next().indexed == 1
    assert found("lamp") == ["The lamp is blue."]
    new.write_text("The lamp is green now.\n", encoding="utf-8")
    assert followed.next().indexed == 1
    assert found("lamp") == ["The lamp is green now."]
    new.parent.rename(folder.parent / "elsewhere")  # one event, and for the folder alone
    assert followed.next().removed == 1
    assert found("lamp") == []


def test_what_a_walk_does_not_come_to_wakes_nobody(folder: Path, follower: Callable[..., Follower]) -> None:
    (folder / ".gitignore").write_text("build/\n*.log\n", encoding="utf-8")
    (folder / "build").mkdir()
    index_inside = folder / ".ragla"
    index_inside.mkdir()
    followed = follower()
    followed.next()
    for path in (folder / "build" / "made.txt", folder / "run.log", folder / ".hidden", index_inside / "x"):
        path.write_text("Nothing to read here.\n", encoding="utf-8")
    with followed.changed:
        assert not followed.changed.wait_for(lambda: followed.reports, 1.5)
    (folder / "seen.txt").write_text("Something to read.\n", encoding="utf-8")
    report = followed.next()
    assert (report.indexed, report.unchanged) == (1, 3)


def test_new_rules_are_heard_of(folder: Path, follower: Callable[..., Follower]) -> None:
    followed = follower()
    followed.next()
    (folder / ".raglaignore").write_text("guides/\n", encoding="utf-8")
    assert followed.next().removed == 1


def test_the_lock_is_free_between_updates_and_waited_for(
    folder: Path, tmp_path: Path, follower: Callable[..., Follower]
) -> None:
    followed = follower()
    followed.next()
    with writing(tmp_path / "index"):
        (folder / "late.txt").write_text("It came while somebody wrote.\n", encoding="utf-8")
        assert "another process is writing" in followed.problem()
    assert followed.next().indexed == 1
    assert followed.problems == []  # said once, however often it was tried


def test_without_the_package_the_command_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(UsageError) as caught:
        check_watching()
    assert caught.value.hint == "pip install 'ragla[watch]'"


def test_a_first_run_that_fails_ends_it(tmp_path: Path, follower: Callable[..., Follower]) -> None:
    with writing(tmp_path / "index"):
        followed = follower()
        followed.thread.join(SECONDS)
    assert isinstance(followed.raised, IndexLocked)


def test_a_folder_may_go_and_come_again(
    folder: Path, follower: Callable[..., Follower], found: Callable[[str], list[str]]
) -> None:
    followed = follower()
    followed.next()
    away = folder.rename(folder.parent / "away")
    assert "no such folder" in followed.problem()
    assert found("boats")  # nothing was dropped for it
    (away / "back.txt").write_text("It is back.\n", encoding="utf-8")
    away.rename(folder)
    assert followed.next().indexed == 1
    (folder / "more.txt").write_text("And is followed again.\n", encoding="utf-8")
    assert followed.next().indexed == 1


def test_readers_see_each_update(
    folder: Path, tmp_path: Path, follower: Callable[..., Follower], embedder: HashingEmbedder
) -> None:
    followed = follower()
    followed.next()
    retriever = Retriever.open(tmp_path / "index", embedder)
    (folder / "fox.txt").write_text("The fox jumps.\n", encoding="utf-8")
    followed.next()
    assert retriever.search("fox", 1)[0].passage.path == "fox.txt"
    retriever.close()


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(include=("*.md",)),
        Selection(exclude=("guides/", "差旅*")),
        Selection(hidden=True),
        Selection(ignore=False),
    ],
    ids=str,
)
def test_a_path_is_come_to_exactly_when_a_walk_finds_it(folder: Path, selection: Selection) -> None:
    (folder / ".gitignore").write_text("/out/\n*.tmp\n", encoding="utf-8")
    (folder / "guides" / ".raglaignore").write_text("!keep.tmp\ndeep/\n", encoding="utf-8")
    for name in (
        "out/a.md",
        "b.tmp",
        "guides/keep.tmp",
        "guides/deep/c.md",
        ".dot/d.md",
        ".git/e.md",
        "f.md",
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("Text.\n", encoding="utf-8")
    index_dir = folder / "the index"
    index_dir.mkdir()
    (index_dir / "g.md").write_text("Text.\n", encoding="utf-8")
    [root] = resolve_roots([folder])
    walked = {
        item.absolute for item in walk([root], index_dir, {root: selection}) if isinstance(item, FoundFile)
    }
    reach = Reach(root, index_dir, selection)
    files = {
        path
        for path in root.rglob("*")
        if path.is_file() and path.name[1:] not in ("gitignore", "raglaignore")
    }
    assert walked
    assert {path for path in files if reach.comes_to(path)} == walked


def test_rules_are_come_to_and_what_is_gone_may_have_been_a_folder(folder: Path) -> None:
    [root] = resolve_roots([folder])
    only_markdown = Reach(root, None, Selection(include=("*.md",)))
    assert only_markdown.comes_to(root / "guides" / ".gitignore")
    assert only_markdown.comes_to(root / "gone")
    assert only_markdown.comes_to(root)
    assert not only_markdown.comes_to(root.parent)
    assert not Reach(root, None, Selection(ignore=False)).comes_to(root / ".gitignore")
