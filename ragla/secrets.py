"""Takes passwords and tokens out of what is printed: a message or a traceback may quote a library's."""

from __future__ import annotations

import os
import re

HIDDEN = "***"
NAMED = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|ACCESS_?KEY", re.IGNORECASE)
SHAPED = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}\b|\bsk-[A-Za-z0-9_-]{16,}|(?<=[Bb]earer )[\w.~+/=-]{8,}|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
)
SHORTEST = 6  # characters: a shorter value is hardly secret, and taking out "1" everywhere helps nobody


def redact(text: str) -> str:
    """A text without the values of environment variables named like secrets, and what looks like one."""
    values = [value for name, value in os.environ.items() if NAMED.search(name) and len(value) >= SHORTEST]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return SHAPED.sub(HIDDEN, text)
