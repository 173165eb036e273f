"""A server that answers as a test tells it to, down to the bytes: a thread of this process, on loopback."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

ONE_MODEL = {"object": "list", "data": [{"id": "parrot-7b", "object": "model", "owned_by": "vllm"}]}


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Say = Callable[["Line", Asked], None]


class Line:
    """The connection to one client."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def write(self, content: bytes) -> None:
        """Send bytes at once, as a piece of their own."""
        self.connection.sendall(content)

    def head(self, status: str = "200 OK", kind: str = "text/event-stream", *more: str) -> None:
        """The head of a response that ends with its connection."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more]
        self.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())

    def json(self, status: str, document: Any, *more: str) -> None:
        """A whole response."""
        self.head(status, "application/json", *more)
        self.write(json.dumps(document).encode())

    def event(self, document: Any) -> None:
        """One event."""
        self.write(f"data: {json.dumps(document)}\n\n".encode())

    def piece(self, text: str, reason: str | None = None, **more: Any) -> None:
        """An event with some text."""
        self.event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}], **more})

    def done(self, **last: Any) -> None:
        """The end of an answer, as vLLM sends it."""
        self.piece("", "stop")
        if last:
            self.event({"choices": [], **last})
        self.write(b"data: [DONE]\n\n")

    def closed_by_client(self, seconds: float = 10.0) -> bool:
        """Whether the client hangs up within that time."""
        self.connection.settimeout(seconds)
        try:
            return self.connection.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def saying(*pieces: str, **last: Any) -> Say:
    """A whole answer in pieces."""

    def say(line: Line, asked: Asked) -> None:
        line.head()
        for piece in pieces:
            line.piece(piece)
        line.done(**last)

    return say


@dataclass
class FakeServer:
    """``says``: what the questions are answered with, one after the other, the last again and again.

    ``models``: the document of /v1/models, or what answers instead. ``asked``: the requests that came.
    """

    says: Sequence[Say]
    models: Any = field(default_factory=lambda: ONE_MODEL)
    asked: list[Asked] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What the questions were."""
        return [asked.body for asked in self.asked if asked.method == "POST"]

    def answer(self, line: Line, asked: Asked) -> None:
        self.asked.append(asked)
        if asked.method == "POST":
            self.says[min(len(self.bodies), len(self.says)) - 1](line, asked)
        elif callable(self.models):
            self.models(line, asked)
        else:
            line.json("200 OK", self.models)

    @property
    def flags(self) -> list[str]:
        """What makes ragla ask this server."""
        return [
            *("-s", "decode.backend=remote", "-s", f"decode.remote_url={self.url}"),
            *("-s", "decode.remote_read_s=5", "-s", "decode.remote_retries=1"),
        ]


@contextmanager
def serving(*says: Say, models: Any = ONE_MODEL) -> Iterator[FakeServer]:
    """Run it; it has ended behind this."""
    fake = FakeServer(says, models)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                fake.answer(Line(self.connection), self.read())
            except ConnectionError:
                fake.hung_up.set()

        def read(self) -> Asked:
            method, path, _ = self.rfile.readline().decode().split()
            headers: dict[str, str] = {}
            while line := self.rfile.readline().decode().strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            content = self.rfile.read(int(headers.get("content-length", "0")))
            return Asked(method, path, headers, json.loads(content) if content else {})

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
