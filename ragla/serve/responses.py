"""What is sent back: completions whole and in chunks, with what ragla knows of an answer in extra fields."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from time import time
from typing import Any
from uuid import uuid4

from ragla.answer import Answer
from ragla.decode.model import TargetModel
from ragla.render_answer import answer_json

NOT_REPEATED = ("schema", "question", "answer", "steps")  # said elsewhere, or too long for every response
DONE = "data: [DONE]\n\n"


@dataclass(frozen=True)
class Completion:
    """One response: what its parts have in common."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time()))

    def whole(self, answer: Answer, reason: str, notices: tuple[str, ...]) -> dict[str, Any]:
        """The response of a request without ``stream``."""
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": usage(answer),
            "ragla": extras(answer, notices),
        }

    def first(self) -> str:
        """The event that opens a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> str:
        """An event with some text."""
        return self._chunk({"content": text})

    def last(self, answer: Answer, reason: str, notices: tuple[str, ...]) -> str:
        """The event that ends the text."""
        return self._chunk({}, reason, ragla=extras(answer, notices))

    def usage(self, answer: Answer) -> str:
        """The event with the counts of tokens."""
        return event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage(answer)})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **more})


def event(document: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"


def usage(answer: Answer) -> dict[str, Any]:
    """Tokens as OpenAI counts them; drafted tokens are what it calls predicted."""
    stats = answer.stats
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.tokens,
        "total_tokens": stats.prompt_tokens + stats.tokens,
        "prompt_tokens_details": {"cached_tokens": stats.reused},
        "completion_tokens_details": {
            "accepted_prediction_tokens": stats.accepted,
            "rejected_prediction_tokens": stats.drafted - stats.accepted,
        },
    }


def extras(answer: Answer, notices: tuple[str, ...]) -> dict[str, Any]:
    """Sources, draft figures and notices: ``ragla ask --json`` without what is said elsewhere."""
    document = answer_json(answer, (*notices, *answer.notices))
    return {key: value for key, value in document.items() if key not in NOT_REPEATED}


def finish_reason(answer: Answer, target: TargetModel, stop: tuple[str, ...]) -> str:
    """``length`` where the answer was cut, else ``stop``."""
    if not answer.token_ids or answer.token_ids[-1] in target.end_ids:
        return "stop"
    text = target.tokenizer.decode(answer.token_ids) if stop else ""
    return "stop" if any(string in text for string in stop) else "length"
