"""Where texts are embedded: what a setting names, and several processes that never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hashing_embedder import HashingEmbedder
from tiny_embedder import save_tiny_embedder

from ragla.config import RetrieveSettings
from ragla.errors import RaglaError, UsageError
from ragla.retrieve import SentenceEmbedder, index_folders
from ragla.retrieve.devices import check_devices, device_names

TEXTS = [" ".join(["boats", "a trains", "query"][: number % 3 + 1]) for number in range(40)]
EMBEDS_FOR_EVER = """
import sys
from pathlib import Path
from ragla.process import prepare
prepare()
from ragla.retrieve import SentenceEmbedder
if __name__ == "__main__":
    embedder = SentenceEmbedder(Path(sys.argv[1]), "tiny", ["cpu", "cpu"])
    embedder.encode_passages(["boats"] * 100, 4)
    print(*[process.pid for process in embedder._workers._pool["processes"]], flush=True)
    while True:
        embedder.encode_passages(["boats"] * 100, 4)
"""


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_embedder(tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("auto", ()),
        ("cpu", ("cpu",)),
        ("cuda:0, cuda:1", ("cuda:0", "cuda:1")),
        (["cpu", "cpu"], ("cpu", "cpu")),
    ],
)
def test_what_a_setting_names(setting: str | list[str], names: tuple[str, ...]) -> None:
    assert device_names(setting) == names


@pytest.mark.parametrize("setting", ["", [], "cpu,", ["auto", "cpu"], ","])
def test_a_setting_that_names_nothing(setting: str | list[str]) -> None:
    with pytest.raises(UsageError, match="names no devices"):
        device_names(setting)


@pytest.mark.parametrize("name", ["quantum", "cuda:x", "meta", "", "cpu cpu", "cuda:9999", "9"])
def test_a_device_that_is_not_there_is_one_line(name: str) -> None:
    check_devices(["cpu"])
    with pytest.raises(UsageError, match=r"retrieve\.device") as caught:
        check_devices(["cpu", name])
    assert "\n" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("device", "batch_size", "window"), [("auto", 32, 256), (("cpu", "cpu"), 32, 512), ("cpu", 100, 400)]
)
def test_windows_grow_with_devices_and_batches(
    tmp_path: Path, device: str | tuple[str, ...], batch_size: int, window: int
) -> None:
    sizes: list[int] = []

    class Counting(HashingEmbedder):
        def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
            sizes.append(len(texts))
            return super().encode_passages(texts, batch_size)

    (tmp_path / "docs").mkdir()
    chapters = "".join(f"# Chapter {number}\n\nText {number}.\n\n" for number in range(600))
    (tmp_path / "docs" / "book.md").write_text(chapters)
    settings = RetrieveSettings(device=device, batch_size=batch_size)
    index_folders([tmp_path / "docs"], tmp_path / "index", settings, Counting())
    assert (max(sizes), sum(sizes)) == (window, 600)


def test_several_processes_embed_as_one_does_and_stop(model_folder: Path) -> None:
    alone = SentenceEmbedder(model_folder, "tiny", "cpu")
    shared = SentenceEmbedder(model_folder, "tiny", ["cpu", "cpu"])
    assert shared._workers is not None
    try:
        assert shared.encode_passages(TEXTS[:4], 4).shape == (4, 16)
        assert not shared._workers.running  # not for so few
        vectors = shared.encode_passages(TEXTS, 4)
        assert shared._workers.running
        assert np.allclose(vectors, alone.encode_passages(TEXTS, 4), atol=1e-5)
        assert np.allclose(shared.encode_query("boats"), alone.encode_query("boats"), atol=1e-5)
        processes = list(shared._workers._pool["processes"])  # type: ignore[index]
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(RaglaError, match="ended unexpectedly"):
            shared.encode_passages(TEXTS, 4)
        assert not shared._workers.running
    finally:
        shared.close()
    with pytest.raises(ValueError, match="closed"):
        processes[0].is_alive()


@pytest.fixture
def embedding(
    model_folder: Path, tmp_path: Path, heard_interrupts: None
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process in a group of its own that embeds in two others, whose ids it said."""
    script = tmp_path / "embeds_for_ever.py"
    script.write_text(EMBEDS_FOR_EVER, encoding="utf-8")
    parent = subprocess.Popen(
        [sys.executable, str(script), str(model_folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    yield parent, workers
    for process in (parent.pid, *workers):
        if _runs(process):
            os.kill(process, signal.SIGKILL)
    parent.communicate()


@pytest.mark.skipif(os.name != "posix", reason="process groups and SIGKILL are POSIX's")
def test_an_interrupt_of_the_terminal_leaves_no_process_and_one_traceback(
    embedding: tuple[subprocess.Popen[str], list[int]],
) -> None:
    parent, workers = embedding
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = parent.communicate(timeout=60)
    assert said.count("Traceback") == 1  # the parent's own, which a command does not show
    assert "KeyboardInterrupt" in said
    assert "leaked" not in said  # semaphores
    assert not any(map(_runs, workers))


@pytest.mark.skipif(os.name != "posix", reason="process groups and SIGKILL are POSIX's")
def test_a_parent_that_was_killed_leaves_no_process(
    embedding: tuple[subprocess.Popen[str], list[int]],
) -> None:
    parent, workers = embedding
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_runs, workers))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or ") Z " not in stat.read_text()
