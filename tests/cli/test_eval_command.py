"""``ragla eval`` with tiny models: its JSON contract, its tables, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.tiny_world import Ragla, World, document

RANKS = {"recall_at_1", "recall_at_3", "recall_at_5", "mrr", "ndcg_at_10"}


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    """Three paragraphs that share no word, one question each and one that has no answer."""
    texts = ["Boats are moored at the north pier.", "Lanterns burn paraffin oil.", "骆驼在沙漠里走路。"]
    asked = ["Where are boats moored?", "What oil do lanterns burn?", "骆驼在哪里走路？"]
    answers = ["the north pier", "paraffin", "沙漠里"]
    paragraphs = [
        {"context": text, "qas": [{"id": f"q{at}", "question": question, "answers": [{"text": answer}]}]}
        for at, (text, question, answer) in enumerate(zip(texts, asked, answers, strict=True))
    ]
    impossible = {"id": "q9", "question": "Who sings opera?", "answers": [], "is_impossible": True}
    paragraphs[0]["qas"].append(impossible)  # type: ignore[attr-defined]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def test_retrieval_over_the_files_own_paragraphs(ragla: Ragla, world: World, squad: Path) -> None:
    flags = ["--profile", world.profile, "--corpus-from-questions", "--retrieval-only", "--json"]
    found = document(ragla("eval", squad, *flags))
    assert found["schema"] == "ragla.eval/1"
    assert (found["questions"], found["passages"], found["retrieval"]["questions"]) == (4, 3, 3)
    assert all(set(found["retrieval"][mode]) == RANKS for mode in ("dense", "lexical", "hybrid"))
    assert found["retrieval"]["lexical"]["recall_at_1"] == 1.0
    assert found["retrieval"]["ranks"]["lexical"] == {"q0": 1, "q1": 1, "q2": 1}
    assert "answers" not in found


def test_two_files_are_one_corpus_with_numbers_for_each(ragla: Ragla, world: World, squad: Path) -> None:
    other = squad.with_name("other.json")
    other.write_text(squad.read_text(encoding="utf-8").replace("Boats", "Ships"), encoding="utf-8")
    flags = ["--profile", world.profile, "--corpus-from-questions", "--retrieval-only", "--json"]
    found = document(ragla("eval", squad, other, *flags))
    assert set(found["files"]) == {"squad.json", "other.json"}
    assert found["files"]["other.json"]["retrieval"]["questions"] == 3


def test_answers_of_both_decoders(ragla: Ragla, world: World, squad: Path) -> None:
    flags = ["--profile", world.profile, "--corpus-from-questions", "-s", "decode.max_new_tokens=8"]
    found = document(ragla("eval", squad, *flags, "--limit", "2", "--json"))
    assert set(found["answers"]) == {"lookahead", "greedy"}
    for scores in found["answers"].values():
        assert {"exact_match", "f1", "contains", "faithful"} <= set(scores)
        assert scores["identical"] == [2, 2]
    texts = {name: [reply["text"] for reply in its["replies"]] for name, its in found["answers"].items()}
    assert texts["lookahead"] == texts["greedy"]
    assert set(found["refusal"]) >= {"precision", "recall"}


def test_an_index_with_questions_that_name_their_lines(ragla: Ragla, world: World, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    source = next(world.docs.rglob("*.md"))
    word = source.read_text(encoding="utf-8").split()[-1]
    record = {"question": word, "source": source.relative_to(world.docs).as_posix()}
    path.write_text(json.dumps(record), encoding="utf-8")
    result = ragla("eval", path, *world.flags, "--retrieval-only")
    assert result.exit_code == 0, result.output
    assert "recall@1" in result.stdout
    assert "hybrid" in result.stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--decoders", "beam"], "no such decoder"),
        (["--corpus-from-questions", "--index", "x"], "which corpus"),
    ],
)
def test_flags_that_make_no_sense(ragla: Ragla, squad: Path, flags: list[str], said: str) -> None:
    result = ragla("eval", squad, *flags)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
