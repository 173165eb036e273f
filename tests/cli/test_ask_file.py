"""Questions from a file, and what is kept from one prompt to the next."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragla.errors import UsageError
from ragla.question_file import AskedLine, parse_question, read_questions
from ragla.render import safe
from tests.cli.tiny_world import QUESTION, Ragla, World, document

BOATS = "Where are boats moored, at which pier?"


def records(result: Any) -> list[dict[str, Any]]:
    """The JSON documents of stdout, one a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "asked questions.txt"
    lines = [QUESTION, "", json.dumps({"question": BOATS, "id": 3}), QUESTION + " Really?"]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_each_question_has_the_answer_it_has_alone(ragla: Ragla, world: World, asked: Path) -> None:
    result = ragla("ask", "--file", asked, "--jsonl", *world.flags)
    assert (result.exit_code, result.stderr) == (0, "")
    answers = records(result)
    assert [answer["line"] for answer in answers] == [1, 3, 4]
    for answer in answers:
        alone = document(ragla("ask", answer["question"], *world.flags, "--json"))
        assert set(answer) == {*alone, "line"}
        assert answer["answer"] == alone["answer"]


def test_what_prompts_have_in_common_is_read_once_and_changes_nothing(
    ragla: Ragla, world: World, asked: Path
) -> None:
    with_reuse, without = (
        records(ragla("ask", "-f", asked, "--jsonl", *world.flags, *more)) for more in ([], ["--no-reuse"])
    )
    assert [answer["answer"] for answer in with_reuse] == [answer["answer"] for answer in without]
    assert all(answer["stats"]["reused_tokens"] == 0 for answer in without)
    kept = [answer["stats"]["reused_tokens"] for answer in with_reuse]
    assert kept[0] == 0
    assert all(
        0 < count < answer["stats"]["prompt_tokens"]
        for count, answer in zip(kept[1:], with_reuse[1:], strict=True)
    )


def test_answers_go_to_stdout_and_the_rest_to_stderr(ragla: Ragla, world: World, asked: Path) -> None:
    flags = [*world.flags, "-s", 'decode.stop=["\\n"]']
    result = ragla("ask", "-f", asked, *flags)
    answers = records(ragla("ask", "-f", asked, "--jsonl", *flags))
    assert result.exit_code == 0
    shown = [safe(answer["answer"]) for answer in answers]
    assert [line for line in result.stdout.split("\n") if line] == shown
    for question in (QUESTION, BOATS):
        assert f"› {question}" in result.stderr
        assert question not in result.stdout
    assert "3 of 3 answered · first token " in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].endswith("prompt tokens kept from before")


def test_questions_from_stdin(ragla: Ragla, world: World) -> None:
    result = ragla("ask", "--file", "-", "--jsonl", *world.flags, stdin=f"{QUESTION}\n\n{BOATS}\n")
    assert [answer["question"] for answer in records(result)] == [QUESTION, BOATS]


def test_a_question_that_fails_stops_no_other(ragla: Ragla, world: World, tmp_path: Path) -> None:
    (tmp_path / "q").write_text(f"{'word ' * 20_000}\n{QUESTION}\n")
    result = ragla("ask", "-f", tmp_path / "q", "--jsonl", *world.flags)
    failed, answered = records(result)
    assert (failed["schema"], failed["exit_code"], failed["line"]) == ("ragla.error/1", 2, 1)
    assert "the model's window is 4096" in failed["error"]
    assert (answered["schema"], answered["line"]) == ("ragla.ask/1", 2)
    assert result.exit_code == 2
    told = ragla("ask", "-f", tmp_path / "q", *world.flags)
    assert told.exit_code == 2
    assert "error: the prompt has " in told.stderr
    assert "1 of 2 answered" in told.stderr


def test_without_an_answer_the_code_says_so(ragla: Ragla, world: World, asked: Path) -> None:
    flags = [*world.flags, "-s", "retrieve.relevance_floor=1.0"]
    result = ragla("ask", "-f", asked, "--jsonl", *flags)
    assert result.exit_code == 4
    assert [answer["answered"] for answer in records(result)] == [False] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([QUESTION, "-f", "q.txt"], "which of them?"),
        ([QUESTION, "--jsonl"], "--jsonl is for --file"),
        (["-f", "q.txt", "--json"], "--json is for one question"),
        (["-f", "gone.txt"], "gone.txt: cannot be read"),
        (["-f", "."], ".: cannot be read"),
        (["-f", ""], "--file: no file named"),
        (["-f", "~nobody-of-that-name/q.txt"], "~nobody-of-that-name/q.txt: no home folder"),
    ],
)
def test_flags_that_do_not_fit(ragla: Ragla, world: World, words: list[str], message: str) -> None:
    Path("q.txt").write_text(QUESTION)
    result = ragla("ask", *words, *world.flags)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) <= 2


# --- the file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("  Why? ", "Why?"),
        ('{"question": " Why? "}', "Why?"),
        ('{"question": "\\ud83d?"}', "??"),
        ('"quoted"', '"quoted"'),
        ("[1] what is that?", "[1] what is that?"),
    ],
)
def test_a_line_is_a_question(line: str, text: str) -> None:
    assert parse_question(line, "f:1") == text


@pytest.mark.parametrize(
    "line", ["{", '{"question": 3}', '{"question": " "}', "{}", '{"q": "x"}', "{" * 5000]
)
def test_a_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="f:7: ") as raised:
        parse_question(line, "f:7")
    assert '{"question": "…"}' in str(raised.value.hint)


def test_lines_of_every_kind_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\n  \ntwo \xff\n")
    assert read_questions(str(path)) == [AskedLine(1, "one"), AskedLine(4, "two \ufffd")]


def test_a_file_without_questions_is_said(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_text(" \n\n")
    with pytest.raises(UsageError, match="holds no questions"):
        read_questions(str(path))


def test_only_line_feeds_and_returns_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "q"
    spelt = json.dumps({"question": "one\u2028two"}, ensure_ascii=False)
    path.write_bytes(f"{spelt}\r\nthree\rfour\n".encode())
    assert read_questions(str(path)) == [
        AskedLine(1, "one\u2028two"),
        AskedLine(2, "three"),
        AskedLine(3, "four"),
    ]


def test_a_file_in_utf_16_is_read(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_bytes("Was?\r\n谁？\r\n".encode("utf-16"))
    assert read_questions(str(path)) == [AskedLine(1, "Was?"), AskedLine(2, "谁？")]


def test_a_file_that_is_no_text_asks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_bytes(Path(sys.executable).resolve().read_bytes()[:5000])
    with pytest.raises(UsageError, match="is not a text file"):
        read_questions(str(path))
