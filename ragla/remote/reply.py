"""An answer as a server's events bring it: its text, why it ended, and what came with the end."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from typing import Any

from ragla.remote import faults
from ragla.remote.address import Address
from ragla.remote.figures import part
from ragla.remote.withheld import Withheld

DONE = "[DONE]"
CALLS = ("tool_calls", "function_call")  # reasons: the model wants a tool, and ragla has none
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
        self._withheld = Withheld(address.key)

    def take(self, data: str) -> str:
        """More of the text, which may be empty. Raises RaglaError for an error, or for what is no event."""
        if data.strip() == DONE:
            self.done = True
            return self._withheld.push(self._halves.decode(b"", final=True)) + self._withheld.rest()
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
        self.thought += len(text_of(said, "content", "thinking"))
        text = text_of(said, "content")
        shown = self._withheld.push(self._halves.decode(text.encode("utf-16-le", "surrogatepass")))
        return shown if self.reason is None and not self.done else shown + self._withheld.rest()

    def _choice(self, event: dict[str, Any]) -> dict[str, Any]:
        """The first of several answers: events of the others may come between."""
        choices = event.get("choices")
        found = choices if isinstance(choices, list) else []
        return next((one for one in found if isinstance(one, dict) and one.get("index") in (None, 0)), {})

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


def text_of(said: Mapping[str, Any], key: str, kind: str = "text") -> str:
    """A text in a message, or the parts of that kind where it is a list; nothing where there is none."""
    value = said.get(key)
    if isinstance(value, list):
        return "".join(part_of(one, kind) for one in value)
    return value if isinstance(value, str) and kind == "text" else ""


def part_of(one: Any, kind: str) -> str:
    """The text of one part, ``{"type": kind, kind: TEXT}``; thoughts may be a list of parts themselves."""
    if not isinstance(one, dict) or one.get("type") != kind:
        return ""
    value = one.get(kind)
    if isinstance(value, list):
        return "".join(part_of(inner, "text") for inner in value)
    return value if isinstance(value, str) else ""
