"""What to decode and when it ends; the one definition of the end for plain and drafted decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragla.decode.verify import SamplingSettings
from ragla.errors import UsageError


@dataclass(frozen=True)
class DecodeRequest:
    """A prompt and the conditions of its answer.

    ``stop`` strings need ``detokenize``, token ids → text. ``prefill_rows`` bounds how many prompt
    tokens go through the model at once. ``rank_prompt``: the drafter also learns what the model would
    have said after each prompt token, at the price of a vocabulary product for the whole prompt. ``cuts``:
    places where parts of the prompt begin; no chunk of the prefill reaches across one, so that the chunks
    before it can serve the next prompt that begins alike.
    """

    prompt_ids: Sequence[int]
    max_new_tokens: int
    end_ids: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    detokenize: Callable[[list[int]], str] | None = None
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    prefill_rows: int = 512
    rank_prompt: bool = False
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """Tokens committed together; ``origins[i]`` is where token i was read, None if it was not drafted."""

    token_ids: list[int]
    origins: list[tuple[str, int] | None]


class Ending:
    """Follows an answer token by token and says when it is over.

    ``reason``: None while it goes on, then ``end`` (an end-of-sequence token, which is part of
    ``token_ids``), ``stop`` (a stop string) or ``length``.
    """

    def __init__(self, request: DecodeRequest, context_end: int) -> None:
        room = context_end - len(request.prompt_ids)
        if request.max_new_tokens < 1:
            raise UsageError(
                f"max_new_tokens is {request.max_new_tokens}: an answer has a token at least",
                "use --set decode.max_new_tokens=256",
            )
        if not request.prompt_ids:
            raise UsageError("the prompt is empty", "ask a question")
        if room < 1:
            raise UsageError(
                f"the prompt has {len(request.prompt_ids)} tokens, the model's window is {context_end}",
                "ask a shorter question, or pack fewer passages: --set prompt.token_budget=512",
            )
        self.limit = min(request.max_new_tokens, room)
        self.request = request
        self.token_ids: list[int] = []
        self.reason: str | None = None

    @property
    def remaining(self) -> int:
        """Tokens that may still come."""
        return self.limit - len(self.token_ids)

    def push(self, token: int) -> None:
        """Commit a token."""
        self.token_ids.append(token)
        if token in self.request.end_ids:
            self.reason = "end"
        elif self._stopped():
            self.reason = "stop"
        elif self.remaining <= 0:
            self.reason = "length"

    def _stopped(self) -> bool:
        stop, detokenize = [string for string in self.request.stop if string], self.request.detokenize
        if not stop or detokenize is None:
            return False
        # a token holds a byte, so this many hold every stop string that the last one completes; special
        # tokens hold none, hence the longer look
        tail = max(len(string.encode()) for string in stop) + 4
        while True:
            text = detokenize(self.token_ids[-tail:])
            if any(string in text for string in stop):
                return True
            if tail >= len(self.token_ids) or len(text) >= max(map(len, stop)):
                return False
            tail *= 2


def cache_capacity(request: DecodeRequest, ending: Ending, draft_budget: int) -> int:
    """Rows a cache needs: the prompt, the longest answer, and one whole draft."""
    return len(request.prompt_ids) + ending.limit + draft_budget
