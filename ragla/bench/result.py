"""What a bench found, as frozen records, and the JSON that other programs may rely on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ragla.bench.conditions import Environment
from ragla.bench.decoders import Decoded

SCHEMA = "ragla.bench/1"


@dataclass(frozen=True)
class Row:
    """One question in one run: what each decoder committed, in the order they took their turns."""

    id: str
    run: int
    prompt_tokens: int
    order: tuple[str, ...]
    ready_s: float
    answers: dict[str, Decoded]

    def ttft_s(self, decoder: str) -> float:
        """Seconds from the question to the first token: retrieval, prompt, prefill."""
        return self.ready_s + self.answers[decoder].ttft_s


@dataclass(frozen=True)
class Speedup:
    """Median over questions, with the bootstrap 95 % interval of that median."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Where an answer first leaves the reference answer: token position, and the text around it in both."""

    id: str
    position: int
    reference: str
    text: str


@dataclass(frozen=True)
class DecoderResult:
    """One decoder over all questions and runs; ``None`` where a number does not exist.

    ``tokens_per_step``: tokens committed after prefill / forward passes after it. ``accepted_share``:
    accepted draft tokens / tokens. ``decode_tokens_per_s``: tokens committed after prefill / seconds
    after it. ``ttft_s``: median. ``too_short``: questions whose answers have no decode speed.
    ``identical``: how many questions of how many gave the reference's token ids in every run.
    ``contains`` and ``token_f1``: means over the questions that have references, 0 to 1.
    """

    tokens_per_step: float | None
    accepted_share: float
    decode_tokens_per_s: float | None
    ttft_s: float
    speedup_vs_greedy: Speedup | None
    speedup_vs_hf_greedy: Speedup | None
    too_short: int
    identical: tuple[int, int]
    first_difference: Difference | None
    contains: float | None
    token_f1: float | None


@dataclass(frozen=True)
class BenchResult:
    """``questions``: how many were decoded; ``unanswered``: ids for which the index held nothing relevant."""

    environment: Environment
    questions: int
    unanswered: tuple[str, ...]
    decoders: dict[str, DecoderResult]
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers. Keys are kept within a schema version; new ones may come."""
        return {
            "schema": SCHEMA,
            "environment": asdict(self.environment),
            "questions": self.questions,
            "unanswered": list(self.unanswered),
            "decoders": {name: _decoder_json(found) for name, found in self.decoders.items()},
            "rows": [_row_json(row) for row in self.rows],
        }


def _decoder_json(found: DecoderResult) -> dict[str, Any]:
    greedy, hf_greedy = found.speedup_vs_greedy, found.speedup_vs_hf_greedy
    return {
        "tokens_per_step": found.tokens_per_step,
        "accepted_share": found.accepted_share,
        "decode_tokens_per_s": found.decode_tokens_per_s,
        "ttft_s": found.ttft_s,
        "speedup_vs_greedy": greedy and greedy.median,
        "speedup_spread": greedy and [greedy.low, greedy.high],
        "speedup_vs_hf_greedy": hf_greedy and hf_greedy.median,
        "speedup_vs_hf_greedy_spread": hf_greedy and [hf_greedy.low, hf_greedy.high],
        "too_short": found.too_short,
        "identical": list(found.identical),
        "first_difference": found.first_difference and asdict(found.first_difference),
        "contains": found.contains,
        "token_f1": found.token_f1,
    }


def _row_json(row: Row) -> dict[str, Any]:
    decoders = {
        name: {
            "tokens": len(answer.token_ids),
            "steps": answer.steps,
            "decode_s": answer.decode_s,
            "ttft_s": row.ttft_s(name),
        }
        for name, answer in row.answers.items()
    }
    return {
        "id": row.id,
        "run": row.run,
        "prompt_tokens": row.prompt_tokens,
        "order": list(row.order),
        "decoders": decoders,
    }
