"""Which server is asked, under which key; what is wrong with either is said before anything is sent."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from ragla.errors import UsageError
from ragla.loopback import is_loopback
from ragla.secrets import HIDDEN, VARIABLE, hide_in_address
from ragla.user_path import user_path

if TYPE_CHECKING:
    from ragla.config import DecodeSettings

EXAMPLE = "--set decode.remote_url=http://127.0.0.1:8000/v1"
MOST_KEY = 1 << 13  # characters
COMPLETIONS = "/chat/completions"  # some write the whole address down


@dataclass(frozen=True)
class Address:
    """Where a server is: ``url`` up to and with its version, such as ``http://127.0.0.1:8000/v1``.

    ``local``: only this machine reaches it. ``key``: what is sent as bearer token, None for nothing.
    """

    url: str
    local: bool
    key: str | None = field(default=None, repr=False)

    def hide(self, text: str) -> str:
        """A text from the server or a library without the key."""
        return text.replace(self.key, HIDDEN) if self.key else text

    @property
    def notice(self) -> str | None:
        """That others can read along, in a line, where they can."""
        if self.local or self.url.startswith("https:"):
            return None
        what = "questions, passages and the key" if self.key else "questions and passages"
        return f"{what} go to {self.url} unencrypted: use https"


def address_of(settings: DecodeSettings) -> Address:
    """The profile's server and key. Raises UsageError for an address or a key that is none."""
    if not settings.remote_url:
        raise UsageError("decode.backend remote needs the address of a server", EXAMPLE)
    parts = split(settings.remote_url)
    path = parts.path.rstrip("/").removesuffix(COMPLETIONS) or "/v1"
    url = f"{parts.scheme}://{parts.netloc}{path}"
    return Address(url, is_loopback(parts.hostname or ""), read_key(settings))


def split(url: str) -> SplitResult:
    """The parts of a server's address. Raises UsageError where it is none."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError("decode.remote_url: no address of a server", EXAMPLE) from None
    if "@" in parts.netloc:  # not shown: what stands there is a password
        raise UsageError(
            "decode.remote_url: a name or password does not belong into an address",
            "put the key into a file: --set decode.remote_key_file=FILE",
        )
    if not usable or not url.isprintable() or " " in url.strip():
        raise UsageError(f"decode.remote_url: {hide_in_address(url)!r} is no address of a server", EXAMPLE)
    if parts.query or parts.fragment:
        raise UsageError(
            f"decode.remote_url: {hide_in_address(url)!r}: leave away what follows the path", EXAMPLE
        )
    return parts


def read_key(settings: DecodeSettings) -> str | None:
    """The key in the variable or file that the profile names. Raises UsageError where there is none."""
    name, file = settings.remote_key_env, settings.remote_key_file
    if name and file:
        raise UsageError(
            "decode.remote_key_env and decode.remote_key_file: which of them?", "set one of them to null"
        )
    if name:
        if not VARIABLE.fullmatch(name):  # not shown: it may be the key itself
            raise UsageError(
                "decode.remote_key_env: names a variable, in capital letters",
                "put the key into it: export MY_KEY=…, --set decode.remote_key_env=MY_KEY",
            )
        where, text = f"decode.remote_key_env: {name}", os.environ.get(name, "")
        if not text.strip():
            raise UsageError(f"{where} is not set in the environment", f"export {name}=…")
    elif file:
        where = f"decode.remote_key_file: {file}"
        try:
            text = user_path(file).read_bytes()[: 2 * MOST_KEY].decode("utf-8-sig")
        except OSError as error:
            raise UsageError(
                f"{where}: cannot be read: {error.strerror}", "name a file that holds the key"
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{where}: holds no text", "the key alone, in one line") from error
    else:
        return None
    key = text.strip()
    if not key or len(key.split()) != 1 or not key.isascii() or not key.isprintable() or len(key) > MOST_KEY:
        raise UsageError(f"{where}: a key is one word of ASCII characters", "the key alone, in one line")
    return key
