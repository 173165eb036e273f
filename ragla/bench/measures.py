"""From single answers to a decoder's numbers; every number of the report is defined here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

from ragla.bench.decoders import Decoded
from ragla.bench.names import own_greedy
from ragla.bench.quality import contains, token_f1
from ragla.bench.questions import BenchQuestion
from ragla.bench.result import DecoderResult, Difference, Interval, Row
from ragla.bench.spread import lengths, points, positions, seconds
from ragla.decode.model import TargetModel

T = TypeVar("T")

RESAMPLES = 2000
SEED = 20240825
AROUND = 8  # tokens shown on each side of a difference


def summarise(
    rows: Sequence[Row],
    questions: Sequence[BenchQuestion],
    names: Sequence[str],
    target: TargetModel,
    exact: str | None = None,
) -> dict[str, DecoderResult]:
    """The numbers of each decoder; ``exact``: the one whose texts those of other precisions are held to."""
    return {name: _decoder(name, names, rows, questions, target, exact) for name in names}


def by_category(
    rows: Sequence[Row],
    questions: Sequence[BenchQuestion],
    names: Sequence[str],
    target: TargetModel,
    exact: str | None = None,
) -> dict[str, dict[str, DecoderResult]]:
    """The same for the questions of each category, in the order of the questions; empty for a single one."""
    of = {question.id: question.category for question in questions}
    categories = list(dict.fromkeys(of.values()))
    if len(categories) < 2:
        return {}
    return {
        category: summarise(
            [row for row in rows if of[row.id] == category],
            [question for question in questions if question.category == category],
            names,
            target,
            exact,
        )
        for category in categories
    }


def _decoder(
    name: str,
    names: Sequence[str],
    rows: Sequence[Row],
    questions: Sequence[BenchQuestion],
    target: TargetModel,
    exact: str | None,
) -> DecoderResult:
    answers = [row.answers[name] for row in rows]
    steps = sum(answer.steps for answer in answers)
    timed = [answer for answer in answers if answer.tokens_per_s is not None]
    decode_s = sum(answer.decode_s for answer in timed)
    quick = {row.id for row in rows if row.answers[name].tokens_per_s is not None}
    baseline = own_greedy(name)
    reference = baseline if baseline in names else "lookahead"
    differing, first = differences(name, reference, rows, target)
    right, f1 = _quality(name, rows, questions, target)
    nodes = [answer.nodes for answer in answers if answer.nodes is not None]
    return DecoderResult(
        tokens_per_step=sum(answer.later_tokens for answer in answers) / steps if steps else None,
        accepted_share=sum(answer.accepted for answer in answers)
        / sum(len(answer.token_ids) for answer in answers),
        decode_tokens_per_s=sum(answer.step_tokens for answer in timed) / decode_s if timed else None,
        ttft_s=median(row.ttft_s(name) for row in rows),
        speedup_vs_greedy=speedup(name, baseline, rows),
        speedup_vs_hf_greedy=speedup(name, "hf-greedy", rows),
        too_short=len({row.id for row in rows} - quick),
        identical=(len(questions) - len(differing), len(questions)),
        first_difference=first,
        contains=right,
        token_f1=f1,
        tokens_per_s=median_over_questions([(row.id, row.answers[name].tokens_per_s) for row in rows]),
        ttft=median_over_questions([(row.id, row.ttft_s(name)) for row in rows]),
        step_tokens=_step_tokens(name, rows),
        nodes_per_step=sum(nodes) / steps if steps and len(nodes) == len(answers) else None,
        lengths=lengths(answers),
        positions=positions(answers),
        seconds=seconds(name, rows),
        points=points(name, baseline, rows),
        same_as_exact=_same(name, exact, rows, target),
        agreement=_agreement(name, exact, rows, target),
    )


def speedup(name: str, baseline: str, rows: Sequence[Row]) -> Interval | None:
    """Median over questions of decode speed against the baseline's in the same run.

    A question's ratio is its median over runs; questions where either has no decode speed are left out.
    None where the baseline did not run or no question is left.
    """
    if any(baseline not in row.answers for row in rows):
        return None
    ratios: list[tuple[str, float | None]] = []
    for row in rows:
        ours, theirs = row.answers[name].tokens_per_s, row.answers[baseline].tokens_per_s
        ratios.append((row.id, ours / theirs if ours is not None and theirs is not None else None))
    return median_over_questions(ratios)


def median_over_questions(values: Sequence[tuple[str, float | None]]) -> Interval | None:
    """Median over questions of the median over each one's runs, values None left out; None where all are."""
    known: dict[str, list[float]] = {}
    for name, value in values:
        if value is not None:
            known.setdefault(name, []).append(value)
    if not known:
        return None
    per_question = [median(its) for its in known.values()]
    return Interval(median(per_question), *bootstrap(per_question, median))


def _step_tokens(name: str, rows: Sequence[Row]) -> Interval | None:
    """Tokens per step over all questions, with its interval over the questions."""
    counts: dict[str, tuple[int, int]] = {}
    for row in rows:
        answer, (tokens, steps) = row.answers[name], counts.get(row.id, (0, 0))
        counts[row.id] = tokens + answer.later_tokens, steps + answer.steps
    drawn = list(counts.values())
    if not any(steps for _, steps in drawn):
        return None

    def ratio(some: Sequence[tuple[int, int]]) -> float:
        steps = sum(steps for _, steps in some)
        return sum(tokens for tokens, _ in some) / steps if steps else ratio(drawn)

    return Interval(ratio(drawn), *bootstrap(drawn, ratio))


def bootstrap(
    values: Sequence[T], statistic: Callable[[Sequence[T]], float], seed: int = SEED
) -> tuple[float, float]:
    """Percentile bootstrap 95 % interval of a statistic (Efron, 1979), the same for the same values."""
    draw = random.Random(seed)
    found = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = RESAMPLES * 25 // 1000
    return found[tail], found[-1 - tail]


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
        text = _text(row.answers[name], target)
        if question.expected or question.references:
            found.append(contains(text, question.expected, question.references))
        if question.references:
            overlaps.append(token_f1(text, question.references))
    return _mean(found), _mean(overlaps)


def _same(name: str, exact: str | None, rows: Sequence[Row], target: TargetModel) -> tuple[int, int] | None:
    """How many questions have the ids of the most exact plain loop; None where that is not compared."""
    if exact is None:
        return None
    ids = {row.id for row in rows}
    differing, _ = differences(name, exact, rows, target)
    return len(ids) - len(differing), len(ids)


def _agreement(name: str, exact: str | None, rows: Sequence[Row], target: TargetModel) -> float | None:
    """Mean token F1 of the answers against those of the most exact plain loop."""
    if exact is None:
        return None
    return _mean(
        [token_f1(_text(row.answers[name], target), [_text(row.answers[exact], target)]) for row in rows]
    )


def _text(answer: Decoded, target: TargetModel) -> str:
    return str(target.tokenizer.decode(list(answer.token_ids), skip_special_tokens=True))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
