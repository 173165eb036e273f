from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragla.bench import BenchQuestion, load_questions, needs_index
from ragla.errors import UsageError

GOOD = '{"question": "Who?"}'


def written(folder: Path, *lines: str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_every_key_is_read_and_foreign_keys_are_let_be(tmp_path: Path) -> None:
    full = {
        "id": 7,
        "question": "谁？",
        "passages": ["甲", "乙"],
        "reference": ["甲。", "甲和乙。"],
        "expected": ["甲"],
        "language": "zh",
    }
    path = written(tmp_path, json.dumps(full), "", '{"question": "Who?", "reference": "Me."}', GOOD, "  ")
    assert load_questions(path) == [
        BenchQuestion("7", "谁？", ("甲", "乙"), ("甲。", "甲和乙。"), ("甲",)),
        BenchQuestion("line 3", "Who?", None, ("Me.",)),
        BenchQuestion("line 4", "Who?"),
    ]


def test_a_limit_takes_the_first_questions(tmp_path: Path) -> None:
    path = written(tmp_path, *[json.dumps({"id": at, "question": "Who?"}) for at in range(5)])
    assert [question.id for question in load_questions(path, 2)] == ["0", "1"]
    assert len(load_questions(path, 9)) == 5
    with pytest.raises(UsageError, match="--limit 0"):
        load_questions(path, 0)


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n")
    assert [question.text for question in load_questions(path)] == ["Who?"]


def test_a_line_separator_inside_a_question_does_not_end_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, '{"question": "one\u2028two"}')
    assert load_questions(path)[0].text == "one\u2028two"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"question": ', "broken JSON"),
        ('["Who?"]', "not a JSON object"),
        ('{"passages": ["a"]}', "no question"),
        ('{"question": 3}', "no question"),
        ('{"question": " \\n "}', "question is empty"),
        ('{"question": "Who?", "passages": "a"}', "`passages` must be a list"),
        ('{"question": "Who?", "passages": [1]}', "`passages` must be a list"),
        ('{"question": "Who?", "passages": []}', "no passage has text"),
        ('{"question": "Who?", "passages": [" "]}', "no passage has text"),
        ('{"question": "Who?", "reference": {"a": 1}}', "`reference` must be a list"),
        ('{"question": "Who\\ud800?"}', "surrogate"),
        ("[" * 100_000, "broken JSON"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_line_even_past_the_limit(
    tmp_path: Path, line: str, said: str
) -> None:
    path = written(tmp_path, GOOD, "", line)
    with pytest.raises(UsageError) as raised:
        load_questions(path, limit=1)
    assert str(raised.value).startswith(f"{path}:3: ")
    assert said in str(raised.value)
    assert raised.value.hint
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_set_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="holds no questions"):
        load_questions(written(tmp_path, content))


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_questions(tmp_path / "absent.jsonl")
    with pytest.raises(UsageError, match="cannot be read"):
        load_questions(tmp_path)
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "caf\xe9"}')
    with pytest.raises(UsageError, match="not a UTF-8 text"):
        load_questions(tmp_path / "latin.jsonl")


def test_two_questions_of_one_id_are_refused(tmp_path: Path) -> None:
    line = '{"id": "h1", "question": "Who?"}'
    with pytest.raises(UsageError, match="two questions have the id h1"):
        load_questions(written(tmp_path, line, line))


def test_only_questions_without_passages_need_an_index() -> None:
    assert needs_index([BenchQuestion("a", "?", ("p",)), BenchQuestion("b", "?")])
    assert not needs_index([BenchQuestion("a", "?", ("p",))])
