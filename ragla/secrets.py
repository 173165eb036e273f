"""Takes passwords and tokens out of what is printed: a message or a traceback may quote a library's."""

from __future__ import annotations

import os
import re
from typing import Any

HIDDEN = "***"
NAMED = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|ACCESS_?KEY", re.IGNORECASE)
SHAPED = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}\b|\bsk-[A-Za-z0-9_-]{16,}|(?<=[Bb]earer )[\w.~+/=-]{8,}|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
)
ADDRESS = re.compile(r"\s*([A-Za-z][\w+.-]*://)?([^?#]*)([?#]?)(.*)", re.DOTALL)
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")  # in lower case it may be a key
SHORTEST = 6  # characters: a shorter value is hardly secret, and taking out "1" everywhere helps nobody


def hide_in_address(text: str) -> str:
    """An address, however wrong, without login, query and fragment; a file of this machine as it is."""
    found = ADDRESS.fullmatch(text)
    assert found is not None  # it matches any text
    scheme, place, mark, more = found.groups("")
    if not scheme and text.endswith(".db"):
        return text
    if "@" in more:  # a password may hold any sign
        return f"{scheme}{HIDDEN}"
    _, login, host = place.rpartition("@")
    return f"{scheme}{HIDDEN if login else ''}{login}{host}{mark}{HIDDEN if mark else ''}"


def hide_setting(key: str, value: Any) -> Any:
    """A setting as it can be shown: secrets get into addresses, and where a variable is to be named."""
    if not isinstance(value, str):
        return value
    if key.endswith(("_url", "_uri")):
        return hide_in_address(value)
    if key.endswith(("key_env", "token_env")) and not VARIABLE.fullmatch(value):
        return HIDDEN
    return value


def redact(text: str) -> str:
    """A text without the values of environment variables named like secrets, and what looks like one."""
    values = [value for name, value in os.environ.items() if NAMED.search(name) and len(value) >= SHORTEST]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return SHAPED.sub(HIDDEN, text)
