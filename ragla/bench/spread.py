"""How a decoder's steps, times and questions are spread: what a mean alone does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from ragla.bench.decoders import Decoded
from ragla.bench.result import Point, Position, Row, Seconds

POSITION_TOKENS = 16  # of an answer that are counted together


def lengths(answers: Iterable[Decoded]) -> tuple[int, ...]:
    """How many steps committed one token, two tokens, and so on."""
    counts = Counter(tokens for answer in answers for tokens in answer.commits if tokens > 0)
    return tuple(counts[tokens] for tokens in range(1, max(counts, default=0) + 1))


def positions(answers: Iterable[Decoded]) -> tuple[Position, ...]:
    """Steps and their tokens by where in the answer a step begins, as far as any answer goes."""
    steps: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    for answer in answers:
        at = answer.prefill_tokens
        for committed in answer.commits:
            part = at // POSITION_TOKENS
            steps[part] += 1
            tokens[part] += committed
            at += committed
    return tuple(Position(part * POSITION_TOKENS, steps[part], tokens[part]) for part in sorted(steps))


def seconds(name: str, rows: Sequence[Row]) -> Seconds:
    """Mean seconds an answer spends on each of its parts."""
    answers = [row.answers[name] for row in rows]
    draft, verify = (
        _mean_known([each.draft_s for each in answers]),
        _mean_known([each.verify_s for each in answers]),
    )
    decode = fmean(each.decode_s for each in answers)
    return Seconds(
        retrieve=fmean(row.retrieval_s for row in rows),
        prompt=fmean(row.ready_s - row.retrieval_s for row in rows),
        seed=fmean(each.seed_s for each in answers),
        prefill=fmean(each.ttft_s - each.seed_s for each in answers),
        draft=draft,
        verify=verify,
        rest=max(0.0, decode - (draft or 0.0) - (verify or 0.0)),
    )


def points(name: str, baseline: str, rows: Sequence[Row]) -> tuple[Point, ...]:
    """Each question's own numbers; ``baseline``: what its speed is divided by, where that ran."""
    by_id: dict[str, list[Row]] = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row)
    return tuple(_point(name, baseline, its) for its in by_id.values())


def _point(name: str, baseline: str, rows: Sequence[Row]) -> Point:
    answers = [row.answers[name] for row in rows]
    speeds = [answer.tokens_per_s for answer in answers]
    against = [row.answers[baseline].tokens_per_s if baseline in row.answers else None for row in rows]
    ratios = [ours / theirs for ours, theirs in zip(speeds, against, strict=True) if ours and theirs]
    steps = sum(answer.steps for answer in answers)
    return Point(
        rows[0].id,
        rows[0].category,
        sum(answer.later_tokens for answer in answers) / steps if steps else None,
        _median_known(speeds),
        median(ratios) if ratios else None,
    )


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _median_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
