"""The request for an answer: messages, and those settings of ``decode`` that a server is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragla.answering import ANSWER_SHARE
from ragla.remote.messages import documents

if TYPE_CHECKING:
    from ragla.config import DecodeSettings
    from ragla.evidence import Evidence
    from ragla.remote.messages import Asked
    from ragla.remote.server import Server

PLAIN = {  # what servers take for granted, and some refuse to be told
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}


def body_of(server: Server, settings: DecodeSettings, asked: Asked, evidence: Evidence) -> dict[str, Any]:
    """What is sent to ``/chat/completions``."""
    body: dict[str, Any] = {
        "model": server.model,
        "messages": asked.messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": most_tokens(server, settings, asked),
        "temperature": settings.temperature,
    }
    for name, plain in PLAIN.items():
        value = getattr(settings, name)
        if value != plain:
            body["repeat_penalty" if name == "repetition_penalty" and server.kind == "llamacpp" else name] = (
                value
            )
    if settings.temperature > 0:
        body["seed"] = settings.seed
    if settings.stop:
        body["stop"] = list(settings.stop)
    if server.kind == "ragla":
        body["documents"] = documents(evidence)
    return body


def most_tokens(server: Server, settings: DecodeSettings, asked: Asked) -> int:
    """The longest answer that the window has room for, as far as that is known."""
    most = settings.max_new_tokens
    if server.window is None:
        return most
    return max(1, min(most, max(server.window - asked.tokens, server.window // ANSWER_SHARE)))
