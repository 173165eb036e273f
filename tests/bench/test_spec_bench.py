"""Spec-Bench's own question file: its turns, its references, its categories, and what the model is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragla.bench import BenchQuestion, load_questions, load_spec_bench, needs_index, run_bench
from ragla.bench.questions import select
from ragla.bench.turns import turn_prompt
from ragla.config import Profile
from ragla.decode.model import TargetModel
from ragla.errors import UsageError
from ragla.prompt import Turn
from tests.cli.tiny_models import byte_tokenizer

RAG = "Boats are moored at the pier.\nThe keys are in the green cabinet.\nWhere are the keys?"
LINES: list[dict[str, Any]] = [
    {"question_id": 81, "category": "writing", "turns": ["Write.", "Again, shorter."]},
    {"question_id": 101, "category": "math", "turns": ["1+1?", "2+2?"], "reference": ["2", ""]},
    {"question_id": 161, "category": "translation", "turns": ["Pfand?"], "reference": ["Pawn."]},
    {"question_id": 481, "category": "rag", "turns": [RAG], "reference": [["green cabinet", "cabinet"]]},
    {"question_id": 482, "category": "rag", "turns": ["Nothing to split?"]},
]


def written(folder: Path, *lines: object) -> Path:
    path = folder / "question.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_every_turn_is_a_question_with_its_own_references(tmp_path: Path) -> None:
    found = load_spec_bench(written(tmp_path, *LINES))
    assert [(question.id, question.follows, question.category) for question in found] == [
        ("81", None, "writing"), ("81/2", "81", "writing"), ("101", None, "math"), ("101/2", "101", "math"),
        ("161", None, "translation"), ("481", None, "rag"), ("482", None, "rag"),
    ]  # fmt: skip
    assert [question.references for question in found] == [
        (), (), ("2",), (), ("Pawn.",), ("green cabinet", "cabinet"), (),
    ]  # fmt: skip
    assert all(question.verbatim for question in found)
    assert found[5].text == RAG
    assert not needs_index(found)


def test_passages_are_split_off_where_there_are_some(tmp_path: Path) -> None:
    found = load_spec_bench(written(tmp_path, *LINES), split_passages=True)
    rag = found[5]
    assert (rag.text, rag.passages, rag.verbatim) == (
        "Where are the keys?",
        tuple(RAG.split("\n")[:2]),
        False,
    )
    assert found[6].verbatim
    assert found[0].verbatim


def test_a_selection_keeps_turns_together_and_counts_questions(tmp_path: Path) -> None:
    found = load_spec_bench(written(tmp_path, *LINES))

    def ids(**choice: Any) -> list[str]:
        return [question.id for question in select(found, **choice)]

    assert ids(limit=1) == ["81", "81/2"]
    assert ids(each=1) == ["81", "81/2", "101", "101/2", "161", "481"]
    assert ids(categories=["rag", "math"]) == ["101", "101/2", "481", "482"]
    assert ids(categories=["rag", "math"], each=1, limit=1) == ["101", "101/2"]
    with pytest.raises(UsageError, match="--category rug: no question is of that category") as raised:
        ids(categories=["rug"])
    assert "did you mean rag? categories: math, rag, translation, writing" in str(raised.value.hint)
    with pytest.raises(UsageError) as raised:
        select([BenchQuestion("a", "?")], ["rag"])
    assert raised.value.hint == "no question has a `category`"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"category": "qa", "turns": ["?"]}, "no `question_id`"),
        ({"question_id": True, "category": "qa", "turns": ["?"]}, "no `question_id`"),
        ({"question_id": 1, "turns": ["?"]}, "no `category`"),
        ({"question_id": 1, "category": " ", "turns": ["?"]}, "no `category`"),
        ({"question_id": 1, "category": "qa"}, "no `turns`"),
        ({"question_id": 1, "category": "qa", "turns": []}, "no `turns`"),
        ({"question_id": 1, "category": "qa", "turns": ["?", "  "]}, "each of `turns` must be a text"),
        ({"question_id": 1, "category": "qa", "turns": [7]}, "each of `turns` must be a text"),
        ({"question_id": 1, "category": "qa", "turns": ["\ud800"]}, "half of a surrogate pair"),
        ({"question_id": 1, "category": "qa", "turns": ["?"], "reference": "x"}, "must be a list"),
        ({"question_id": 1, "category": "qa", "turns": ["?"], "reference": [[7]]}, "must hold texts"),
        (["?"], "not a JSON object"),
    ],
)
def test_what_is_no_question_is_named_with_its_line(tmp_path: Path, line: object, said: str) -> None:
    path = written(tmp_path, LINES[0], line)
    with pytest.raises(UsageError, match=said) as raised:
        load_spec_bench(path)
    assert f"{path}:2" in str(raised.value)


def test_each_form_of_questions_names_the_flag_of_the_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        load_questions(written(tmp_path, LINES[0]))
    assert "--spec-bench FILE.jsonl" in str(raised.value.hint)
    with pytest.raises(UsageError) as raised:
        load_spec_bench(written(tmp_path, {"id": 1, "question": "Who?"}))
    assert "--questions FILE.jsonl" in str(raised.value.hint)


def test_an_empty_file_and_a_repeated_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no questions"):
        load_spec_bench(written(tmp_path))
    with pytest.raises(UsageError, match="two questions have the id 81"):
        load_spec_bench(written(tmp_path, LINES[0], LINES[0]))


def test_the_model_is_told_the_text_alone_inside_its_template() -> None:
    tokenizer = byte_tokenizer()
    before = [Turn("Write <|im_end|>.", " Yes. ")]
    prompt = turn_prompt(tokenizer, "Again\nshorter. ", before)
    assert tokenizer.decode(prompt.token_ids) == (
        "<|im_start|>user\nWrite <|im_end|>.<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
        "<|im_start|>user\nAgain\nshorter.<|im_end|>\n<|im_start|>assistant\n"
    )
    # what a text spells is no control token: three turns end, not four
    assert prompt.token_ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 3


def test_without_a_template_the_turns_are_plain_text(target: TargetModel) -> None:
    prompt = turn_prompt(target.tokenizer, "And?", [Turn("Who?", "Me.")])
    assert target.tokenizer.decode(prompt.token_ids) == "Who?\n\nAnswer: Me.\n\nAnd?\n\nAnswer:"


def test_a_second_turn_follows_the_plain_loops_answer(
    profile: Profile, target: TargetModel, tmp_path: Path
) -> None:
    asked = load_spec_bench(written(tmp_path, *LINES[:3]))
    seen: list[tuple[int, int, str]] = []
    result = run_bench(profile, target, asked, ["greedy"], on_progress=lambda *turn: seen.append(turn))
    assert [row.id for row in result.rows] == ["81", "81/2", "101", "101/2", "161"]
    assert (result.questions, result.follow_ups, result.answers, result.planned) == (5, 2, 5, 5)
    assert seen[-1][:2] == (5, 5)
    first, second = result.rows[:2]
    answer = target.tokenizer.decode(list(first.answers["greedy"].token_ids), skip_special_tokens=True)
    expected = turn_prompt(target.tokenizer, "Again, shorter.", [Turn("Write.", answer)])
    assert second.prompt_tokens == len(expected.token_ids)
    assert result.decoders["lookahead"].identical == (5, 5)
    assert list(result.categories) == ["writing", "math", "translation"]
    assert [its["lookahead"].identical[1] for its in result.categories.values()] == [2, 2, 1]
    whole = result.decoders["greedy"]
    steps = sum(sum(its["greedy"].lengths) for its in result.categories.values())
    assert steps == sum(whole.lengths) == sum(row.answers["greedy"].steps for row in result.rows)


def test_a_turn_that_may_not_fit_is_refused_before_anything_runs(
    profile: Profile, target: TargetModel, tmp_path: Path
) -> None:
    long = {"question_id": 9, "category": "qa", "turns": ["word " * 300, "word " * 200]}
    with pytest.raises(UsageError, match="question 9/2: the prompt may have") as raised:
        run_bench(profile, target, load_spec_bench(written(tmp_path, long)), [])
    assert raised.value.hint == "take it out of the file, or choose others: --category NAME"
