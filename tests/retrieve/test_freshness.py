"""What became of a file since it was indexed is seen when it is read again, whatever it has become."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ragla.retrieve import freshness as module
from ragla.retrieve.freshness import freshness
from ragla.retrieve.passage import Passage

TEXT = "# Travel\r\n\r\nThe limit is 180 euros.\nAsk the desk.\n"


def passage(path: Path, text: str = "The limit is 180 euros.\nAsk the desk.", first: int = 3) -> Passage:
    start = TEXT.find(text)
    return Passage(
        1, 1, path.name, str(path), "", text, start, start + len(text), first, first + text.count("\n")
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "旅行 a.md"
    path.write_bytes(TEXT.encode())
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_as_it_was_is_the_same_even_when_it_was_touched(file: Path) -> None:
    known = digest(file)
    os.utime(file, (1, 1))
    assert freshness(passage(file), known) == "same"


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (TEXT.replace("180", "190"), "changed"),
        (TEXT + "More.\n", "changed elsewhere"),
        (TEXT.replace("Travel", "Journeys"), "changed elsewhere"),
        ("New first line.\n" + TEXT, "changed"),  # its lines are others now
        ("", "changed"),
        ("\0" * 200, "changed"),
        (TEXT.replace("desk", "disk"), "changed"),
    ],
)
def test_a_changed_file_is_looked_through_for_the_passage(file: Path, now: str, found: str) -> None:
    known = digest(file)
    file.write_bytes(now.encode())
    assert freshness(passage(file), known) == found


def test_a_document_that_the_index_dropped_meanwhile_is_not_the_same(file: Path) -> None:
    assert freshness(passage(file), None) == "changed elsewhere"


def test_a_file_that_is_gone_is_gone(file: Path) -> None:
    known = digest(file)
    file.unlink()
    assert freshness(passage(file), known) == "gone"
    assert freshness(passage(file / "below"), known) == "gone"


def test_what_cannot_be_read_says_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = digest(file)
    assert freshness(passage(file.parent), known) is None
    assert freshness(passage(Path("a\0b")), known) is None
    pipe = file.with_name("pipe")
    os.mkfifo(pipe)
    assert freshness(passage(pipe), known) is None  # and nobody waits for a writer
    monkeypatch.setattr(module, "MAX_BYTES", len(TEXT) - 1)
    assert freshness(passage(file), known) is None


def test_no_descriptor_is_left_open(file: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path in (file, file.parent, file / "below"):
        freshness(passage(path), None)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
