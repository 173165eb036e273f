"""A reader that has seen enough, as ``| head -1``: every command ends quietly, with 0."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragla.process import reader_has_left
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.golden.recorder import run

SHORT = ["-s", "decode.max_new_tokens=4", "-s", "decode.cost_aware=false"]
COMMANDS: dict[str, list[str]] = {
    "version": ["--version"],
    "help": ["--help"],
    "help of a command": ["ask", "--help"],
    "index": ["index", "--json"],
    "index --dry-run": ["index", "--dry-run"],
    "info": ["info"],
    "doctor": ["doctor"],
    "doctor --json": ["doctor", "--json"],
    "remove": ["remove", "--list", "--json"],
    "search": ["search", QUESTION],
    "search --json": ["search", QUESTION, "--json"],
    "why-not": ["why-not", "travel.md", QUESTION],
    "ask": ["ask", QUESTION, *SHORT],
    "ask --json": ["ask", QUESTION, *SHORT, "--json"],
    "ask --file": ["ask", "--file", "questions.jsonl", *SHORT, "--jsonl"],
    "replay": ["replay", "RECORDING", "--trace"],
    "replay --json": ["replay", "RECORDING", "--json"],
    "chat": ["chat", *SHORT],
    "bench": ["bench", "--questions", "questions.jsonl", *SHORT],
    "eval": ["eval", "questions.jsonl", *SHORT],
    "answers": ["answers", "list", "--json"],
    "models": ["models", "list"],
    "models path": ["models", "path", "MODEL"],
    "config": ["config", "show"],
}


@contextmanager
def nobody_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stream of this process is a pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, name, stream)
        yield


@pytest.fixture(scope="module")
def mine(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = world.with_index_of_its_own(tmp_path_factory.mktemp("pipes") / "index")
    assert run(["ask", QUESTION, *made.flags, *SHORT, "-q", "--record", str(recording(made))]) == 0
    return made


def recording(world: World) -> Path:
    return world.index.with_name("recorded.json")


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_whose_reader_has_left_ends_quietly(
    mine: World,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.setenv("RAGLA_INDEX", str(mine.index))
    monkeypatch.setenv("RAGLA_PROFILE", str(mine.profile))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{QUESTION}\n".encode())))
    monkeypatch.setattr("ragla.bench.machine.others_since_at_least", lambda clock, seconds: 0.0)
    line = {"question": QUESTION, "reference": "180 euros", "source": "travel.md"}
    (elsewhere / "questions.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    names = {"MODEL": str(mine.folder / "llm"), "RECORDING": str(recording(mine))}
    with nobody_reads("stdout", monkeypatch):
        code = run([names.get(word, word) for word in words])
    told = capfd.readouterr()
    assert code == 0, told.err
    assert not [word for word in ("rror", "Traceback", "roken", "xception") if word in told.err]


def test_what_went_wrong_keeps_its_exit_code(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for words, code in ((["search", "x"], 3), (["search", "x", "--json"], 3), (["serch", "--json"], 2)):
        with nobody_reads("stdout", monkeypatch):
            assert run(words) == code
        assert capfd.readouterr().err.startswith("error: ")


def test_work_goes_on_where_nobody_reads_what_is_said_of_it(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--index", str(tmp_path / "index"), "--profile", str(world.profile)]
    with nobody_reads("stderr", monkeypatch):
        assert run(["index", str(world.docs), *flags]) == 0
        assert run(["ask", QUESTION, *flags, *SHORT]) == 0
    assert document(ragla("info", "--index", tmp_path / "index", "--json"))["documents"] == 4


def test_a_pipe_to_somebody_else_that_broke_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("ragla.session.open_retriever", fail)
    assert run(["search", QUESTION, *world.flags]) == 1
    assert "error: unexpected: " in capfd.readouterr().err


def test_a_reader_that_is_there_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        assert not reader_has_left(None, stream, io.StringIO())
        os.close(reader)
        assert reader_has_left(None, stream)
