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

PLAIN: dict[str, float] = {  # settings that change nothing
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
ALL_TOKENS = -1  # top_k of servers to which 0 means nothing
# vLLM and SGLang take what a request leaves open from the model's generation_config.json, where some have a
# repetition penalty; llama.cpp's servers have defaults of their own. A penalty spoils quotes, greedy or not.
# Other servers may refuse fields that OpenAI does not have, and are told those that change something.
TOLD_ALL = ("vllm", "sglang", "llamacpp")


def body_of(server: Server, settings: DecodeSettings, asked: Asked, evidence: Evidence) -> dict[str, Any]:
    """What is sent to ``/chat/completions``."""
    body: dict[str, Any] = {
        "model": server.model,
        "messages": asked.messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": most_tokens(server, settings, asked),
        "temperature": settings.temperature,
        **sampling(server, settings),
    }
    if settings.temperature > 0:
        body["seed"] = settings.seed
    if settings.stop:
        body["stop"] = list(settings.stop)
    if server.kind == "ragla":
        body["documents"] = documents(evidence)
    return body


def sampling(server: Server, settings: DecodeSettings) -> dict[str, float]:
    """What a server is told of how tokens are chosen, under its own names."""
    told = {name: getattr(settings, name) for name in PLAIN}
    if server.kind not in TOLD_ALL:
        return {name: value for name, value in told.items() if value != PLAIN[name]}
    if server.kind == "llamacpp":
        told["repeat_penalty"] = told.pop("repetition_penalty")
    elif not told["top_k"]:
        told["top_k"] = ALL_TOKENS
    return told


def most_tokens(server: Server, settings: DecodeSettings, asked: Asked) -> int:
    """The longest answer that the window has room for, as far as that is known."""
    most = settings.max_new_tokens
    if server.window is None:
        return most
    return max(1, min(most, max(server.window - asked.tokens, server.window // ANSWER_SHARE)))
