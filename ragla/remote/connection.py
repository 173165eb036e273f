"""One request to a server and the bytes that come back: time-outs, retries, bounds, and an end at any time.

Nothing is asked again once an answer may have begun. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any

import httpx2

from ragla import __version__
from ragla.errors import RaglaError
from ragla.remote import faults
from ragla.remote.address import Address

MOST_ERROR = 1 << 16  # bytes read of a response that is none of success
MOST_DOCUMENT = 1 << 23  # bytes of a response in one piece
MOST_EVENT = 1 << 20
FIRST_PAUSE_S = 0.5  # doubled from one try to the next
LONGEST_PAUSE_S = 60.0  # a server that asks for more is not waited for
BUSY = (429, 503)
POLL_S = 0.1  # between two looks at whether the answer is to end

OnWait = Callable[[float], None]
"""Told how many seconds will pass before a server is asked again."""


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for. ``read_s``: the longest silence; ``retries``: before it answers."""

    connect_s: float = 10.0
    read_s: float = 300.0
    retries: int = 2


class Connection:
    """A server that is asked one thing after the other; ``models``: names for what it may have not found.

    ``resumes``: until then, by ``monotonic``, it is left in peace: its silence is no fault.
    """

    def __init__(self, address: Address, patience: Patience, on_wait: OnWait | None = None) -> None:
        self.address = address
        self.patience = patience
        self.models: list[str] = []
        self.resumes = 0.0
        self._on_wait = on_wait

    def document(self, path: str) -> tuple[int, Any]:
        """The status of a GET, and its JSON; None for what is no JSON. Raises RaglaError."""
        with asyncio.Runner() as runner:
            return runner.run(self._document(path))

    async def _document(self, path: str) -> tuple[int, Any]:
        async with self._response("GET", path, None) as response:
            body = await self._body(response, MOST_DOCUMENT)
            if response.status_code not in (200, 404, 405):
                raise faults.refused(self.address, response.status_code, response.headers, body)
            try:
                return response.status_code, json.loads(body)
            except (ValueError, RecursionError):
                return response.status_code, None

    @contextmanager
    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[Iterator[str | None]]:
        """The data of the events that answer a POST; None where nothing has come for a moment.

        A response in one piece is one event. Leaving the context ends the request. Raises RaglaError.
        """
        source = self._events(path, body)
        with asyncio.Runner() as runner:
            waited: list[asyncio.Task[str | None]] = []
            try:
                yield self._polled(runner, source, waited)
            finally:
                runner.run(_end(source, waited))

    def _polled(
        self,
        runner: asyncio.Runner,
        source: AsyncGenerator[str, None],
        waited: list[asyncio.Task[str | None]],
    ) -> Iterator[str | None]:
        loop = runner.get_loop()
        while True:
            waited[:] = [loop.create_task(_following(source))]
            while not waited[0].done():
                runner.run(_wait(waited[0]))
                if not waited[0].done():
                    yield None
            data = waited[0].result()
            if data is None:
                return
            yield data

    async def _events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        async with self._response("POST", path, body) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code != 200:
                said = await self._body(response, MOST_ERROR)
                raise faults.refused(self.address, response.status_code, response.headers, said, self.models)
            if kind == "text/event-stream":
                try:
                    async for event in httpx2.EventSource(response, MOST_EVENT):
                        if event.data:
                            yield event.data
                except httpx2.HTTPError as error:
                    raise self._fault(error) from error
            elif kind == "application/json":
                yield (await self._body(response, MOST_DOCUMENT)).decode("utf-8", errors="replace")
            else:
                raise faults.no_completions(self.address, kind)

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> AsyncIterator[httpx2.Response]:
        """The response to a request, its body unread; asked again while that is safe."""
        patience = self.patience
        timeout = httpx2.Timeout(patience.read_s, connect=patience.connect_s)
        headers = {"User-Agent": f"ragla/{__version__}", "Accept-Encoding": "identity"}
        if self.address.key:
            headers["Authorization"] = f"Bearer {self.address.key}"
        try:
            client = httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=not self.address.local)
        except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
            raise faults.unusable_environment(self.address, error) from error
        async with client as http:
            request = http.build_request(method, f"{self.address.url}{path}", json=body)
            response = await self._send(http, request)
            try:
                yield response
            finally:
                await response.aclose()

    async def _send(self, http: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        for attempt in range(self.patience.retries + 1):
            last = attempt == self.patience.retries
            pause = FIRST_PAUSE_S * 2**attempt
            try:
                async with asyncio.timeout(self.patience.connect_s + self.patience.read_s):
                    response = await http.send(request, stream=True)
            except TimeoutError as error:  # it sends, but so slowly that even a head takes for ever
                raise faults.silent(self.address, self.patience.read_s) from error
            except httpx2.ConnectError as error:
                if last:
                    raise self._fault(error) from error
            except httpx2.HTTPError as error:
                raise self._fault(error) from error
            else:
                asked = retry_after(response.headers)
                pause = pause if asked is None else asked
                if response.status_code not in BUSY or last or pause > LONGEST_PAUSE_S:
                    return response
                await response.aclose()
            if self._on_wait is not None:
                self._on_wait(pause)
            self.resumes = monotonic() + pause
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _body(self, response: httpx2.Response, most: int) -> bytes:
        """The first bytes of a body; a server that dribbles is not waited for longer than for silence."""
        parts: list[bytes] = []
        size = 0
        end = monotonic() + self.patience.read_s
        try:
            async for part in response.aiter_bytes():
                parts.append(part)
                size += len(part)
                if size > most:
                    break
                if monotonic() > end:
                    raise faults.silent(self.address, self.patience.read_s)
        except httpx2.HTTPError as error:
            raise self._fault(error) from error
        return b"".join(parts)[:most]

    def _fault(self, error: httpx2.HTTPError) -> RaglaError:
        return faults.unreachable(self.address, error, self.patience.connect_s, self.patience.read_s)


def retry_after(headers: httpx2.Headers) -> float | None:
    """The seconds that a server asks to wait, None where it asks for nothing that can be read."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


async def _following(source: AsyncGenerator[str, None]) -> str | None:
    """What comes next; None at the end."""
    return await anext(source, None)


async def _wait(task: asyncio.Task[str | None]) -> None:
    await asyncio.wait({task}, timeout=POLL_S)


async def _end(source: AsyncGenerator[str, None], waited: list[asyncio.Task[str | None]]) -> None:
    """Stop waiting, and close the connection: that tells the server to stop as well."""
    for task in waited:
        task.cancel()
    await asyncio.gather(*waited, return_exceptions=True)
    await source.aclose()
