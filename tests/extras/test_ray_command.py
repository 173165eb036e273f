"""``ragla index --on ray`` as it is typed: a cluster of this machine, for the while."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray_helpers import processes_with

from ragla.retrieve.check import content_hash
from tests.cli.tiny_world import World

pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")

COMMAND = "import sys; from ragla.cli import app; sys.exit(app())"


@contextmanager
def indexing(world: World, home: Path, index: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, with a home of its own, by which all that it starts is known."""
    words = ["index", world.docs, "--index", index, "--profile", world.profile, "--on", "ray"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, words)], text=True, start_new_session=True,
        env=environment | {"HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def started_by(home: Path) -> list[str]:
    """All that has this home."""
    return list(processes_with(f"HOME={home}").values())


def wait_until(is_so: object, seconds: float) -> bool:
    assert callable(is_so)
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def test_the_same_index_one_line_and_nothing_left_behind(world: World, tmp_path: Path) -> None:
    with indexing(world, tmp_path, tmp_path / "index") as process:
        stdout, stderr = process.communicate(timeout=200)
    assert process.returncode == 0, stderr
    assert stdout == ""
    assert stderr.startswith("4 indexed, 0 unchanged")
    assert stderr.count("\n") == 1
    assert content_hash(tmp_path / "index") == content_hash(world.index)
    assert wait_until(lambda: not started_by(tmp_path), 90), started_by(tmp_path)
    assert not (tmp_path / ".ray").exists()  # no token is left there


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize(
    ("how", "there"),
    [
        (signal.SIGINT, "raylet"),
        (signal.SIGTERM, "EmbeddingWorker"),
        (signal.SIGKILL, "raylet"),
    ],
)
def test_an_interrupted_or_killed_run_leaves_no_cluster(
    world: World, tmp_path: Path, how: signal.Signals, there: str
) -> None:
    with indexing(world, tmp_path, tmp_path / "index") as process:
        assert wait_until(lambda: any(there in one for one in started_by(tmp_path)), 100)
        process.send_signal(how)
        _, stderr = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert (process.returncode, stderr) == (130, "interrupted\n")
    if how == signal.SIGTERM:
        assert (process.returncode, stderr) == (-how, "")
    assert wait_until(lambda: not started_by(tmp_path), 90), started_by(tmp_path)
