from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragla.errors import UsageError
from ragla.evaluate.corpus import write_corpus
from ragla.evaluate.questions import Lines, Paragraph, load_all, load_eval
from ragla.evaluate.retrieval import rank

HANDBOOK = Path(__file__).parents[2] / "corpora" / "handbook" / "questions.jsonl"


@dataclass(frozen=True)
class Cut:
    """A passage as the measures see it."""

    document_id: int
    path: str
    text: str
    first_line: int = 1
    last_line: int = 1


def squad(*paragraphs: tuple[str, list[dict[str, Any]]]) -> str:
    found = [{"context": context, "qas": qas} for context, qas in paragraphs]
    return json.dumps({"version": "1.1", "data": [{"paragraphs": found}]})


@pytest.fixture
def squad_file(tmp_path: Path) -> Path:
    asked = {"id": "q1", "question": "Where?", "answers": [{"text": "here", "answer_start": 0}]}
    hopeless = {"id": "q2", "question": "When?", "answers": [], "is_impossible": True}
    path = tmp_path / "squad.json"
    path.write_text(squad(("It is here.", [asked]), ("Nothing.\nMore.", [hopeless])), encoding="utf-8")
    return path


def test_squad(squad_file: Path) -> None:
    file = load_eval(squad_file)
    first, second = file.questions
    assert (first.asked.text, first.asked.references, first.gold) == (
        "Where?",
        ("here",),
        Paragraph("It is here."),
    )
    assert (second.answerable, second.gold, second.asked.references) == (False, None, ())
    assert file.paragraphs == ("It is here.", "Nothing.\nMore.")
    limited = load_eval(squad_file, 1)
    assert (len(limited.questions), len(limited.paragraphs)) == (1, 2)


def test_the_handbook() -> None:
    questions = load_eval(HANDBOOK).questions
    assert [question.answerable for question in questions].count(False) == 6
    assert questions[0].gold == Lines("en/expenses.md", 9, 9)
    assert questions[-1].gold is None


def test_paragraphs_become_files_word_for_word(squad_file: Path, tmp_path: Path) -> None:
    assert write_corpus([load_eval(squad_file)], tmp_path / "corpus") == 2
    texts = sorted(path.read_bytes() for path in (tmp_path / "corpus").rglob("*.txt"))
    assert texts == [b"It is here.", b"Nothing.\nMore."]


def test_questions_without_paragraphs_make_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="brings no paragraphs"):
        write_corpus([load_eval(HANDBOOK)], tmp_path / "corpus")


def test_translations_of_one_set_are_told_apart(squad_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(squad_file.read_bytes())
    ids = [question.asked.id for file in load_all([squad_file, other]) for question in file.questions]
    assert ids == ["squad.json:q1", "squad.json:q2", "other.json:q1", "other.json:q2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "SQuAD's form"),
        ('{"data": [{"paragraphs": [{"context": 5, "qas": []}]}]}', "SQuAD's form"),
        ('{"data": []}', "holds no questions"),
        (squad(("a", [{"id": "x", "question": "?"}, {"id": "x", "question": "??"}])), "two questions"),
        ('{"question": "?", "source": 5}', "path of a document"),
        ('{"question": "?", "source": "a", "first_line": "9"}', "numbers"),
        ('{"question": "?", "answerable": "no"}', "true or false"),
        ('{"question": ', "broken JSON"),
    ],
)
def test_what_is_no_question_is_said_in_a_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=said) as caught:
        load_eval(path)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_passage_is_right_where_it_shares_a_line() -> None:
    gold = Lines("en/a.md", 3, 5)
    assert gold.holds(Cut(1, "handbook/en/a.md", "", 5, 9))
    assert gold.holds(Cut(1, "en/a.md", "", 1, 3))
    assert not gold.holds(Cut(1, "en/a.md", "", 6, 9))
    assert not gold.holds(Cut(1, "xen/a.md", "", 3, 5))
    assert Lines("a.md").holds(Cut(1, "a.md", "", 6, 9))


def test_ranks_count_documents_where_a_whole_one_is_right() -> None:
    passages = [Cut(1, "x", "one"), Cut(1, "x", "two"), Cut(2, "y", "three  four")]
    assert rank(Paragraph("zero three four five"), passages) == 2
    assert rank(Lines("y", 1, 1), passages) == 3
    assert rank(Lines("z"), passages) is None
