"""What goes wrong between here and a server, as errors a user can act on.

What a server says of it is quoted shortened and without the key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx2

from ragla.errors import ModelUnavailable, RaglaError, UsageError
from ragla.remote.address import Address

MOST_QUOTED = 240  # characters of what a server says
TOO_LONG = ("context length", "context window", "context size", "maximum context", "too long", "exceeds the")
ANOTHER = "start it, or name another: --set decode.remote_url=URL"
KEY = "name the key: --set decode.remote_key_env=VARIABLE, or decode.remote_key_file=FILE"
LATER = "ask again later, or more patiently: --set decode.remote_retries=5"


class BrokenOff(ModelUnavailable):
    """A server that ended, or went on in a way that cannot be read."""


def unreachable(address: Address, error: httpx2.HTTPError, connect_s: float, read_s: float) -> RaglaError:
    """The error for a request that got no response, or not all of one."""
    url = address.url
    if isinstance(error, (httpx2.ConnectTimeout, httpx2.PoolTimeout)):
        return ModelUnavailable(f"{url} cannot be reached within {connect_s:g} s", ANOTHER)
    if isinstance(error, httpx2.TimeoutException):
        return silent(address, read_s)
    if isinstance(error, (httpx2.ConnectError, httpx2.ProxyError)):
        return ModelUnavailable(f"{url} cannot be reached: {reason(address, error)}", ANOTHER)
    if isinstance(error, httpx2.SSEError):
        return BrokenOff(f"{url} sent an event that is too large")
    return BrokenOff(f"{url} broke off: {reason(address, error)}", "ask again, or look at what it logs")


def unusable_environment(address: Address, error: Exception) -> RaglaError:
    """The error for proxies or certificates that the environment names and that are none."""
    return UsageError(
        f"proxies or certificates of the environment cannot be used: {shortened(address, str(error))}",
        "look at HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE",
    )


def silent(address: Address, read_s: float) -> RaglaError:
    """The error for a server that says nothing for too long."""
    return ModelUnavailable(
        f"{address.url} wrote nothing for {read_s:g} s",
        f"wait longer: --set decode.remote_read_s={2 * read_s:g}",
    )


def reason(address: Address, error: BaseException) -> str:
    """What the system says, where it said something, else what the library does."""
    said = str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, ConnectionError) and cause.errno:  # asyncio writes an address there
            said = os.strerror(cause.errno)
        elif isinstance(cause, OSError) and cause.strerror:
            said = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return shortened(address, said) or type(error).__name__


def refused(
    address: Address, status: int, headers: httpx2.Headers, body: bytes, models: Sequence[str] = ()
) -> RaglaError:
    """The error for a response that is none of success. ``models``: those that the server names."""
    url, said = address.url, shortened(address, message_in(body))
    told = f"{status} {phrase(status)}" + (f": {said}" if said else "")
    if status < 300:
        return no_completions(address, f"{status} {phrase(status)}")
    if 300 <= status < 400:
        place = redirected(headers.get("location", ""))
        return ModelUnavailable(
            f"{url} redirects" + (f" to {shortened(address, place)}" if place else ""),
            "the key is sent nowhere else; name the right address: --set decode.remote_url=URL",
        )
    if status in (401, 403):
        if address.key:
            return ModelUnavailable(f"{url} does not take the key: {told}", KEY)
        return ModelUnavailable(f"{url} asks for a key: {told}", KEY)
    if status == 404:
        has = (
            f"it has {', '.join(models[:5])}" if models else "check decode.remote_url and decode.remote_model"
        )
        return ModelUnavailable(f"{url}: {told}", has)
    if status in (429, 503):
        return ModelUnavailable(f"{url} is busy: {told}", LATER)
    if status >= 500:
        return ModelUnavailable(f"{url} failed: {told}", "look at what it logs, then ask again")
    if any(words in said.lower() for words in TOO_LONG):
        return RaglaError(
            f"{url}: the prompt is too long: {told}",
            "tell its window: --set decode.remote_window=N, or pack less: --set prompt.token_budget=512",
        )
    return RaglaError(f"{url} refuses the request: {told}", "check the settings of the section decode")


def told_in_stream(address: Address, error: Any) -> RaglaError:
    """The error for one that a server wrote where the answer was to go on."""
    said = shortened(address, message_of(error)) or "an error without a message"
    return BrokenOff(f"{address.url} ended the answer: {said}", "ask again, or look at what it logs")


def no_answer(address: Address, reason: str | None, calls_tool: bool) -> RaglaError:
    """The error for an answer without text: that says nothing about the documents."""
    if calls_tool:
        return BrokenOff(
            f"{address.url} gave no answer: it wants to call a tool",
            "switch off the tools that the server adds, or: --set decode.remote_model=NAME",
        )
    ended = f" (it ended with {shortened(address, reason)})" if reason else ""
    return BrokenOff(
        f"{address.url} gave no answer: no text came{ended}",
        "ask again, look at what it logs, or: --set decode.remote_model=NAME",
    )


def no_completions(address: Address, kind: str) -> RaglaError:
    """The error for a page, or whatever else is no completion."""
    what = shortened(address, kind.partition(";")[0].strip()) or "something"
    return ModelUnavailable(
        f"{address.url} sent {what}, no chat completion", "check decode.remote_url: it often ends in /v1"
    )


def message_in(body: bytes) -> str:
    """What an error's body says, nothing where it is no JSON."""
    try:
        return message_of(json.loads(body))
    except (ValueError, RecursionError):
        return ""


def message_of(document: Any) -> str:
    """The message within what servers call an error: a text, or an object with one."""
    if isinstance(document, str):
        return document
    if isinstance(document, dict):
        for key in ("error", "message", "detail"):
            if found := message_of(document.get(key)):
                return found
    return ""


def redirected(location: str) -> str:
    """Where a redirect leads, without what may be secret in it; nothing where that is no address."""
    try:
        parts = urlsplit(location)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{host}{port}{parts.path}" if host else parts.path


def phrase(status: int) -> str:
    """What a status means."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def shortened(address: Address, text: str) -> str:
    """One line of a server's, without the key."""
    line = " ".join(address.hide(text).split())
    return line if len(line) <= MOST_QUOTED else f"{line[: MOST_QUOTED - 1]}…"
