"""A milvus-lite server as a process of its own, on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from ragla.config import RetrieveSettings

START_S = 60.0


def free_port() -> int:
    with contextlib.closing(socket.socket()) as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


class Server:
    """Started on ``data``; can be killed in the middle of anything and started again on the same port."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def uri(self, collection: str) -> str:
        return f"milvus://127.0.0.1:{self.port}/{collection}"

    def start(self) -> Server:
        code = "import sys; from milvus_lite.cmdline import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "server", "--data-dir", str(self.data)]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            assert self._process.poll() is None, "the server did not start"
            time.sleep(0.05)
        raise AssertionError("the server did not listen in time")

    def kill(self) -> None:
        """As a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It keeps its connections and answers no more."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


def at(uri: str, **more: object) -> RetrieveSettings:
    """Settings of a profile that searches there."""
    return RetrieveSettings(store="milvus", milvus_uri=uri, chunk_tokens=24, **more)  # type: ignore[arg-type]
