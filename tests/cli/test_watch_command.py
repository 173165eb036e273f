"""``ragla index --watch`` as a process: real files, a real interrupt."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from ragla.retrieve.layout import writing
from tests.cli.test_process import RAGLA
from tests.cli.tiny_world import Ragla, World

SECONDS = 90.0

pytestmark = pytest.mark.usefixtures("heard_interrupts")


class Lines:
    """Lines of a stream, as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=lambda: [self._lines.put(line) for line in stream])
        self._reader.start()

    def until(self, text: str) -> str:
        """The next line with ``text`` in it."""
        while text not in (line := self._lines.get(timeout=SECONDS)):
            pass
        return line

    def rest(self) -> list[str]:
        self._reader.join(SECONDS)
        return list(self._lines.queue)


@pytest.fixture
def watched(world: World, tmp_path: Path) -> Iterator[tuple[Path, Path, subprocess.Popen[str]]]:
    """Documents, their index, and the command that follows them."""
    docs, index = tmp_path / "docs 差旅", tmp_path / "index"
    docs.mkdir()
    (docs / "first.txt").write_text("Boats are moored at the pier.\n", encoding="utf-8")
    (docs / ".gitignore").write_text("*.log\n", encoding="utf-8")
    words = [str(RAGLA), "index", str(docs), "--watch", "--json", "--index", str(index)]
    with subprocess.Popen(
        [*words, "--profile", str(world.profile)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    ) as process:  # fmt: skip
        yield docs, index, process
        process.kill()


def test_changes_are_indexed_until_ctrl_c(watched: tuple[Path, Path, subprocess.Popen[str]]) -> None:
    docs, index, process = watched
    assert process.stdout is not None
    assert process.stderr is not None
    lines, problems = Lines(process.stdout), Lines(process.stderr)
    assert json.loads(lines.until("{"))["indexed"] == 1
    with writing(index):  # free while nothing changes
        pass
    (docs / "run.log").write_text("Not a document.\n", encoding="utf-8")
    (docs / "second\x1b[31m.txt").write_text("The hotel limit in Paris is 180 euros.\n", encoding="utf-8")
    assert json.loads(lines.until("{"))["indexed"] == 1
    (docs / "first.txt").unlink()
    assert json.loads(lines.until("{"))["removed"] == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    last = json.loads("".join(lines.rest()))
    assert (last["schema"], last["exit_code"]) == ("ragla.error/1", 130)
    assert problems.rest() == ["interrupted\n"]


def test_without_a_folder_and_an_index_it_says_what_to_do(ragla: Ragla) -> None:
    result = ragla("index", "--watch")
    assert result.exit_code == 3
    assert "ragla index FOLDER" in result.stderr


def test_a_missing_package_is_said_before_a_model_is_loaded(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    monkeypatch.setattr("ragla.session.open_embedder", lambda _: pytest.fail("loaded"))
    result = ragla("index", world.docs, "--watch", *world.flags)
    assert result.exit_code == 2
    assert "pip install 'ragla[watch]'" in result.stderr
