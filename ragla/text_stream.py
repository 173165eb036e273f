"""Growing token ids as text, handed on as soon as it can no longer change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

OnText = Callable[[str], None]


class TextStream:
    """Turns growing token ids into text, and hands on what can no longer change.

    Held back: half a character, white space at the end, and what may become a stop string.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str], on_text: OnText | None) -> None:
        self.tokenizer = tokenizer
        self.stop = tuple(stop)
        self.on_text = on_text
        self.text = ""
        self._sent = 0
        self._stopped = False

    def push(self, token_ids: list[int], end_ids: frozenset[int]) -> None:
        """Take the whole answer so far."""
        plain = [token for token in token_ids if token not in end_ids]
        text = self.tokenizer.decode(plain, skip_special_tokens=True)
        found = [at for at in (text.find(string) for string in self.stop) if at >= 0]
        self.text = text[: min(found)] if found else text
        self._stopped = bool(found)
        whole = self.text.rstrip("\ufffd")
        self._send(whole, self.held(whole))

    def held(self, text: str) -> int:
        """Characters at the end that could be the start of a stop string, with the white space before."""
        starts = (string[:length] for string in self.stop for length in range(1, len(string)))
        longest = max((len(start) for start in starts if text.endswith(start)), default=0)
        return len(text) - len(text[: len(text) - longest].rstrip())

    def finish(self) -> str:
        """The final text; sends what was held back, but for half a character where the answer was cut."""
        whole = (self.text if self._stopped else self.text.rstrip("\ufffd")).rstrip()
        self._send(whole, hold=0)
        self.text = whole.strip()
        return self.text

    def _send(self, text: str, hold: int) -> None:
        start = self._sent or len(text) - len(text.lstrip())
        end = len(text) - hold
        if self.on_text is not None and end > start:
            self.on_text(text[start:end])
            self._sent = end
