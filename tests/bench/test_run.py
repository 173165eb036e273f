from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragla.bench import DECODERS, BenchQuestion, parse_decoders, run_bench
from ragla.bench.result import BenchResult
from ragla.bench.run import rotated
from ragla.bench.stock import StockModel
from ragla.config import DecodeSettings, Profile, PromptSettings
from ragla.decode.budget import StepCost
from ragla.decode.model import LoadSettings, TargetModel, load_target
from ragla.decode.request import DecodeRequest
from ragla.errors import IndexUnusable, ModelUnavailable, NothingRelevant, UsageError
from ragla.models import locate
from ragla.retrieve.passage import Passage, ScoredPassage
from ragla.trie import Drafter

DECODER_KEYS = {
    "tokens_per_step",
    "accepted_share",
    "decode_tokens_per_s",
    "ttft_s",
    "speedup_vs_greedy",
    "speedup_spread",
    "speedup_vs_hf_greedy",
    "speedup_vs_hf_greedy_spread",
    "too_short",
    "identical",
    "first_difference",
    "contains",
    "token_f1",
    "tokens_per_s",
    "ttft",
    "step_tokens",
    "nodes_per_step",
    "lengths",
    "positions",
    "seconds",
    "points",
    "same_as_exact",
    "agreement",
}
ENVIRONMENT_KEYS = {
    "ragla",
    "python",
    "torch",
    "transformers",
    "cpu",
    "cores",
    "threads",
    "device",
    "device_name",
    "model",
    "dtype",
    "stock_dtype",
    "backend",
    "draft_budget",
    "cost_aware",
    "max_depth",
    "shape",
    "max_new_tokens",
    "prompt_tokens",
    "runs",
    "date",
    "dtypes",
    "system",
    "compiled",
    "window",
    "answer_tokens",
    "load_average",
    "other_cores",
}


def with_decode(profile: Profile, **values: object) -> Profile:
    return profile.model_copy(update={"decode": profile.decode.model_copy(update=values)})


def token_ids(result: BenchResult, decoder: str) -> list[tuple[int, ...]]:
    return [row.answers[decoder].token_ids for row in result.rows]


def test_all_decoders_give_one_text_and_the_json_keeps_its_contract(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], folder: Path
) -> None:
    result = run_bench(profile, target, questions, DECODERS, cost=StepCost(), runs=2)
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert set(found) == {
        "schema", "environment", "questions", "unanswered", "decoders", "rows", "categories", "first_answer",
        "exact", "follow_ups", "answers", "planned",
    }  # fmt: skip
    assert found["schema"] == "ragla.bench/1"
    assert found["questions"] == 3
    assert set(found["environment"]) == ENVIRONMENT_KEYS
    assert found["environment"]["model"] == folder.name
    assert found["environment"]["backend"] == "cpu"
    assert set(found["environment"]["prompt_tokens"]) == {"min", "median", "max"}
    assert list(found["decoders"]) == list(DECODERS)
    for numbers in found["decoders"].values():
        assert set(numbers) == DECODER_KEYS
        assert numbers["identical"] == [3, 3]
        assert numbers["first_difference"] is None
        assert numbers["ttft_s"] > 0
        low, high = numbers["speedup_spread"]
        assert low <= numbers["speedup_vs_greedy"] <= high
    assert found["decoders"]["greedy"]["speedup_vs_greedy"] == 1.0
    assert found["decoders"]["hf-greedy"]["speedup_vs_hf_greedy"] == 1.0
    assert len(found["rows"]) == 6
    row = found["rows"][0]
    assert set(row) == {"id", "run", "prompt_tokens", "order", "decoders", "category", "retrieval_s"}
    assert all(
        set(numbers)
        == {
            "tokens", "steps", "decode_s", "ttft_s",
            "prefill_tokens", "accepted", "nodes", "draft_s", "verify_s",
        }
        for numbers in row["decoders"].values()
    )  # fmt: skip


def test_plain_decoders_take_a_step_a_token_and_drafting_ones_fewer(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    result = run_bench(profile, target, questions, DECODERS)
    for row in result.rows:
        for name in ("greedy", "hf-greedy"):
            answer = row.answers[name]
            assert (answer.steps, answer.accepted) == (len(answer.token_ids) - 1, 0)
    for name in ("lookahead", "hf-prompt-lookup"):
        found = result.decoders[name]
        assert found.tokens_per_step is not None
        assert found.tokens_per_step > 1.2  # a random model soon repeats itself
        assert 0 < found.accepted_share < 1
    for row in result.rows:
        answer = row.answers["hf-prompt-lookup"]
        assert answer.accepted + answer.steps + 1 == len(answer.token_ids)


def test_an_end_of_sequence_token_ends_every_decoder_at_the_same_place(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    free = run_bench(profile, target, questions[:1], [])
    answer = free.rows[0].answers["lookahead"].token_ids
    end = next(token for at, token in enumerate(answer) if at >= 2 and token not in answer[:at])
    ending = replace(target, end_ids=frozenset({end}))
    result = run_bench(profile, ending, questions[:1], DECODERS)
    for name in DECODERS:
        (ids,) = token_ids(result, name)
        assert ids == answer[: answer.index(end) + 1]
        assert sum(result.rows[0].answers[name].commits) == result.rows[0].answers[name].step_tokens
        assert result.decoders[name].identical == (1, 1)


def test_a_penalty_of_the_profile_holds_for_all_and_one_of_the_folder_for_none(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], folder: Path
) -> None:
    assert "repetition_penalty" in (folder / "generation_config.json").read_text()
    plain = run_bench(profile, target, questions, DECODERS)
    penalised = run_bench(with_decode(profile, repetition_penalty=1.5), target, questions, DECODERS)
    assert token_ids(plain, "greedy") != token_ids(penalised, "greedy")
    for result in (plain, penalised):
        assert all(found.identical == (3, 3) for found in result.decoders.values())


def test_a_first_forward_that_verifies_a_draft_counts_as_prefill(
    profile: Profile, target: TargetModel, folder: Path
) -> None:
    stock = StockModel.load(folder, target, profile.decode)
    text, _ = stock.generate(DecodeRequest([5, 6, 7], 200))
    looping = [5, 6, 7, *text]
    plain, plain_watch = stock.generate(DecodeRequest(looping, 20))
    drafted, watch = stock.generate(DecodeRequest(looping, 20), lookup_tokens=10)
    assert drafted == plain
    assert (plain_watch.prefill_tokens, plain_watch.steps) == (1, 19)
    assert watch.prefill_tokens > 1
    assert watch.steps < 19
    assert watch.ttft_s > 0
    assert watch.decode_s > 0


def test_the_stock_model_is_loaded_only_for_the_decoders_that_need_it(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> StockModel:
        raise ModelUnavailable("not today")

    monkeypatch.setattr(StockModel, "load", refuse)
    run_bench(profile, target, questions[:1], ["greedy"])
    with pytest.raises(ModelUnavailable, match="not today"):
        run_bench(profile, target, questions[:1], ["hf-greedy"])


def test_a_folder_without_weights_is_one_clear_line(profile: Profile, target: TargetModel) -> None:
    with pytest.raises(ModelUnavailable, match="the stock model cannot be loaded") as raised:
        StockModel.load(Path("/nowhere/at/all"), target, profile.decode)
    assert "\n" not in str(raised.value)


def test_an_integer_target_is_compared_with_a_float32_stock_model(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    result = run_bench(profile, replace(target, dtype="int8"), questions[:1], ["hf-greedy"])
    assert (result.environment.dtype, result.environment.stock_dtype) == ("int8", "float32")


def test_turns_rotate_with_questions_and_runs(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    assert [rotated("abc", by) for by in (0, 1, 5)] == [list("abc"), list("bca"), list("cab")]
    seen: list[tuple[int, int, str]] = []
    result = run_bench(
        profile, target, questions[:2], ["greedy"], runs=2, on_progress=lambda *turn: seen.append(turn)
    )
    assert seen == [
        (0, 4, "first answer"),
        (0, 4, "lookahead"),
        (0, 4, "greedy"),
        (1, 4, "lookahead"),
        (1, 4, "greedy"),
        (2, 4, "greedy"),
        (2, 4, "lookahead"),
        (3, 4, "greedy"),
        (3, 4, "lookahead"),
        (4, 4, "lookahead"),
        (4, 4, "greedy"),
    ]
    orders = [(row.id, row.run, row.order[0]) for row in result.rows]
    assert orders == [("a", 0, "lookahead"), ("b", 0, "greedy"), ("a", 1, "greedy"), ("b", 1, "lookahead")]


def test_no_run_is_helped_by_an_answer_of_an_earlier_run(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[bool, bool]] = []
    plainly = Drafter.begin

    def begin(self: Drafter, prompt_ids: Sequence[int], *args: Any) -> None:
        assert self.answers is not None
        begun.append((bool(self.ranks), bool(self.answers.kept)))
        plainly(self, prompt_ids, *args)

    monkeypatch.setattr(Drafter, "begin", begin)
    run_bench(profile, target, questions[:2], [], runs=2)
    began_anew, went_on = (False, False), (True, True)
    assert begun[:2] == [began_anew] * 2  # the first answer and the warm-up
    assert begun[-4:] == [began_anew, went_on, began_anew, went_on]


def test_sources_can_be_switched_off_one_by_one(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    names = ["greedy", "as-replayed", "without:prompt,without:recycled"]
    result = run_bench(profile, target, questions[:2], names)
    assert list(result.decoders) == [
        "lookahead",
        "greedy",
        "as-replayed",
        "without:prompt",
        "without:recycled",
    ]
    assert all(found.identical == (2, 2) for found in result.decoders.values())


def test_step_costs_are_measured_at_the_questions_length_not_the_warm_ups(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    cost = StepCost()
    long = replace(questions[0], passages=("Anyone may claim. " * 30,))
    result = run_bench(profile, target, [long], [], cost=cost)
    assert list(cost.table) == [result.rows[0].prompt_tokens.bit_length()]


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_both_backends_are_compared(
    profile: Profile, questions: list[BenchQuestion], folder: Path, backend: Any
) -> None:
    target = load_target(folder, LoadSettings(backend=backend, dtype="float32"))
    result = run_bench(profile, target, questions, ["greedy", "hf-greedy"])
    assert result.environment.backend == backend
    assert all(found.identical == (3, 3) for found in result.decoders.values())


def test_names_repeat_take_commas_and_lookahead_always_runs() -> None:
    assert parse_decoders([]) == ("lookahead",)
    assert parse_decoders(["greedy, hf-greedy", "greedy", "lookahead"]) == (
        "lookahead",
        "greedy",
        "hf-greedy",
    )
    with pytest.raises(UsageError, match="--compare hf-gredy: no such decoder") as raised:
        parse_decoders(["hf-gredy"])
    assert raised.value.hint is not None
    assert "did you mean hf-greedy?" in raised.value.hint
    assert all(name in raised.value.hint for name in DECODERS)
    with pytest.raises(UsageError, match="no such decoder"):
        parse_decoders(["greedy,"])


def test_what_cannot_be_compared_is_refused_before_anything_runs(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    with pytest.raises(UsageError, match="no questions"):
        run_bench(profile, target, [], ["greedy"])
    with pytest.raises(UsageError, match="--runs 0"):
        run_bench(profile, target, questions, ["greedy"], runs=0)
    with pytest.raises(UsageError, match=r"decode.temperature is 0\.5"):
        run_bench(with_decode(profile, temperature=0.5), target, questions, ["greedy"])
    stopping = with_decode(profile, stop=("\n",))
    with pytest.raises(UsageError, match="hf-greedy runs without stop strings"):
        run_bench(stopping, target, questions, ["hf-greedy"])
    assert run_bench(stopping, target, questions[:1], ["greedy"]).decoders["lookahead"].identical == (1, 1)


def test_a_prompt_that_fits_no_window_or_no_passage_is_named(
    target: TargetModel, folder: Path, questions: list[BenchQuestion]
) -> None:
    decode = DecodeSettings(model=str(folder), max_new_tokens=4)
    wordy = BenchQuestion("wordy", "word " * 600, ("Boats float.",))
    with pytest.raises(UsageError, match=r"question wordy: the prompt has \d+ tokens, the model's window"):
        run_bench(Profile(decode=decode), target, [wordy], [])
    huge = BenchQuestion("huge", "Who?", ("word " * 600,))
    with pytest.raises(UsageError, match=r"question huge: no passage fits .* the model's window of \d+"):
        run_bench(Profile(decode=decode, prompt=PromptSettings(token_budget=4096)), target, [huge], [])
    with pytest.raises(UsageError, match=r"question huge: no passage fits prompt.token_budget 64"):
        run_bench(Profile(decode=decode, prompt=PromptSettings(token_budget=64)), target, [huge], [])


class FakeRetriever:
    """An index of one passage, which it finds for questions about boats."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def search(self, question: str, top_k: int, floor: float) -> list[ScoredPassage]:
        self.asked.append(question)
        if "boat" not in question:
            return []
        passage = Passage(1, 1, "boats.md", "/boats.md", "Boats", "Boats float.", 0, 12, 1, 1)
        return [ScoredPassage(passage, 0.9, 0.9, 0.9)]

    def document_text(self, document_id: int) -> str:
        return "Boats float."


def test_questions_without_passages_are_searched_and_those_without_evidence_left_out(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    retriever: Any = FakeRetriever()
    mixed = [questions[0], BenchQuestion("boat", "Does a boat float?"), BenchQuestion("tea", "Tea?")]
    result = run_bench(profile, target, mixed, ["greedy"], retriever)
    assert retriever.asked == ["Does a boat float?", "Tea?"]
    assert [row.id for row in result.rows] == ["a", "boat"]
    assert (result.questions, result.unanswered) == (2, ("tea",))
    assert result.decoders["lookahead"].identical == (2, 2)


def test_a_question_that_needs_an_index_says_so(profile: Profile, target: TargetModel) -> None:
    with pytest.raises(IndexUnusable, match="question tea comes without passages"):
        run_bench(profile, target, [BenchQuestion("tea", "Tea?")], [])
    retriever: Any = FakeRetriever()
    with pytest.raises(NothingRelevant, match="nothing relevant to any"):
        run_bench(profile, target, [BenchQuestion("tea", "Tea?")], [], retriever)


@pytest.mark.real
def test_a_real_model_keeps_its_text_with_drafts() -> None:
    try:
        folder = locate("smollm2-135m")
    except ModelUnavailable:
        pytest.skip("smollm2-135m is not on this machine")
    settings = DecodeSettings(model="smollm2-135m", dtype="float32", max_new_tokens=8, draft_budget=8)
    target = load_target(folder, LoadSettings(dtype="float32", threads=2))
    question = BenchQuestion(
        "h02",
        "What is the most I may pay for a hotel room in Paris?",
        ("In European capitals the limit per night is EUR 165, breakfast included.",),
        expected=("165",),
    )
    result = run_bench(Profile(decode=settings), target, [question], DECODERS)
    assert result.environment.model == "smollm2-135m"
    assert result.decoders["lookahead"].identical == (1, 1)
    assert result.decoders["lookahead"].contains == result.decoders["greedy"].contains
    for found in result.decoders.values():
        assert found.decode_tokens_per_s is not None
        assert found.decode_tokens_per_s > 0
