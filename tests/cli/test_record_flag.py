"""``ask --record``: one file with the whole answer and its steps, written at once or not at all."""

from __future__ import annotations

import errno
import json
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ragla import __version__
from ragla.recorder import bare_name
from ragla.render import safe
from ragla.text_stream import TextStream
from tests.cli.screens import terminal
from tests.cli.tiny_models import PARROT, save_parrot
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults
from tests.golden.recorder import pumped, run
from tests.remote.fake_server import saying, serving


@pytest.fixture(scope="module")
def parrot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_parrot(tmp_path_factory.mktemp("parrot"), PARROT)


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_an_answer_is_recorded_with_its_steps(
    ragla: Ragla, world: World, parrot: Path, tmp_path: Path
) -> None:
    path, trace = tmp_path / "r.json", tmp_path / "steps.jsonl"
    mine = world.with_index_of_its_own(tmp_path / "index")  # without answers that drafts would repeat whole
    flags = ["--model", parrot, "--verify", "--record", path, "--trace-json", trace, "--json"]
    result = ragla("ask", QUESTION, *mine.flags, *flags)
    found = content(path)
    assert faults(found) == []
    assert found["answer"] == document(result)
    assert found["answer"]["verify"]["verdict"] == "equal"
    assert "".join(piece["text"] for piece in found["pieces"]) == found["answer"]["answer"]
    traced = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()][1:-1]
    assert len(found["steps"]) == found["answer"]["stats"]["steps"] > 3
    for step, line in zip(found["steps"], traced, strict=True):
        assert step == {
            "at_s": step["at_s"],
            **{key: line[key] for key in line if key not in ("schema", "event")},
        }
    for row in (found["pieces"], found["steps"]):
        assert all(0 < one["at_s"] <= later["at_s"] for one, later in pairwise(row))
    assert len({piece["at_s"] for piece in found["pieces"]}) > 3
    assert (found["ragla"], found["profile"], found["model"]) == (__version__, "tiny.yaml", parrot.name)
    assert str(world.folder) not in path.read_text(encoding="utf-8")
    assert not list(tmp_path.glob(".ragla*"))


def test_a_person_is_told_how_to_see_it_again(ragla: Ragla, world: World, tmp_path: Path) -> None:
    alone = ragla("ask", QUESTION, *world.flags)
    result = ragla("ask", QUESTION, *world.flags, "--record", tmp_path / "r.json")
    assert (result.exit_code, result.stdout) == (0, alone.stdout)
    assert result.stderr.splitlines()[-1] == f"recorded, see it again: ragla replay {tmp_path / 'r.json'}"


def test_a_question_without_an_answer_is_recorded(ragla: Ragla, world: World, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    result = ragla("ask", QUESTION, *world.flags, "-s", "retrieve.judge=1", "--record", path)
    found = content(path)
    assert result.exit_code == 4
    assert (found["answer"]["answered"], found["steps"]) == (False, [])
    assert [piece["text"] for piece in found["pieces"]] == [found["answer"]["answer"]]


@pytest.mark.usefixtures("heard_interrupts")
def test_what_there_is_of_an_interrupted_answer_is_recorded(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.json"
    honest, pushed = TextStream.push, []

    def push(stream: TextStream, token_ids: list[int], end_ids: frozenset[int]) -> None:
        honest(stream, token_ids, end_ids)
        pushed.append(len(token_ids))
        if len(pushed) == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TextStream, "push", push)
    result = ragla("ask", QUESTION, *world.flags, "-s", "decode.draft_budget=1", "--record", path)
    found = content(path)
    assert result.exit_code == 130
    assert found["answer"]["interrupted"] is True
    assert len(found["steps"]) == 4
    assert "".join(piece["text"] for piece in found["pieces"]) == found["answer"]["answer"]


@pytest.mark.parametrize("columns", [40, 80])
def test_chinese_is_shown_again(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    answer = "酒店每晚上限为一百八十欧元。[4]"
    parrot, path = save_parrot(tmp_path / "parrot", answer), tmp_path / "录.json"
    result = ragla("ask", "酒店每晚上限是多少？", *world.flags, "--model", parrot, "--record", path)
    assert result.stdout == f"{answer}\n"
    assert ragla("replay", path).stdout == result.stdout
    assert answer in path.read_text(encoding="utf-8")
    with terminal(monkeypatch, columns, rows=40) as screen:
        with pumped(screen) as written:
            assert run(["replay", str(path)]) == 0
        screen.stream.feed(bytes(written))
        assert "".join(screen.lines()[1:3]).replace(" ", "").startswith(answer)


def test_an_answer_of_a_server_is_recorded_and_shown_again(
    ragla: Ragla, world: World, tmp_path: Path
) -> None:
    path, usage = tmp_path / "r.json", {"prompt_tokens": 200, "completion_tokens": 21}
    with serving(saying("The hotel limit in Paris is ", "180 euros a night. [1]", usage=usage)) as fake:
        result = ragla("ask", QUESTION, *world.flags, *fake.flags, "--record", path)
    found = content(path)
    assert faults(found) == faults(found["answer"]) == []
    assert (found["model"], found["steps"], found["answer"]["remote"]) == ("parrot-7b", [], True)
    assert found["answer"]["stats"]["drafted"] is None
    again = ragla("replay", path)
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    assert again.stderr.splitlines()[1:-1] == result.stderr.splitlines()[:-1]


# --- the file ----------------------------------------------------------------------------------------------


def test_a_recording_is_replaced_and_a_link_stays(ragla: Ragla, world: World, tmp_path: Path) -> None:
    path, link, empty = tmp_path / "r.json", tmp_path / "latest.json", tmp_path / "empty.json"
    link.symlink_to(path.name)
    empty.touch()
    for name in (link, link, empty):
        assert ragla("ask", QUESTION, *world.flags, "--record", name).exit_code == 0
    assert link.is_symlink()
    assert content(path)["answer"]["question"] == content(empty)["answer"]["question"] == QUESTION


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notes.txt", "notes.txt: exists and is no recording"),
        (".", ".: exists and is no recording"),
        ("/dev/null", "/dev/null: exists and is no recording"),
        ("no/folder.json", "no/folder.json: cannot be written: No such file or directory"),
        ("notes.txt/r.json", "notes.txt/r.json: cannot be written: Not a directory"),
        ("loop", "loop: cannot be written: "),
        (f"{'x' * 300}.json", "cannot be written: File name too long"),
        ("-", "--record -: stdout has the answer"),
        ("", "--record: no file named"),
        ("~nobody-of-that-name/r.json", "no home folder of that name is known"),
    ],
)  # fmt: skip
def test_nothing_else_is_overwritten(ragla: Ragla, world: World, name: str, said: str) -> None:
    Path("notes.txt").write_text("mine", encoding="utf-8")
    Path("loop").symlink_to("loop")
    result = ragla("ask", QUESTION, *world.flags, "--record", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr.splitlines()[0]
    assert len(result.stderr.splitlines()) == 2
    assert Path("notes.txt").read_text(encoding="utf-8") == "mine"


def test_flags_that_cannot_go_with_it_are_refused(ragla: Ragla, world: World) -> None:
    Path("q.txt").write_text(f"{QUESTION}\n", encoding="utf-8")
    several = ragla("ask", "--file", "q.txt", *world.flags, "--record", "r.json")
    same = ragla("ask", QUESTION, *world.flags, "--record", "r.json", "--trace-json", "./r.json")
    assert (several.exit_code, same.exit_code) == (2, 2)
    assert several.stderr.splitlines()[0] == "error: --record is for one question"
    assert same.stderr.splitlines()[0] == "error: --record and --trace-json name the same file"
    assert not Path("r.json").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_full_disk_costs_the_recording_alone(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    path = tmp_path / "r.json"
    words = ["ask", QUESTION, *world.flags, "--record", path, *(["--json"] if as_json else [])]
    assert ragla(*words).exit_code == 0
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    result = ragla(*words)
    said = f"{path}: not recorded: No space left on device"
    assert result.exit_code == 1
    assert f"error: {said}" in result.stderr.splitlines()
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".ragla*"))
    answer = json.loads(before)["answer"]["answer"]
    if as_json:
        assert document(result)["answer"] == answer
        assert document(result)["notices"] == [said]
    else:
        assert result.stdout == f"{safe(answer)}\n"


def test_trees_that_are_too_large_are_left_out(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragla.recorder.MOST_BYTES", 10_000)
    path, mine = tmp_path / "r.json", world.with_index_of_its_own(tmp_path / "index")
    result = ragla("ask", QUESTION, *mine.flags, "-s", "decode.cost_aware=false", "--record", path)
    assert "note: recorded without draft trees: " in result.stderr
    assert content(path)["steps"] == []
    assert ragla("replay", path).stdout == result.stdout


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("offline", "offline"),
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("/home/me/secret/tiny.yaml", "tiny.yaml"),
        ("~/models/q.gguf", "q.gguf"),
        ("../q.gguf", "q.gguf"),
        ("/", "/"),
        ("Qwen/Qwen3-8B at http://intern.example:8000/v1", "Qwen/Qwen3-8B"),
    ],
)  # fmt: skip
def test_a_recording_names_no_folders_and_no_servers(name: str, bare: str) -> None:
    assert bare_name(name) == bare
