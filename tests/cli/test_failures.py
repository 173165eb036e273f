"""What fails: the exit code, one line that says what happened, the command that mends it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from ragla.cli import app
from ragla.errors import RaglaError
from tests.cli.tiny_models import save_llm
from tests.cli.tiny_world import QUESTION, Ragla, World, document

HOLD_A_LOCK = """
import sys, filelock
lock = filelock.FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def broken_index(world: World, folder: Path) -> Path:
    """An index whose database was overwritten."""
    result = CliRunner().invoke(
        app, ["index", str(world.docs), "--index", str(folder), "-p", str(world.profile)]
    )
    assert result.exit_code == 0
    for database in folder.glob("*.sqlite"):
        database.write_bytes(b"no database" * 1000)
    return folder


@pytest.fixture
def locked(world: World, tmp_path: Path) -> Iterator[Path]:
    """An index that another process is writing."""
    folder = tmp_path / "locked"
    folder.mkdir()
    command = [sys.executable, "-c", HOLD_A_LOCK, str(folder / "index.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "held\n"
        yield folder
        writer.communicate("")


Case = tuple[list[str | Path], int, str, str]


def failures(world: World, tmp_path: Path) -> dict[str, Case]:
    """Name → command, exit code, a part of the message, a part of the hint."""
    profile: list[str | Path] = ["--profile", world.profile]
    return {
        "no question": (["ask", "  ", *world.flags], 2, "no question", "ragla ask"),
        "missing folder": (["index", tmp_path / "gone", *profile], 2, "gone", ""),
        "no index": (["ask", QUESTION, *profile], 3, "no index in", "ragla index FOLDER"),
        "nothing to update": (["index", *profile], 3, "no index in", "ragla index FOLDER"),
        "broken index": (
            ["search", QUESTION, *profile, "--index", broken_index(world, tmp_path / "broken")], 3,
            "broken", "ragla index",
        ),
        "other chunks": (
            ["index", world.docs, *world.flags, "-s", "retrieve.chunk_tokens=50"], 3,
            "chunk_tokens", "--rebuild",
        ),
        "absent model": (
            ["ask", QUESTION, *world.flags, "-m", "smollm2-135m"], 5,
            "model smollm2-135m is not on this machine", "ragla models pull smollm2-135m",
        ),
        "misspelt model": (
            ["ask", QUESTION, *world.flags, "-m", "smollm"], 5, "no model smollm", "smollm2-135m",
        ),
        "folder without model": (["ask", QUESTION, *world.flags, "-m", world.docs], 5, "no config.json", ""),
        "absent embedder": (
            ["search", QUESTION, "--index", world.index], 5, "minilm-l6", "ragla models pull minilm-l6",
        ),
        "long question": (
            ["ask", "word " * 20_000, *world.flags], 2, "the model's window is 4096", "",
        ),
        "no questions": (["bench", *world.flags], 2, "no questions.jsonl", "--questions"),
    }  # fmt: skip


CASES = [
    "no question", "missing folder", "no index", "nothing to update", "broken index", "other chunks",
    "absent model", "misspelt model", "folder without model", "absent embedder", "long question",
    "no questions",
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_failure_says_what_happened_and_what_mends_it(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    words, code, message, hint = failures(world, tmp_path)[name]
    result, told = ragla(*words), ragla(*words, "--json")
    assert (result.exit_code, told.exit_code) == (code, code), result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert len(lines) <= 2
    assert hint in "".join(lines[1:])
    failure = document(told)
    assert set(failure) == {"schema", "error", "hint", "exit_code"}
    assert (failure["schema"], failure["exit_code"]) == ("ragla.error/1", code)
    assert lines[0] == f"error: {failure['error']}"


def test_every_failure_above_is_tried(world: World, tmp_path: Path) -> None:
    assert list(failures(world, tmp_path)) == CASES


def test_a_second_writer_is_turned_away(ragla: Ragla, world: World, locked: Path) -> None:
    words = ["index", world.docs, "--index", locked, "--profile", world.profile]
    result = ragla(*words)
    assert result.exit_code == document(ragla(*words, "--json"))["exit_code"] == 6
    assert "another process is writing this index" in result.stderr


def test_readers_go_on_while_another_process_writes(ragla: Ragla, world: World) -> None:
    with FileLock(world.index / "index.lock"):
        assert ragla("search", QUESTION, *world.flags).exit_code == 0


@pytest.mark.parametrize("question", [QUESTION, "巴黎的酒店上限是多少？"])
def test_below_the_floor_nothing_is_answered(ragla: Ragla, world: World, question: str) -> None:
    flags = [*world.flags, "-s", "retrieve.relevance_floor=1.0"]
    result, told = ragla("ask", question, *flags), ragla("ask", question, *flags, "--json")
    assert result.exit_code == told.exit_code == 4
    sentence = (
        "The documents do not answer this question." if question == QUESTION else "文档中没有这个问题的答案。"
    )
    assert result.stdout == f"{sentence}\n"
    answer = document(told)
    assert (answer["answered"], answer["answer"], answer["sources"]) == (False, sentence, [])
    assert (answer["stats"]["tokens"], answer["steps"]) == (0, [])
    assert ragla("search", question, *flags).exit_code == 4
    assert document(ragla("search", question, *flags, "--json"))["passages"] == []


def test_a_model_that_says_nothing_has_not_answered(ragla: Ragla, world: World, tmp_path: Path) -> None:
    mute = save_llm(tmp_path / "mute", chatty=False)
    result = ragla("ask", QUESTION, *world.flags, "-m", mute)
    assert result.exit_code == 4
    assert result.stdout == "The documents do not answer this question.\n"


@pytest.mark.parametrize(
    "words", [["ask", "--nonsense"], ["nonsense"], ["models", "path"], ["bench", "--runs", "0"]], ids=" ".join
)
def test_a_wrong_usage_is_one_document_too(ragla: Ragla, words: list[str]) -> None:
    result = ragla(*words, "--json")
    assert result.exit_code == document(result)["exit_code"] == 2
    assert ragla(*words).stdout == ""


@pytest.mark.parametrize(
    "error", [RuntimeError("first\nsecond"), AttributeError(), OSError(5, "Input/output error")]
)
def test_the_unexpected_is_one_line_unless_asked_for_more(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("ragla.session.open_retriever", fail)
    result = ragla("ask", QUESTION, *world.flags)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: unexpected: ")
    assert "Traceback" not in result.stderr
    assert "second" not in result.stderr
    assert "Traceback" in ragla("--debug", "ask", QUESTION, *world.flags).stderr


def test_messages_cannot_command_the_terminal(ragla: Ragla) -> None:
    result = ragla("models", "path", "\x1b[2J\nerror: fake")
    assert result.exit_code == 5
    assert "\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_exit_codes_are_those_documented() -> None:
    codes = {leaf.__name__: leaf.exit_code for leaf in (RaglaError, *RaglaError.__subclasses__())}
    assert codes == {
        "RaglaError": 1, "UsageError": 2, "IndexUnusable": 3, "NothingRelevant": 4, "ModelUnavailable": 5,
        "IndexLocked": 6,
    }  # fmt: skip
