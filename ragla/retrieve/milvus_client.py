"""A connection to Milvus: what a URI names, how long is waited, and what went wrong, as errors of ragla."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragla.errors import IndexLocked, IndexUnusable, RaglaError, UsageError
from ragla.secrets import HIDDEN, hide_in_address
from ragla.user_path import user_path

if TYPE_CHECKING:
    from ragla.config import RetrieveSettings

COLLECTION = "ragla"
PORT = 19530
INSTALL = "pip install 'ragla[milvus]'"
_FORM = re.compile(
    r"(?P<scheme>milvus|http|https)://(?P<host>\[[0-9a-fA-F:]+\]|[^\s/:@\[\]?#]+)(?::(?P<port>\d{1,5}))?"
    r"(?:/(?P<collection>[^\s/?#]*))?/?"
)
_NAME = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
_FORMS = (
    "milvus://HOST:19530/COLLECTION, https://HOST/COLLECTION, or milvus:FILE.db for a file of this machine"
)
_REACH_S = 5.0
# A server that was started again is found soon: else channels to one address wait together, ever longer.
_CHANNEL = {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.max_reconnect_backoff_ms": 2000,
}
_HERE = "or search the index of this machine: --set retrieve.store=faiss"
_open_files: Counter[Path] = Counter()  # whose servers run in this process, and for how many connections


@dataclass(frozen=True)
class Target:
    """Where passages are. ``uri``: what pymilvus is given; ``file``: of milvus-lite, None for a server."""

    uri: str
    collection: str
    file: Path | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        """As a user may write it: read again, it names the same."""
        if self.file is not None:
            return f"milvus:{self.file}"
        scheme = "https" if self.uri.startswith("https:") else "milvus"
        return f"{scheme}://{self.host}:{self.port}/{self.collection}"


def target_of(uri: str | None) -> Target:
    """What ``retrieve.milvus_uri`` or ``--to`` names. Raises UsageError for anything else."""
    if not uri:
        raise UsageError("retrieve.store is milvus, but retrieve.milvus_uri names none", f"one of: {_FORMS}")
    written = uri.strip()
    if found := _FORM.fullmatch(written):
        secure = found["scheme"] == "https"
        port = int(found["port"] or (443 if secure else PORT))
        collection = found["collection"] or COLLECTION
        if _NAME.fullmatch(collection) and port in range(1, 65_536):
            scheme = "https" if secure else "http"
            return Target(f"{scheme}://{found['host']}:{port}", collection, None, found["host"], port)
    elif "://" not in written and (path := written.removeprefix("milvus:")).endswith(".db"):
        file = user_path(path).absolute()
        return Target(str(file), COLLECTION, file)
    raise UsageError(f"{hide_in_address(written)}: no place of Milvus", f"one of: {_FORMS}")


class Connection:
    """A client of one collection's server; every call ends in bounded time and raises errors of ragla.

    ``writes``: a file that is not there is made.
    """

    def __init__(self, target: Target, settings: RetrieveSettings, *, writes: bool = False) -> None:
        self.target = target
        self._writes = writes
        self._seconds = settings.milvus_timeout_s
        MilvusClient = _client_class()
        if target.file is None:
            self._reach()
        elif not target.file.exists() and not writes:
            raise IndexUnusable(f"{target}: no index here", f"ragla index --to {target}")
        elif not target.file.parent.is_dir():
            raise UsageError(f"{target}: there is no folder {target.file.parent}", "make it, or name another")
        token = self._token = os.environ.get(settings.milvus_token_env, "")
        with self.errors():
            if target.file is not None:
                _start_server(target)
                _open_files[target.file] += 1
            self._client = MilvusClient(
                uri=target.uri, token=token, timeout=self._seconds, dedicated=True, grpc_options=_CHANNEL
            )

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """What a method of ``MilvusClient`` gives. Raises IndexUnusable, RaglaError on a full disk."""
        with self.errors():
            return getattr(self._client, name)(*arguments, timeout=self._seconds, **named)

    def rows(self, collection: str, filter: str, fields: list[str]) -> Iterator[dict[str, Any]]:
        """All rows that pass, however many. Raises as ``call``."""
        with self.errors():
            found = self._client.query_iterator(
                collection, batch_size=1000, filter=filter, output_fields=fields, timeout=self._seconds
            )
            try:
                while batch := found.next():
                    yield from batch
            finally:
                found.close()

    def close(self) -> None:
        """Let go of the server, and of a file that was opened."""
        with contextlib.suppress(Exception):  # one that is gone needs no closing
            self._client.close()
        file = self.target.file
        if file is not None and _open_files[file]:
            _open_files[file] -= 1
            if not _open_files[file]:
                from milvus_lite.server_manager import server_manager_instance

                server_manager_instance.release_server(str(file))

    def _reach(self) -> None:
        """Raise IndexUnusable at once where nothing listens: the library would try for as long as it may."""
        try:
            seconds = min(self._seconds, _REACH_S)
            socket.create_connection((self.target.host.strip("[]"), self.target.port), seconds).close()
        except TimeoutError as error:
            raise _late(self.target, seconds) from error
        except OSError as error:
            raise _gone(self.target, error.strerror or str(error)) from error

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what the library raises into errors a user can act on."""
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, grpc.RpcError, grpc.FutureTimeoutError, ConnectionError) as error:
            raise self._said(error) from error

    def _said(self, error: Exception) -> RaglaError:
        text = " ".join(str(error).split())
        text = text.replace(self._token, HIDDEN) if self._token else text
        if "No space left" in text or "disk quota" in text.lower() or "ENOSPC" in text:
            return RaglaError(
                f"{self.target}: its disk is full; what it had is kept",
                "make room there and run the same again",
            )
        # It was reached, so that what is not ready within the time is there and says nothing.
        if any(words in text for words in ("DEADLINE_EXCEEDED", "Deadline Exceeded", "Fail connecting")):
            return _late(self.target, self._seconds)
        if "UNAVAILABLE" in text:
            return _gone(self.target, "the connection broke")
        if any(words in text.lower() for words in ("unauthenticated", "auth check", "permission den")):
            return IndexUnusable(
                f"{self.target}: the token is refused",
                "put it in the variable that retrieve.milvus_token_env names",
            )
        said = text.partition("message=")[2].removesuffix(")>") or text
        return IndexUnusable(f"{self.target}: Milvus says: {said[:300]}", self._mend())

    def _mend(self) -> str:
        """What a collection that cannot be read is made anew with."""
        if self.target.file is None:
            return f"ask whoever runs the server, {_HERE}"
        if self._writes:  # with --rebuild it may have been tried
            return f"ragla index --to {self.target} --rebuild; if that fails, delete {self.target.file} first"
        return f"ragla index --to {self.target} --rebuild"


def _client_class() -> Any:
    """``MilvusClient``, made to say nothing by itself. Raises UsageError where it is not installed."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        import pymilvus
    except ImportError as error:
        raise UsageError("retrieve.store milvus needs pymilvus, which is not installed", INSTALL) from error
    for name in ("pymilvus", "milvus_lite", "grpc"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus.MilvusClient


def _start_server(target: Target) -> None:
    """Start milvus-lite on a file in this process, if it is not yet.

    Raises IndexLocked where another process has the file open, IndexUnusable where it cannot be opened.
    """
    try:
        from milvus_lite.server_manager import server_manager_instance
    except ImportError as error:
        raise UsageError(f"{target} needs milvus-lite, which is not installed", INSTALL) from error
    with _startup_errors(target):
        if server_manager_instance.start_and_get_uri(str(target.file)) is None:
            raise IndexUnusable(f"{target}: cannot be opened", "name another file")


@contextlib.contextmanager
def _startup_errors(target: Target) -> Iterator[None]:
    """milvus-lite logs why a file cannot be opened and returns nothing: what it logs is listened to."""
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(str(record.exc_info[1] if record.exc_info else record.getMessage()))

    logger, listener = logging.getLogger("milvus_lite.server_manager"), Listener()
    logger.addHandler(listener)
    logger.propagate, before = False, logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except IndexUnusable as error:
        why = " ".join(" ".join(heard).split())
        if "lock" in why.lower():
            raise IndexLocked(
                f"{target}: another process has this file open",
                "wait until it has finished, or let a server have it: milvus-lite server",
            ) from error
        if "No space left" in why:
            raise RaglaError(f"{target}: the disk is full", "make room and run the same again") from error
        raise IndexUnusable(f"{target}: cannot be opened: {why[:300]}", error.hint) from error
    finally:
        logger.removeHandler(listener)
        logger.setLevel(before)


def _gone(target: Target, why: str) -> IndexUnusable:
    return IndexUnusable(f"{target}: Milvus does not answer: {why}", f"start it, {_HERE}")


def _late(target: Target, seconds: float) -> IndexUnusable:
    return IndexUnusable(
        f"{target}: Milvus did not answer within {seconds:g} s",
        f"--set retrieve.milvus_timeout_s=60, {_HERE}",
    )
