"""llama.cpp's server, as its Python package has it, answers like any other; skipped where that is absent.

The package is compiled for ten minutes, so it is in no extra:
``pip install 'llama-cpp-python[server]'``, then ``pytest tests/extras/test_remote_llama_cpp.py``.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from ragla.render import safe
from tests.cli.conftest import elsewhere, ragla, world
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults
from tests.tiny_gguf import random_model, write_gguf

__all__ = ["elsewhere", "ragla", "world"]

pytest.importorskip("llama_cpp.server.app", reason="needs llama-cpp-python[server]")

START_S = 60.0
WINDOW = 4096  # the tiny tokenizer knows bytes, so a prompt is long


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server with a tiny random model."""
    model = write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", random_model("llama"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = model.with_suffix(".log")
    command = [sys.executable, "-m", "llama_cpp.server", "--model", model, "--n_ctx", WINDOW]
    command += ["--host", "127.0.0.1", "--port", port, "--n_threads", 1]
    with log.open("wb") as file:
        process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=file)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server answers."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx2.get(url, trust_env=False).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.1)
    pytest.fail(f"no server: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


@pytest.fixture
def flags(world: World, url: str) -> list[str]:
    """What asks it; the tokens of its model are shorter than those that are counted with."""
    return [*world.flags, "-s", "decode.backend=remote", "-s", f"decode.remote_url={url}"]


def test_it_answers_with_sources(ragla: Ragla, flags: list[str]) -> None:
    small = ("-s", "prompt.token_budget=120")
    told = document(ragla("ask", QUESTION, *flags, *small, "--json"))
    assert faults(told) == []
    assert told["remote"] is True
    assert told["sources"]
    again = document(ragla("ask", QUESTION, *flags, *small, "--json"))
    assert (again["answer"], again["answered"]) == (told["answer"], told["answered"])
    shown = ragla("ask", QUESTION, *flags, *small)
    assert shown.exit_code in (0, 4)
    assert shown.stdout == f"{safe(told['answer'])}\n"  # a random model writes control characters


def test_questions_that_follow_each_other(ragla: Ragla, flags: list[str]) -> None:
    small = ("-s", "prompt.token_budget=120", "-s", "decode.max_new_tokens=8")
    lines = ragla("chat", *flags, *small, "--jsonl", stdin=f"{QUESTION}\nAnd in Rome?\n").stdout
    assert [json.loads(line)["question"] for line in lines.splitlines()] == [QUESTION, "And in Rome?"]


def test_a_prompt_beyond_its_window_is_said_with_what_helps(ragla: Ragla, flags: list[str]) -> None:
    """It does not tell its window, and a stream for which there is no room simply ends."""
    long = "Which limits are there? " * 400
    result = ragla("ask", long, *flags, "-s", "retrieve.relevance_floor=-1")
    assert result.exit_code == 5, result.output
    assert "ended the answer before its first word" in result.stderr
    assert "--set decode.remote_window=N" in result.stderr


def test_a_key_is_asked_for_by_nobody(
    ragla: Ragla, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sesame-open-0123456789")
    sent = ragla(
        "ask", QUESTION, *flags, "-s", "decode.remote_key_env=MY_KEY", "-s", "prompt.token_budget=120"
    )
    assert sent.exit_code in (0, 4), sent.output
