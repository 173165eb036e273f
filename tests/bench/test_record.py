"""``ragla bench --record``: transcripts of the plain loop's answers, whole lines whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragla.answer import Answerer
from ragla.bench import BenchQuestion
from ragla.bench.decoders import request_for
from ragla.bench.record import record
from ragla.bench.replay import replay_file
from ragla.bench.run import prepare_tasks
from ragla.bench.transcripts import Transcript, TranscriptFile, load_transcripts
from ragla.cli import app
from ragla.config import DecodeSettings, Profile
from ragla.decode.greedy import greedy
from ragla.decode.model import TargetModel
from ragla.decode.stats import DecodeStats
from ragla.errors import IndexUnusable, RaglaError, UsageError

LINE = Transcript("7", "rag", (1, 2), (3,), ((3, 4), (5, 6)))


def test_a_line_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with TranscriptFile(path) as file:
        file.write(LINE)
        file.write(replace(LINE, id="第八"))
    assert load_transcripts(path) == [LINE, replace(LINE, id="第八")]
    assert json.loads(path.read_text().splitlines()[0]) == {
        "id": "7", "cat": "rag", "prompt": [1, 2], "out": [3], "tops": [[3, 4], [5, 6]],
    }  # fmt: skip


def test_recorded_answers_are_the_plain_loops(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], tmp_path: Path
) -> None:
    answerer = Answerer(profile, target)
    tasks, _ = prepare_tasks(questions, answerer, None)
    answers = [
        [
            token
            for block in greedy(target.backend, request_for(answerer, task.prepared), DecodeStats())
            for token in block.token_ids
        ]
        for task in tasks
    ]
    end = answers[0][5]  # the first answer ends by itself, before its sixth token or at it
    length = answers[0].index(end)
    ending = replace(target, end_ids=frozenset({end}))
    path = tmp_path / "a.jsonl"
    seen: list[tuple[int, int, str]] = []
    with TranscriptFile(path) as file:
        unanswered = record(
            profile, ending, questions, file, on_progress=lambda *progress: seen.append(progress)
        )
    assert unanswered == []
    assert seen == [(1, 3, "recording"), (2, 3, "recording"), (3, 3, "recording")]
    found = load_transcripts(path)
    assert [each.id for each in found] == ["a", "b", "c"]
    for each, task, answer in zip(found, tasks, answers, strict=True):
        assert list(each.prompt_ids) == task.prepared.prompt.token_ids
        assert list(each.answer_ids) == answer[: answer.index(end) if end in answer else None]
        assert len(each.best_ids) == len(each.answer_ids) + (end in answer)
        assert [best[0] for best in each.best_ids][: len(answer)] == answer[: len(each.best_ids)]
        assert all(len(set(best)) == 8 for best in each.best_ids)
    assert len(found[0].answer_ids) == length
    assert found[0].best_ids[-1][0] == end
    assert replay_file(path, DecodeSettings(), (8,)).answers >= 1


def test_an_interrupt_keeps_whole_answers(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], tmp_path: Path
) -> None:
    def interrupt(number: int, *_: object) -> None:
        if number == 3:
            raise KeyboardInterrupt

    path = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt), TranscriptFile(path) as file:
        record(profile, target, questions, file, on_progress=interrupt)
    assert [each.id for each in load_transcripts(path)] == ["a", "b"]


def break_off(path: Path) -> None:
    with TranscriptFile(path) as file:
        file.write(LINE)
        with path.open("ab") as other:  # as much as an interrupted write leaves behind
            other.write(b'{"id": "8", "prom')
        raise KeyboardInterrupt


def test_a_line_that_was_broken_off_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt):
        break_off(path)
    assert path.read_bytes() == LINE.to_line()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said() -> None:
    with (
        pytest.raises(RaglaError, match="cannot be written: No space left on device"),
        TranscriptFile(Path("/dev/full"), force=True) as file,
    ):
        file.write(LINE)
    assert Path("/dev/full").exists()


def test_an_existing_file_is_kept_until_something_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is there already"), TranscriptFile(path) as file:
        file.write(LINE)
    with TranscriptFile(path, force=True):
        pass
    assert path.read_text(encoding="utf-8") == "mine\n"
    with TranscriptFile(path, force=True) as file:
        file.write(LINE)
    assert path.read_bytes() == LINE.to_line()


def test_what_cannot_be_recorded_is_refused_and_leaves_no_file(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    sampled = profile.model_copy(update={"decode": profile.decode.model_copy(update={"temperature": 1.0})})
    bare = [BenchQuestion("x", "Without passages?")]
    for chosen, asked, error in (
        (profile, [], UsageError),
        (sampled, questions, UsageError),
        (profile, bare, IndexUnusable),
    ):
        with pytest.raises(error), TranscriptFile(path) as file:
            record(chosen, target, asked, file)
    assert not path.exists()


@pytest.fixture
def files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a profile and 60 questions, which is the current one."""
    home = tmp_path / "home"
    home.mkdir()
    settings = {
        "prompt": {"instruction": "Answer from these passages."},
        "decode": {"model": str(folder), "device": "cpu", "threads": 1, "max_new_tokens": 400},
    }
    (home / "tiny.yaml").write_text(json.dumps(settings), encoding="utf-8")
    rows = [{"id": at, "question": f"Question {at}?", "passages": [f"Passage {at}."]} for at in range(60)]
    (home / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    return home


WORDS = ["bench", "--record", "a.jsonl", "--questions", "q.jsonl", "--profile", "tiny.yaml"]


def test_the_command_records_and_replays(files: Path) -> None:
    short = [*WORDS, "--limit", "2", "-s", "decode.max_new_tokens=12"]
    done = CliRunner().invoke(app, short)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert done.stderr == "2 answers recorded in a.jsonl\n"
    assert [len(each.answer_ids) for each in load_transcripts(files / "a.jsonl")] == [12, 12]
    assert CliRunner().invoke(app, ["bench", "--replay", "a.jsonl", "--budgets", "8"]).exit_code == 0
    again = CliRunner().invoke(app, short)
    assert again.exit_code == 2
    assert "a.jsonl: is there already" in again.stderr
    assert "--force" in again.stderr
    forced = CliRunner().invoke(app, [*short, "--limit", "1", "--force", "--json"])
    assert forced.exit_code == 0
    assert json.loads(forced.stdout) == {
        "schema": "ragla.record/1", "file": "a.jsonl", "answers": 1, "unanswered": [],
    }  # fmt: skip
    assert forced.stderr == ""
    assert len(load_transcripts(files / "a.jsonl")) == 1


@pytest.mark.parametrize(("place", "said"), [(".", "is a folder"), ("absent/a.jsonl", "there is no folder")])
def test_bad_places_are_refused_before_a_model_is_loaded(files: Path, place: str, said: str) -> None:
    done = CliRunner().invoke(app, ["bench", "--record", place, "--model", "no-such-model"])
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_keeps_what_was_recorded(files: Path) -> None:
    command = [str(Path(sys.executable).with_name("ragla")), *WORDS]
    path = files / "a.jsonl"
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as recording:
        deadline = time.monotonic() + 90
        while (not path.exists() or path.stat().st_size < 1000) and time.monotonic() < deadline:
            assert recording.poll() is None
            time.sleep(0.02)
        recording.send_signal(signal.SIGINT)
        _, stderr = recording.communicate(timeout=60)
    assert recording.returncode == 130
    kept = load_transcripts(path)
    assert 1 <= len(kept) < 60
    assert path.read_bytes() == b"".join(each.to_line() for each in kept)
    counted = "1 answer" if len(kept) == 1 else f"{len(kept)} answers"
    assert stderr == f"{counted} recorded in a.jsonl\ninterrupted\n"
