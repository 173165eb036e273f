"""Who may ask: the token, the names a loopback server answers to, and how large a request may be."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from time import perf_counter

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragla.errors import UsageError
from ragla.loopback import is_loopback
from ragla.serve.protocol import Refusal
from ragla.user_path import user_path

MOST_BODY = 1 << 20  # bytes
MOST_DRAINED = 16 << 20  # bytes of a body that is too large, read so that its sender hears why
BODY_S = 30.0  # until the whole body is here
LEAST_TOKEN = 16  # characters
GONE = 499  # as nginx has it: the client left before it was answered
OPEN_PATHS = ("/health",)
MAKE_TOKEN = "make one: openssl rand -hex 32 > token; chmod 600 token"

OnRequest = Callable[[str, str, int, float], None]
"""Told of each request: method, path, status, seconds."""


def read_token(path: str) -> str:
    """The token in a file. Raises UsageError for a file that holds none, or one easily guessed."""
    try:
        content = user_path(path).read_bytes()[: 1 << 16]
    except OSError as error:
        raise UsageError(f"--token-file {path}: cannot be read: {error.strerror}", MAKE_TOKEN) from error
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"--token-file {path}: holds more than ASCII characters", MAKE_TOKEN) from error
    if len(token) < LEAST_TOKEN or len(token.split()) != 1:
        raise UsageError(
            f"--token-file {path}: a token is one word of at least {LEAST_TOKEN} characters", MAKE_TOKEN
        )
    return token


class Guard:
    """Lets a request through or answers it with OpenAI's error; tells ``on_request`` of each.

    ``local``: the server is bound to loopback. Then a page of some website, whose name was made to mean
    this machine, is told by the Host that it was asked under.
    """

    def __init__(self, app: ASGIApp, token: str | None, local: bool, on_request: OnRequest) -> None:
        self.app = app
        self.token = token
        self.local = local
        self.on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = perf_counter()
        status = GONE

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refusal = self.refusal(Request(scope))
            app = refused(refusal) if refusal else self.app
            await app(scope, receive, note)
        except Exception:
            if status == GONE:  # the application could not even say that it failed
                await refused(Refusal(500, "the server failed"))(scope, receive, note)
        finally:
            self.on_request(scope["method"], scope["path"], status, perf_counter() - began)

    def refusal(self, request: Request) -> Refusal | None:
        """Why a request is not let through."""
        host = request.headers.get("host", "")
        if self.local and not is_loopback(host_name(host)):
            return Refusal(
                403, f"this server answers to localhost, not to {host or 'a request without Host'}"
            )
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return Refusal(403, f"pages of {origin} may not ask this server")
        if self.token is None or request.url.path in OPEN_PATHS:
            return None
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and secrets.compare_digest(
            given.strip().encode(errors="replace"), self.token.encode()
        ):
            return None
        said = "the token is wrong" if given else "a token is needed: Authorization: Bearer TOKEN"
        return Refusal(401, said, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})


def host_name(host: str) -> str:
    """The name or address of a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def refused(refusal: Refusal) -> JSONResponse:
    """The response that says so."""
    return JSONResponse(refusal.as_json(), refusal.status, headers=refusal.headers)


async def read_body(request: Request) -> bytes:
    """A request's JSON, unparsed. Raises Refusal for one too large, too slow or of another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "Content-Type is to be application/json")
    try:
        async with asyncio.timeout(BODY_S):
            return await _bounded(request)
    except ClientDisconnect as error:
        raise Refusal(GONE, "the client has left") from error
    except TimeoutError as error:
        raise Refusal(408, f"the body took longer than {BODY_S:.0f} s") from error


async def _bounded(request: Request) -> bytes:
    parts: list[bytes] = []
    received = 0
    async for part in request.stream():
        received += len(part)
        if received <= MOST_BODY:
            parts.append(part)
        elif received > MOST_DRAINED:
            break
    if received > MOST_BODY:
        raise Refusal(413, f"the body is larger than {MOST_BODY} bytes", code="request_too_large")
    return b"".join(parts)
