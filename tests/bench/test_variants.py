"""Other shapes, fixed budgets and other precisions beside the profile's own decoder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ragla.bench import BenchQuestion, parse_decoders, run_bench
from ragla.bench.names import expand, most_exact, own_greedy
from ragla.bench.run import Beside
from ragla.config import Profile
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.budget import StepCost
from ragla.decode.model import LoadSettings, TargetModel, load_target
from ragla.errors import UsageError


@pytest.mark.parametrize(
    "name", ["shape:round", "budget:0", "budget:257", "budget:²", "dtype:int4", "shape:"]
)
def test_names_of_no_variant_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no such decoder") as raised:
        parse_decoders([name])
    assert "shape:SHAPE (tree, parallel, single)" in str(raised.value.hint)


def test_a_misspelt_variant_is_guessed() -> None:
    with pytest.raises(UsageError) as raised:
        parse_decoders(["shape:singel"])
    assert "did you mean shape:single?" in str(raised.value.hint)


def test_a_precision_stands_for_two_decoders_and_asks_for_greedy() -> None:
    names = parse_decoders(["dtype:int8,dtype:float32", "shape:single"])
    assert expand(names, "int8") == (
        "lookahead", "greedy", "shape:single", "lookahead@float32", "greedy@float32",
    )  # fmt: skip
    assert expand(names, "float32")[-2:] == ("lookahead@int8", "greedy@int8")
    assert expand(parse_decoders(["hf-greedy"]), "int8") == ("lookahead", "hf-greedy")
    assert own_greedy("lookahead@int8") == own_greedy("greedy@int8") == "greedy@int8"
    assert own_greedy("hf-greedy") == "greedy"


def test_the_most_exact_precision_is_what_others_are_held_to() -> None:
    names = ("lookahead", "greedy", "lookahead@bfloat16", "greedy@bfloat16")
    assert most_exact(names, "float32") == "greedy"
    assert most_exact(names, "int8") == "greedy@bfloat16"
    assert most_exact(("lookahead", "greedy"), "int8") is None
    assert most_exact(names, "float64") == "greedy"


def test_shapes_and_budgets_bound_the_drafts_and_keep_the_text(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    names = ["greedy", "shape:single,shape:parallel", "budget:1", "budget:4"]
    result = run_bench(profile, target, questions[:2], names, cost=StepCost())
    assert all(found.identical == (2, 2) for found in result.decoders.values())
    alone, few = result.decoders["budget:1"], result.decoders["budget:4"]
    assert alone.nodes_per_step == alone.tokens_per_step == 1.0
    assert few.nodes_per_step is not None
    assert 1.0 < few.nodes_per_step <= 4.0
    assert len(few.lengths) <= 4


def test_a_fixed_budget_is_verified_whatever_it_costs(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    forbidding = StepCost({at: {1: 1e-9, 2: 1e3, 4: 1e3, 64: 1e3} for at in range(20)})
    result = run_bench(profile, target, questions[:1], ["budget:4"], cost=forbidding)
    assert result.decoders["lookahead"].nodes_per_step == 1.0
    fixed = result.decoders["budget:4"].nodes_per_step
    assert fixed is not None
    assert fixed > 1.0


def test_a_first_draft_is_verified_with_the_prompt_where_it_may_be(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    """A question that was asked before: its answer is known, but not to what knows a transcript only."""
    asked = [questions[0], replace(questions[0], id="again")]
    names = ["greedy", "budget:8", "without:prefill-draft", "as-replayed"]
    result = run_bench(profile, target, asked, names)
    again = result.rows[-1].answers
    assert result.rows[-1].id == "again"
    assert again["budget:8"].prefill_tokens > 1
    assert {again[name].prefill_tokens for name in ("greedy", "without:prefill-draft", "as-replayed")} == {1}
    assert all(found.identical == (2, 2) for found in result.decoders.values())
    for name, found in result.decoders.items():
        answers = [row.answers[name] for row in result.rows]
        steps = sum(answer.steps for answer in answers)
        assert found.tokens_per_step == sum(len(answer.token_ids) - 1 for answer in answers) / steps


@pytest.fixture(scope="module")
def other(folder: Path) -> TargetModel:
    """The same folder in another precision, whose rounding is made coarse enough to tell."""
    loaded = load_target(folder, LoadSettings(backend="eager", dtype="bfloat16"))
    assert isinstance(loaded.backend, EagerBackend)
    with torch.no_grad():
        for weights in loaded.backend.model.parameters():
            weights.copy_((weights * 16).round() / 16)
    return loaded


def test_precisions_are_compared_in_one_table(
    profile: Profile, target: TargetModel, other: TargetModel, questions: list[BenchQuestion]
) -> None:
    names = ["dtype:bfloat16", "dtype:float32"]
    result = run_bench(profile, target, questions, names, beside=[Beside(other)])
    assert list(result.decoders) == ["lookahead", "greedy", "lookahead@bfloat16", "greedy@bfloat16"]
    assert result.exact == "greedy"
    assert result.environment.dtypes == ("float32", "bfloat16")
    own = result.decoders["greedy"]
    assert (own.same_as_exact, own.agreement) == ((3, 3), 1.0)
    assert result.decoders["lookahead"].same_as_exact == (3, 3)
    rounded = result.decoders["greedy@bfloat16"]
    truth = [row.answers["greedy"].token_ids for row in result.rows]
    same = sum(
        row.answers["greedy@bfloat16"].token_ids == ids for row, ids in zip(result.rows, truth, strict=True)
    )
    assert rounded.same_as_exact == (same, 3)
    assert same < 3  # else this tests nothing
    assert rounded.identical == (3, 3)  # it is its own yardstick
    assert rounded.agreement is not None
    assert rounded.agreement < 1.0
    assert rounded.speedup_vs_greedy is not None
    assert rounded.speedup_vs_greedy.value == 1.0
    json.dumps(result.to_json(), allow_nan=False)


def test_a_single_precision_has_nothing_to_be_held_to(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    result = run_bench(profile, target, questions[:1], ["dtype:float32"])
    assert (result.exact, result.decoders["lookahead"].agreement) == (None, None)
    assert list(result.decoders) == ["lookahead", "greedy"]


def test_an_interrupt_keeps_the_questions_that_every_decoder_has_answered(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(question: int, _: int, decoder: str) -> None:
        if (question, decoder) == (3, "greedy"):
            raise KeyboardInterrupt

    result = run_bench(profile, target, questions, ["greedy"], runs=2, on_progress=press)
    assert (result.answers, result.planned, result.questions) == (2, 6, 2)
    assert [row.id for row in result.rows] == ["a", "b"]
    assert result.decoders["lookahead"].identical == (2, 2)
    with pytest.raises(KeyboardInterrupt):
        run_bench(
            profile, target, questions, ["greedy"], on_progress=lambda at, *_: press(3 * at, 0, "greedy")
        )


def test_the_first_answer_is_timed_before_anything_is_warm(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    seen: list[str] = []
    result = run_bench(
        profile, target, questions[:1], [], cost=StepCost(), load_s=1.5, load_average=0.25,
        on_progress=lambda _, __, decoder: seen.append(decoder),
    )  # fmt: skip
    assert seen == ["first answer", "lookahead", "lookahead"]
    first = result.first_answer
    assert first is not None
    assert (first.id, first.load_s) == ("a", 1.5)
    assert first.calibration_s > 0  # what steps cost was not known
    assert first.cold.retrieval_s == first.warm.retrieval_s == 0.0  # the passages were given
    assert first.cold.ttft_s > 0
    assert first.warm.tokens_per_s == result.rows[0].answers["lookahead"].tokens_per_s
    assert result.environment.load_average == 0.25


def test_parts_of_the_time_add_up(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    result = run_bench(profile, target, questions, ["greedy", "hf-prompt-lookup"])
    for name, found in result.decoders.items():
        spent = found.seconds
        assert spent is not None
        whole = sum(row.ttft_s(name) + row.answers[name].decode_s for row in result.rows) / 3
        counted = [
            spent.retrieve,
            spent.prompt,
            spent.seed,
            spent.prefill,
            spent.draft,
            spent.verify,
            spent.rest,
        ]
        assert sum(part or 0.0 for part in counted) == pytest.approx(whole)
        assert (spent.draft is None) == (name == "hf-prompt-lookup")
        answers = [row.answers[name] for row in result.rows]
        assert all(sum(answer.commits) == answer.step_tokens for answer in answers)
        assert sum(found.lengths) == sum(answer.steps for answer in answers)
        assert sum(part.tokens for part in found.positions) == sum(answer.step_tokens for answer in answers)
