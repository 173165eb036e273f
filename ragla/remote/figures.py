"""What a server says that an answer has cost. What it does not say is None, never zero.

``ragla serve`` gives all of it, vLLM and llama.cpp's server how many drafted tokens they accepted, others
counts of tokens at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class ServerFigures:
    """One answer's figures, as ``ragla.decode.stats`` defines them."""

    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    tokens: int | None = None
    steps: int | None = None
    tokens_per_step: float | None = None
    nodes_per_step: float | None = None
    decided_alone: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_share: float | None = None
    copied_share: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


def figures(last: Mapping[str, Any]) -> ServerFigures:
    """The figures in what came with the end of an answer.

    ``last``: the fields ``usage``, ``ragla``, ``metrics`` and ``timings`` of a completion, as far as they
    came; they may hold anything.
    """
    usage = part(last, "usage")
    stats = part(part(last, "ragla"), "stats")
    if stats:
        values: dict[str, Any] = {key: count(stats, key) for key in COUNTS}
        values |= {key: number(stats, key) for key in NUMBERS}
        return ServerFigures(**values)
    spoken = part(part(last, "metrics"), "speculative_decoding")  # vLLM
    timed = part(last, "timings")  # llama.cpp
    tokens = first(count(usage, "completion_tokens"), count(timed, "predicted_n"))
    detail = part(usage, "completion_tokens_details")
    accepted = first(
        count(spoken, "num_accepted_draft_tokens"),
        count(timed, "draft_n_accepted"),
        count(detail, "accepted_prediction_tokens"),
    )
    drafted = first(count(spoken, "num_draft_tokens"), count(timed, "draft_n"))
    if not drafted:  # OpenAI names the field for every answer: a zero says nothing of drafts
        accepted = None
    steps = steps_of(tokens, accepted)
    return ServerFigures(
        prompt_tokens=count(usage, "prompt_tokens"),
        reused_tokens=count(part(usage, "prompt_tokens_details"), "cached_tokens"),
        tokens=tokens,
        steps=steps,
        tokens_per_step=(tokens - 1) / steps if steps and tokens else None,
        drafted=drafted,
        accepted=accepted,
        accepted_share=accepted / tokens if tokens and accepted is not None else None,
        prefill_s=seconds(number(timed, "prompt_ms")),
        decode_s=seconds(number(timed, "predicted_ms")),
    )


COUNTS = ("prompt_tokens", "reused_tokens", "tokens", "steps", "decided_alone", "drafted", "accepted")
NUMBERS = ("tokens_per_step", "nodes_per_step", "accepted_share", "copied_share", "prefill_s", "decode_s")


def steps_of(tokens: int | None, accepted: int | None) -> int | None:
    """Forward passes after the prompt's: each gives one token of its own beside those it accepts.

    None where the server does not say, or counts tokens that were cut off.
    """
    if tokens is None or accepted is None or tokens - 1 - accepted < 1:
        return None
    return tokens - 1 - accepted


def part(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object within an object; an empty one where there is none."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def count(mapping: Mapping[str, Any], key: str) -> int | None:
    """A number of something."""
    value = mapping.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def number(mapping: Mapping[str, Any], key: str) -> float | None:
    """A number that is none of counting."""
    value = mapping.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1 << 53 and isfinite(value) and value >= 0 else None


def seconds(milliseconds: float | None) -> float | None:
    """Milliseconds as seconds."""
    return None if milliseconds is None else milliseconds / 1000


def first(*values: int | None) -> int | None:
    """The first that is known."""
    return next((value for value in values if value is not None), None)
