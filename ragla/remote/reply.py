"""An answer as a server's events bring it: its text, why it ended, and what came with the end."""

from __future__ import annotations

import codecs
import json
from typing import Any

from ragla.remote import faults
from ragla.remote.address import Address
from ragla.remote.figures import part

DONE = "[DONE]"
LAST = ("usage", "ragla", "metrics", "timings")  # fields that come with the end of an answer


class Reply:
    """Takes the data of events. ``reason``: why the answer ended, as the server calls it.

    ``last``: fields of the end. ``thought``: characters that a model wrote to itself, which are no answer.
    ``done``: the server said that nothing more comes.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.reason: str | None = None
        self.last: dict[str, Any] = {}
        self.thought = 0
        self.done = False
        # JSON can spell half of a character, and the other half in the next event
        self._halves = codecs.getincrementaldecoder("utf-16-le")("replace")

    def take(self, data: str) -> str:
        """More of the text, which may be empty. Raises RaglaError for an error, or for what is no event."""
        if data.strip() == DONE:
            self.done = True
            return self._halves.decode(b"", final=True)
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise faults.no_completions(self.address, "an event that is no JSON object")
        if event.get("error"):
            raise faults.told_in_stream(self.address, event["error"])
        self.last |= {key: event[key] for key in LAST if event.get(key)}
        choice = self._choice(event)
        whole = part(choice, "message")
        said = whole or part(choice, "delta")
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.reason = reason
        if whole:
            self.done = True
        for key in ("reasoning_content", "reasoning"):
            self.thought += len(text_of(said, key))
        text = text_of(said, "content")
        return self._halves.decode(text.encode("utf-16-le", "surrogatepass"))

    def _choice(self, event: dict[str, Any]) -> dict[str, Any]:
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        return choice if isinstance(choice, dict) else {}

    def check_ended(self, characters: int) -> None:
        """Raises RaglaError where the events ended before the answer did; ``characters`` had come."""
        if self.done or self.reason is not None:
            return
        if not characters and not self.thought:
            raise faults.BrokenOff(
                f"{self.address.url} ended the answer before its first word",
                "look at what it logs; if the prompt is longer than its window: --set decode.remote_window=N",
            )
        raise faults.BrokenOff(
            f"{self.address.url} broke off after {characters} characters of the answer", "ask again"
        )


def text_of(said: Any, key: str) -> str:
    """A text in a message, nothing where there is none."""
    value = said.get(key)
    return value if isinstance(value, str) else ""
