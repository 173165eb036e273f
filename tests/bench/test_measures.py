from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from ragla.bench import BenchQuestion
from ragla.bench.decoders import Decoded
from ragla.bench.measures import bootstrap, first_unequal, speedup, summarise
from ragla.bench.result import DecoderResult, Row
from ragla.decode.model import TargetModel

LONG = Decoded(tuple(range(40, 51)), 1, 10, 0, 0.5, 2.0)  # 5 tokens a second
QUICK = replace(LONG, steps=4, accepted=6, decode_s=1.0)  # 10 tokens a second
ONE_TOKEN = Decoded((7,), 1, 0, 0, 0.5, 0.0)


def row(name: str, run: int = 0, **answers: Decoded) -> Row:
    named = {decoder.replace("_", "-"): answer for decoder, answer in answers.items()}
    return Row(name, run, 100, tuple(named), 0.25, named)


def summary(rows: list[Row], target: TargetModel, questions: int | None = None) -> dict[str, DecoderResult]:
    ids = list(dict.fromkeys(row.id for row in rows))
    assert len(ids) == (questions or len(ids))
    return summarise(rows, [BenchQuestion(name, "?", ("p",)) for name in ids], list(rows[0].answers), target)


def test_totals_count_tokens_after_prefill_over_steps_and_seconds(target: TargetModel) -> None:
    rows = [row("a", lookahead=QUICK, greedy=LONG), row("b", lookahead=LONG, greedy=LONG)]
    found = summary(rows, target)["lookahead"]
    assert found.tokens_per_step == 20 / 14
    assert found.accepted_share == 6 / 22
    assert found.decode_tokens_per_s == 20 / 3
    assert found.ttft_s == 0.75


def test_tokens_that_prefill_verified_need_no_step_and_none_of_its_time(target: TargetModel) -> None:
    looked_up = replace(QUICK, prefill_tokens=3)
    found = summary([row("a", lookahead=LONG, hf_prompt_lookup=looked_up)], target)["hf-prompt-lookup"]
    assert found.tokens_per_step == 10 / 4
    assert found.decode_tokens_per_s == 8.0


def test_a_speedup_is_the_median_over_questions_of_the_median_over_runs() -> None:
    def quicker(factor: float) -> Decoded:
        return replace(LONG, decode_s=LONG.decode_s / factor)

    rows = [
        row("a", 0, lookahead=quicker(2), greedy=LONG),
        row("a", 1, lookahead=quicker(3), greedy=LONG),
        row("a", 2, lookahead=quicker(9), greedy=LONG),
        row("b", 0, lookahead=quicker(1), greedy=LONG),
        row("c", 0, lookahead=quicker(8), greedy=quicker(2)),
    ]
    found = speedup("lookahead", "greedy", rows)
    assert found is not None
    assert found.value == pytest.approx(3.0)  # of 3, 1 and 4
    assert (found.low, found.high) == pytest.approx((1.0, 4.0))
    assert speedup("lookahead", "hf-greedy", rows) is None


def test_answers_too_short_for_a_speed_stay_out_of_speeds_and_are_counted(target: TargetModel) -> None:
    rows = [row("a", lookahead=QUICK, greedy=LONG), row("b", lookahead=ONE_TOKEN, greedy=ONE_TOKEN)]
    found = summary(rows, target)["lookahead"]
    assert found.too_short == 1
    assert found.decode_tokens_per_s == 10.0
    assert found.speedup_vs_greedy is not None
    assert found.speedup_vs_greedy.value == 2.0
    alone = summary(rows[1:], target)["lookahead"]
    assert (alone.tokens_per_step, alone.decode_tokens_per_s, alone.speedup_vs_greedy) == (None, None, None)


def test_the_interval_holds_the_median_narrows_with_more_values_and_does_not_change() -> None:
    few, many = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0] * 40
    low, high = bootstrap(few, median)
    assert 1.0 <= low < median(few) < high <= 5.0
    assert (low, high) == bootstrap(few, median)
    closer = bootstrap(many, median)
    assert closer[1] - closer[0] < high - low
    assert bootstrap([2.0], median) == (2.0, 2.0)


def test_a_question_is_identical_only_if_every_run_is(target: TargetModel) -> None:
    other = replace(LONG, token_ids=(*LONG.token_ids[:3], 7, *LONG.token_ids[4:]))
    rows = [
        row("a", 0, lookahead=LONG, greedy=LONG),
        row("b", 0, lookahead=LONG, greedy=LONG),
        row("a", 1, lookahead=LONG, greedy=LONG),
        row("b", 1, lookahead=other, greedy=LONG),
    ]
    found = summary(rows, target)
    assert found["greedy"].identical == (2, 2)
    assert found["greedy"].first_difference is None
    assert found["lookahead"].identical == (1, 2)
    first = found["lookahead"].first_difference
    assert first is not None
    assert (first.id, first.position) == ("b", 3)
    assert first.reference == target.tokenizer.decode(list(LONG.token_ids))
    assert first.text == target.tokenizer.decode(list(other.token_ids))


def test_a_missing_end_of_sequence_token_is_a_difference(target: TargetModel) -> None:
    cut = replace(LONG, token_ids=LONG.token_ids[:-1])
    first = summary([row("a", lookahead=cut, greedy=LONG)], target)["lookahead"].first_difference
    assert first is not None
    assert first.position == 10


def test_without_greedy_lookahead_is_the_reference(target: TargetModel) -> None:
    other = replace(LONG, token_ids=(1, 2))
    found = summary([row("a", lookahead=LONG, hf_greedy=other)], target)
    assert found["lookahead"].identical == (1, 1)
    assert found["hf-greedy"].identical == (0, 1)
    assert found["lookahead"].speedup_vs_greedy is None
    assert found["lookahead"].speedup_vs_hf_greedy is not None


@pytest.mark.parametrize(
    ("left", "right", "at"), [((1, 2), (1, 3), 1), ((1, 2), (1, 2, 3), 2), ((1, 2), (), 0), ((5,), (6,), 0)]
)
def test_first_unequal(left: tuple[int, ...], right: tuple[int, ...], at: int) -> None:
    assert first_unequal(left, right) == first_unequal(right, left) == at


def test_quality_is_a_mean_over_the_questions_that_have_references(target: TargetModel) -> None:
    def said(text: str) -> Decoded:
        return replace(LONG, token_ids=tuple(target.tokenizer(text)["input_ids"]))

    questions = [
        BenchQuestion("a", "?", ("p",), ("in the cellar",), ("cellar", "attic")),
        BenchQuestion("b", "?", ("p",), ("red",)),
        BenchQuestion("c", "?", ("p",)),
    ]
    rows = [
        row("a", lookahead=said("In the cellar.")),
        row("b", lookahead=said("Blue")),
        row("c", lookahead=said("?")),
    ]
    found = summarise(rows, questions, ["lookahead"], target)["lookahead"]
    assert found.contains == 0.25
    assert found.token_f1 == 0.5
    bare = summarise(rows[2:], questions, ["lookahead"], target)["lookahead"]
    assert (bare.contains, bare.token_f1) == (None, None)
