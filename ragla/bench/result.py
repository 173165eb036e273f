"""What a bench found, as frozen records; ``ragla.bench.result_json`` writes and reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragla.bench.environment import Environment

if TYPE_CHECKING:
    from ragla.bench.decoders import Decoded

SCHEMA = "ragla.bench/1"


@dataclass(frozen=True)
class Row:
    """One question in one run: what each decoder committed, in the order they took their turns.

    ``ready_s``: seconds for retrieval and prompt, of which ``retrieval_s`` for retrieval.
    """

    id: str
    run: int
    prompt_tokens: int
    order: tuple[str, ...]
    ready_s: float
    answers: dict[str, Decoded]
    retrieval_s: float = 0.0
    category: str = ""

    def ttft_s(self, decoder: str) -> float:
        """Seconds from the question to the first token: retrieval, prompt, prefill."""
        return self.ready_s + self.answers[decoder].ttft_s


@dataclass(frozen=True)
class Interval:
    """A number over the questions, most often their median, with its bootstrap 95 % interval."""

    value: float
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
class Position:
    """Steps that began at the answer's tokens from ``first`` on, and the tokens they committed."""

    first: int
    steps: int
    tokens: int


@dataclass(frozen=True)
class Seconds:
    """Where an answer's time goes, means over all answers, in seconds.

    ``prompt``: writing and encoding it; ``seed``: reading it into the drafter. ``draft`` and ``verify`` are
    None for decoders that do not tell them; then ``rest`` is all of decoding.
    """

    retrieve: float
    prompt: float
    seed: float
    prefill: float
    draft: float | None
    verify: float | None
    rest: float


@dataclass(frozen=True)
class Point:
    """One question: the numbers of its answers, medians over runs, None where there are none."""

    id: str
    category: str
    tokens_per_step: float | None
    tokens_per_s: float | None
    speedup: float | None


@dataclass(frozen=True)
class DecoderResult:
    """One decoder over all questions and runs; ``None`` where a number does not exist.

    ``tokens_per_step``: tokens after each answer's first / forward passes after prefill: what prefill gives
    beyond the first needs no step, and counts. ``accepted_share``: accepted draft tokens / tokens.
    ``decode_tokens_per_s``: tokens committed after prefill / seconds after it. ``ttft_s``: median.
    ``too_short``: questions whose answers have no decode speed. ``identical``: how many questions of how
    many gave, in every run, the ids of the plain loop in the same precision. ``contains`` and ``token_f1``:
    means over the questions that have references, 0 to 1.

    ``tokens_per_s``, ``ttft``: medians over questions. ``step_tokens``: ``tokens_per_step`` with its
    interval. ``nodes_per_step``: rows of a forward pass after prefill, None where it was not counted.
    ``lengths[i]``: steps that committed ``i + 1`` tokens.
    ``same_as_exact`` and ``agreement``, where several precisions are compared: how many questions gave the
    ids of the plain loop in the most exact one, and the mean token F1 of the answers against its.
    """

    tokens_per_step: float | None
    accepted_share: float
    decode_tokens_per_s: float | None
    ttft_s: float
    speedup_vs_greedy: Interval | None
    speedup_vs_hf_greedy: Interval | None
    too_short: int
    identical: tuple[int, int]
    first_difference: Difference | None
    contains: float | None
    token_f1: float | None
    tokens_per_s: Interval | None = None
    ttft: Interval | None = None
    step_tokens: Interval | None = None
    nodes_per_step: float | None = None
    lengths: tuple[int, ...] = ()
    positions: tuple[Position, ...] = ()
    seconds: Seconds | None = None
    points: tuple[Point, ...] = ()
    same_as_exact: tuple[int, int] | None = None
    agreement: float | None = None


@dataclass(frozen=True)
class Times:
    """One answer's times in seconds, and its tokens per second after the first token."""

    retrieval_s: float
    ttft_s: float
    tokens_per_s: float | None


@dataclass(frozen=True)
class FirstAnswer:
    """The first answer of the process, before anything was warmed up, beside the same question's later one.

    ``load_s``: loading the model, None where it was not timed; ``calibration_s``: measuring what steps cost,
    once a machine, no part of the other times.
    """

    id: str
    load_s: float | None
    calibration_s: float
    cold: Times
    warm: Times


@dataclass(frozen=True)
class BenchResult:
    """``questions``: how many were decoded; ``unanswered``: ids for which the index held nothing relevant.

    ``exact``: the plain loop that precisions are compared with. ``categories``: the numbers of each category
    of questions, where there are several. ``follow_ups``: how many of the questions go on from another one.
    ``planned``: how many answers each decoder was to give, more than ``rows`` where it was interrupted.
    """

    environment: Environment
    questions: int
    unanswered: tuple[str, ...]
    decoders: dict[str, DecoderResult]
    rows: tuple[Row, ...]
    categories: dict[str, dict[str, DecoderResult]] = field(default_factory=dict)
    first_answer: FirstAnswer | None = None
    exact: str | None = None
    follow_ups: int = 0
    answers: int = 0
    planned: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers, see ``ragla.bench.result_json``."""
        from ragla.bench.result_json import result_json

        return result_json(self)
