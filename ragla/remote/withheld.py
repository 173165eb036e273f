"""Keeps the key out of an answer's text, however the server cuts the text into events."""

from __future__ import annotations

from ragla.secrets import HIDDEN

SHORTEST = 12  # characters; a shorter key is a word such as "ollama", which an answer may well contain


class Withheld:
    """Passes a text on with ``key`` replaced. Its end is held back while it may be the key's beginning."""

    def __init__(self, key: str | None) -> None:
        self._key = key if key and len(key) >= SHORTEST else ""
        self._held = ""

    def push(self, text: str) -> str:
        """What can be shown of the text so far."""
        if not self._key:
            return text
        *before, last = (self._held + text).split(self._key)
        most = min(len(last), len(self._key) - 1)
        held = next((size for size in range(most, 0, -1) if self._key.startswith(last[-size:])), 0)
        self._held = last[len(last) - held :]
        return HIDDEN.join([*before, last[: len(last) - held]])

    def rest(self) -> str:
        """What was held back, where the text has ended."""
        held, self._held = self._held, ""
        return held
