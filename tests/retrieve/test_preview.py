"""A dry run says what the run then does, and writes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ragla.config import RetrieveSettings
from ragla.errors import IndexUnusable, UsageError
from ragla.retrieve import IndexReport
from ragla.retrieve.events import Event, FileRead
from ragla.retrieve.indexer import cutting_of
from ragla.retrieve.preview import Preview, preview
from ragla.retrieve.selection import Selection

Index = Callable[..., IndexReport]


pytestmark = pytest.mark.usefixtures("no_tick")


def ignore(event: Event) -> None:
    """Nobody listens."""


@pytest.fixture
def odd(folder: Path) -> Path:
    """A folder with files that give no text."""
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 3)
    (folder / "empty.md").touch()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04nothing")
    (folder / "large.txt").write_text("words " * 1000, encoding="utf-8")
    (folder / "link.md").symlink_to("nowhere.md")
    return folder


def agree(seen: Preview, index: Index, **more: object) -> IndexReport:
    """Run, and hold what was foreseen against what was done."""
    read: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, FileRead):
            read.append(event.path)

    report = index(on_event=listen, **more)
    assert sorted(seen.to_read) == sorted(read)
    assert (len(seen.to_read), len(seen.unchanged), len(seen.removed)) == (
        report.indexed, report.unchanged, report.removed,
    )  # fmt: skip
    assert sorted(seen.skipped) == sorted(report.skipped)
    return report


def test_what_is_foreseen_is_done(index: Index, odd: Path, tmp_path: Path) -> None:
    place = tmp_path / "index"
    limit = {"max_bytes": 5000}
    seen = preview([odd], place, {}, ignore, **limit)
    assert len(seen.skipped) == 6
    assert not place.exists()
    agree(seen, index, **limit)
    agree(preview([odd], place, {}, ignore, **limit), index, **limit)
    os.utime(odd / "travel.md")
    os.utime(odd / "empty.md")
    (odd / "guides" / "boats.txt").unlink()
    (odd / "empty.md").write_text("no longer empty", encoding="utf-8")
    (odd / "差旅.md").write_text("# 新", encoding="utf-8")
    (odd / "new.md").write_text("new", encoding="utf-8")
    before = {path: path.read_bytes() for path in place.iterdir()}
    seen = preview([odd], place, {}, ignore, **limit)
    assert {path: path.read_bytes() for path in place.iterdir()} == before
    report = agree(seen, index, **limit)
    assert (report.indexed, report.unchanged, report.removed) == (3, 1, 1)


@pytest.mark.parametrize(
    "more",
    [
        {"selection": Selection(exclude=("guides/",))},
        {"selection": Selection(include=("*.txt",))},
        {"retry": True},
        {"rebuild": True},
    ],
)
def test_what_flags_choose_is_foreseen(
    index: Index, odd: Path, tmp_path: Path, more: dict[str, object]
) -> None:
    index()
    seen = preview([odd], tmp_path / "index", {}, ignore, **more)  # type: ignore[arg-type]
    agree(seen, index, **more)


def test_a_parser_that_breaks_does_not_end_it(
    odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragla.retrieve import preview as preview_module

    def explode(name: str, raw: bytes) -> object:
        raise RecursionError("deep")

    monkeypatch.setattr(preview_module, "read_document", explode)
    seen = preview([odd], tmp_path / "index", {}, ignore)
    assert ("cannot be parsed (RecursionError)") in [reason for _, reason in seen.skipped]


def test_what_the_run_would_refuse_is_refused(index: Index, folder: Path, tmp_path: Path) -> None:
    index()
    place, other = tmp_path / "index", cutting_of(RetrieveSettings(chunk_tokens=100))
    with pytest.raises(IndexUnusable, match="chunk_tokens"):
        preview([folder], place, other, ignore)
    assert len(preview([folder], place, other, ignore, rebuild=True).to_read) == 3
    (place / "current").write_text("nonsense", encoding="ascii")
    with pytest.raises(IndexUnusable, match="nothing says"):
        preview([folder], place, {}, ignore)
    with pytest.raises(UsageError):
        preview([folder / "nowhere"], place, {}, ignore)
