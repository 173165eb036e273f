"""From single answers to a decoder's numbers; every number of the report is defined here."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

from ragla.bench.decoders import Decoded
from ragla.bench.quality import contains, token_f1
from ragla.bench.questions import BenchQuestion
from ragla.bench.result import DecoderResult, Difference, Row, Speedup
from ragla.decode.model import TargetModel

RESAMPLES = 2000
SEED = 20240825
AROUND = 8  # tokens shown on each side of a difference


def summarise(
    rows: Sequence[Row], questions: Sequence[BenchQuestion], names: Sequence[str], target: TargetModel
) -> dict[str, DecoderResult]:
    """The numbers of each decoder."""
    reference = "greedy" if "greedy" in names else "lookahead"
    return {name: _decoder(name, reference, rows, questions, target) for name in names}


def _decoder(
    name: str, reference: str, rows: Sequence[Row], questions: Sequence[BenchQuestion], target: TargetModel
) -> DecoderResult:
    answers = [row.answers[name] for row in rows]
    steps = sum(answer.steps for answer in answers)
    timed = [answer for answer in answers if answer.tokens_per_s is not None]
    decode_s = sum(answer.decode_s for answer in timed)
    quick = {row.id for row in rows if row.answers[name].tokens_per_s is not None}
    differing, first = differences(name, reference, rows, target)
    right, f1 = _quality(name, rows, questions, target)
    return DecoderResult(
        tokens_per_step=sum(answer.step_tokens for answer in answers) / steps if steps else None,
        accepted_share=sum(answer.accepted for answer in answers)
        / sum(len(answer.token_ids) for answer in answers),
        decode_tokens_per_s=sum(answer.step_tokens for answer in timed) / decode_s if timed else None,
        ttft_s=median(row.ttft_s(name) for row in rows),
        speedup_vs_greedy=speedup(name, "greedy", rows),
        speedup_vs_hf_greedy=speedup(name, "hf-greedy", rows),
        too_short=len({row.id for row in rows} - quick),
        identical=(len(questions) - len(differing), len(questions)),
        first_difference=first,
        contains=right,
        token_f1=f1,
    )


def speedup(name: str, baseline: str, rows: Sequence[Row]) -> Speedup | None:
    """Median over questions of decode speed against the baseline's in the same run.

    A question's ratio is its median over runs; questions where either has no decode speed are left out.
    None where the baseline did not run or no question is left.
    """
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if baseline not in row.answers:
            return None
        ours, theirs = row.answers[name].tokens_per_s, row.answers[baseline].tokens_per_s
        if ours is not None and theirs is not None:
            ratios.setdefault(row.id, []).append(ours / theirs)
    if not ratios:
        return None
    per_question = [median(values) for values in ratios.values()]
    return Speedup(median(per_question), *median_interval(per_question))


def median_interval(values: Sequence[float], seed: int = SEED) -> tuple[float, float]:
    """Percentile bootstrap 95 % interval of the median (Efron, 1979), the same for the same values."""
    draw = random.Random(seed)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = RESAMPLES * 25 // 1000
    return medians[tail], medians[-1 - tail]


def differences(
    name: str, reference: str, rows: Sequence[Row], target: TargetModel
) -> tuple[set[str], Difference | None]:
    """Ids of the questions with other token ids than the reference's first run, and the first difference.

    End-of-sequence tokens count: both have them or neither.
    """
    truths: dict[str, Decoded] = {}
    differing: set[str] = set()
    first: Difference | None = None
    for row in rows:
        truth = truths.setdefault(row.id, row.answers[reference]).token_ids
        token_ids = row.answers[name].token_ids
        if token_ids == truth:
            continue
        differing.add(row.id)
        if first is None:
            at = first_unequal(truth, token_ids)
            first = Difference(row.id, at, _around(truth, at, target), _around(token_ids, at, target))
    return differing, first


def first_unequal(left: Sequence[int], right: Sequence[int]) -> int:
    """The first position at which two sequences differ, the length of the shorter if it is a prefix."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _around(token_ids: Sequence[int], at: int, target: TargetModel) -> str:
    return str(target.tokenizer.decode(list(token_ids[max(0, at - AROUND) : at + AROUND])))


def _quality(
    name: str, rows: Sequence[Row], questions: Sequence[BenchQuestion], target: TargetModel
) -> tuple[float | None, float | None]:
    """Means of ``contains`` and ``token_f1`` over all runs of the questions that have references."""
    by_id = {question.id: question for question in questions}
    found, overlaps = [], []
    for row in rows:
        question = by_id[row.id]
        text = str(target.tokenizer.decode(list(row.answers[name].token_ids), skip_special_tokens=True))
        if question.expected or question.references:
            found.append(contains(text, question.expected, question.references))
        if question.references:
            overlaps.append(token_f1(text, question.references))
    return _mean(found), _mean(overlaps)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
