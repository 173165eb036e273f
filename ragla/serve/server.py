"""Binds the port, runs the application until a signal comes, and ends it cleanly."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from ragla.errors import UsageError
from ragla.serve.app import Service

ENDING_S = 10.0  # for a step of the model that is being computed
MOST_CONNECTIONS = 256
MOST_HEADER = 1 << 16  # bytes
NEAR = 20  # ports that are looked at for a free one


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address; nobody can connect before the server runs.

    Raises UsageError for an address that is in use or is none of this machine's.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host}: no such address", "use --host 127.0.0.1") from error
    family, kind, protocol, _, address = found[0]
    try:
        return _bound(family, kind, protocol, address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = _free_port(family, kind, protocol, address)
            mend = f"use another: ragla serve --port {free}" if free else "use --port 0 for any free one"
            raise UsageError(f"port {port} of {host} is in use", mend) from error
        if error.errno == errno.EACCES:
            raise UsageError(f"port {port} needs rights you do not have", "use --port 8000") from error
        raise UsageError(f"--host {host}: {error.strerror}", "use --host 127.0.0.1") from error


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where the other flag would share the port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def _free_port(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> int | None:
    host, port, *rest = address
    assert isinstance(port, int)
    for near in range(port + 1, min(port + NEAR, 65536)):
        try:
            _bound(family, kind, protocol, (host, near, *rest)).close()
        except OSError:
            continue
        return near
    return None


def url(bound: socket.socket) -> str:
    """Where clients find the server."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Stops the answer that is being written, so that nobody has to wait for its end."""

    on_exit: Callable[[], None]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C or SIGTERM; a second Ctrl-C waits for nothing."""
        super().handle_exit(sig, frame)
        self.on_exit()


def run(app: ASGIApp, service: Service, bound: socket.socket) -> bool:
    """Serve until SIGINT or SIGTERM; whether everything has ended. Ctrl-C raises nothing here."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=MOST_HEADER,
        timeout_graceful_shutdown=int(ENDING_S),
    )
    server = _Server(config)
    server.on_exit = lambda: service.stop()
    with _signals_heard():
        server.run(sockets=[bound])
    return service.close(0.0 if server.force_exit else ENDING_S)


@contextmanager
def _signals_heard() -> Iterator[None]:
    """uvicorn raises the signals that ended it again, for handlers it found; these have nothing to do."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
