"""A server process on a tiny index, and OpenAI's own client to talk to it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.cli.conftest import elsewhere, ragla, world
from tests.cli.tiny_world import World
from tests.documented import faults

__all__ = ["elsewhere", "ragla", "world"]

RAGLA = Path(sys.executable).with_name("ragla")
TOKEN = "a-token-that-only-tests-know"
START_S = 120.0


@dataclass(frozen=True)
class Server:
    """A running ``ragla serve``."""

    process: subprocess.Popen[str]
    url: str

    def client(self, **more: Any) -> OpenAI:
        settings = {"base_url": f"{self.url}/v1", "api_key": TOKEN, "max_retries": 0, "timeout": 60.0}
        return OpenAI(**(settings | more))

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)


@contextmanager
def serving(world: World, cache: Path, *flags: str) -> Iterator[Server]:
    """Run the command; it has ended behind this."""
    token = cache / "token"
    token.write_text(f"{TOKEN}\n", encoding="ascii")
    command = [
        str(RAGLA),
        "serve",
        *world.flags,
        "--port",
        "0",
        "--jsonl",
        "--token-file",
        str(token),
        *flags,
    ]
    environment = os.environ | {"RAGLA_CACHE": str(cache)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
    with subprocess.Popen(command, text=True, env=environment, start_new_session=True, **pipes) as process:
        signal.signal(signal.SIGINT, before)
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert select.select([process.stdout], [], [], START_S)[0], "the server does not start"
            line = process.stdout.readline()
            assert line, process.stderr.read()
            assert faults(json.loads(line)) == []
            yield Server(process, json.loads(line)["url"])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a file; the last may end it."""
    with serving(world, tmp_path_factory.mktemp("serve"), "--queue", "1", "--timeout", "60") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with server.client() as made:
        yield made
