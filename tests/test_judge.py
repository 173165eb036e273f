"""The answering model is asked first; what it is asked and how sure it is are known from the model itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ragla.answer import Answerer
from ragla.bench.questions import BenchQuestion
from ragla.config import Profile
from ragla.decode.model import LoadSettings, TargetModel, load_target
from ragla.evaluate.answers import evaluate_answers
from ragla.evaluate.questions import EvalQuestion
from ragla.evidence import Evidence, Source
from ragla.judge import NO, TASK, YES, refusal
from ragla.prompt import NO_ANSWER, NO_ANSWER_ZH, PromptPassage, Turn, encode, with_task
from ragla.render_answer import answer_json, cost_lines
from tests.cli.tiny_models import READ, save_llm

QUESTION = "What is the hotel limit in Paris?"
EVIDENCE = Evidence(
    [PromptPassage("", text) for text in READ[:2]], [Source(n, f"{n}.md", 1, 1, 0.5) for n in range(2)]
)
TURNS = [Turn("Where are the boats?", "At the north pier [1].")]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> TargetModel:
    folder: Path = save_llm(tmp_path_factory.mktemp("llm"))
    return load_target(folder, LoadSettings(backend="eager", dtype="float32", device="cpu"))


def answerer(target: TargetModel, judge: float | None, **more: Any) -> Answerer:
    settings = {"retrieve": {"judge": judge}, "decode": {"max_new_tokens": 12, "cost_aware": False}}
    return Answerer(Profile.model_validate(settings), target, **more)


def ids_in_full(target: TargetModel, words: tuple[str, ...]) -> set[int]:
    return {encode(target.tokenizer, word, special=False)[0] for word in words}


def test_the_chance_is_the_models_own(target: TargetModel) -> None:
    asking = answerer(target, 0.0)
    judged = asking.answer(QUESTION, EVIDENCE).judged
    prompt = asking.prepare(QUESTION, EVIDENCE).prompt
    asked = with_task(target.tokenizer, prompt, QUESTION, TASK)
    text = target.tokenizer.decode(asked)
    assert READ[0].split(".")[0] in text
    assert f"Question: {QUESTION}\n\n{TASK}" in text
    with torch.inference_mode():
        logits = target.backend.model(torch.tensor([asked])).logits[0, -1].double()  # type: ignore[attr-defined]
    yes, no = ids_in_full(target, (*YES, "有", "是")), ids_in_full(target, (*NO, "没有", "没", "否"))
    weights = {True: logits[sorted(yes - no)].exp().sum(), False: logits[sorted(no - yes)].exp().sum()}
    assert judged == pytest.approx(float(weights[True] / (weights[True] + weights[False])), rel=1e-4)
    assert 0.0 < judged < 1.0


@pytest.mark.parametrize("turns", [[], TURNS])
@pytest.mark.parametrize("reuse", [True, False])
def test_an_answer_is_the_same_whether_it_was_judged_or_not(
    target: TargetModel, turns: list[Turn], reuse: bool
) -> None:
    plain = answerer(target, None, reuse=reuse).answer(QUESTION, EVIDENCE, turns=turns)
    judged = answerer(target, 0.0, reuse=reuse).answer(QUESTION, EVIDENCE, turns=turns)
    assert plain.judged is None
    assert plain.notices == judged.notices == ()
    assert judged.judged is not None
    assert judged.token_ids == plain.token_ids
    assert judged.sources == plain.sources
    assert plain.stats.reused == 0
    assert (judged.stats.reused > 0) == reuse
    assert any("asked first" in line.plain for line in cost_lines(judged))
    assert not any("asked first" in line.plain for line in cost_lines(plain))


@pytest.mark.parametrize(
    ("question", "sentence"), [(QUESTION, NO_ANSWER), ("巴黎的酒店限额是多少？", NO_ANSWER_ZH)]
)
def test_below_the_chance_asked_for_nothing_is_decoded(
    target: TargetModel, question: str, sentence: str
) -> None:
    heard: list[str] = []
    asking = answerer(target, 1.0)
    answer = asking.answer(question, EVIDENCE, heard.append)
    assert (answer.answered, answer.text, "".join(heard)) == (False, sentence, sentence)
    assert (answer.token_ids, answer.request, answer.stats.steps) == ([], None, [])
    assert [source.path for source in answer.sources] == ["0.md", "1.md"]
    assert not any(source.cited for source in answer.sources)
    assert asking.recheck(answer) is None
    document = answer_json(answer, answer.notices)
    assert document["judged"] == answer.judged
    assert "retrieve.judge asks for 1.00" in document["notices"][0]


def test_just_above_the_bound_is_answered(target: TargetModel) -> None:
    chance = answerer(target, 0.0).answer(QUESTION, EVIDENCE).judged
    assert chance is not None
    assert answerer(target, chance).answer(QUESTION, EVIDENCE).answered
    assert not answerer(target, min(1.0, chance + 1e-6)).answer(QUESTION, EVIDENCE).answered


def test_without_passages_nothing_is_asked(target: TargetModel) -> None:
    assert answerer(target, 1.0).answer(QUESTION, Evidence([])).judged is None


def test_no_room_to_ask_is_no_refusal(tmp_path: Path) -> None:
    """Passages fill the window behind an instruction that is much shorter than the task of the judge."""
    target = load_target(
        save_llm(tmp_path, window=220), LoadSettings(backend="eager", dtype="float32", device="cpu")
    )
    settings = {
        "retrieve": {"judge": 1.0},
        "prompt": {"instruction": "?", "token_budget": 1024},
        "decode": {"max_new_tokens": 2, "cost_aware": False},
    }
    sources = [Source(number, "0.md", 1, 1, 0.5) for number in range(30)]
    evidence = Evidence([PromptPassage("", "Boats")] * 30, sources)
    answer = Answerer(Profile.model_validate(settings), target).answer("Boats?", evidence)
    assert answer.judged is None
    assert len(answer.token_ids) == 2
    assert any("was not asked first" in notice for notice in answer.notices)


def test_an_evaluation_counts_what_the_judge_refused(target: TargetModel) -> None:
    questions = [
        EvalQuestion(BenchQuestion(name, QUESTION, tuple(READ[:2]), ()), None, answerable)
        for name, answerable in (("known", True), ("unknown", False))
    ]
    for least, refused in ((1.0, 2), (0.0, 0)):
        scores = evaluate_answers(questions, answerer(target, least), None, ("lookahead", "greedy"))
        for name in ("lookahead", "greedy"):
            assert scores[name].refusal.refused == refused
            assert scores[name].identical == (2, 2)
        assert scores["greedy"].refusal.recall == (1.0 if refused else 0.0)


def test_what_is_said_of_a_refusal() -> None:
    assert refusal(None, 0.5) is None
    assert refusal(0.9, None) is None
    assert refusal(0.5, 0.5) is None
    assert refusal(0.123, 0.5) == (
        "the model finds no answer in the passages it read: yes 0.12, retrieve.judge asks for 0.50"
    )
