"""``replay``: the recorded answer as it was, without a model; and whatever a stranger's file may hold."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from ragla.cli import app
from ragla.recording import MOST_BYTES
from ragla.replaying import LONGEST_WAIT_S
from tests.cli.screens import terminal
from tests.cli.test_process import HEAVY
from tests.cli.tiny_models import PARROT, save_parrot
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.golden.recorder import pumped, run

Recorded = dict[str, Any]


class Made:
    """A recording, and what the command that made it wrote."""

    def __init__(self, path: Path, result: Result) -> None:
        self.path, self.result = path, result
        self.content: Recorded = json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made(world: World, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("recorded")
    world = world.with_index_of_its_own(folder / "index")  # without answers that drafts would repeat whole
    parrot = save_parrot(folder / "parrot", PARROT)
    words = [
        "ask",
        QUESTION,
        *world.flags,
        "--model",
        str(parrot),
        "--verify",
        "-s",
        "decode.cost_aware=false",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGLA_CACHE", str(folder / "cache"))
        result = CliRunner().invoke(app, [*words, "--record", str(folder / "r.json")])
    assert result.exit_code == 0, result.output
    return Made(folder / "r.json", result)


def replayed(content: Any, *words: str) -> Result:
    """Replay something of JSON."""
    return CliRunner().invoke(app, ["replay", "-", *words], input=json.dumps(content).encode())


# --- the answer again --------------------------------------------------------------------------------------


def test_the_answer_and_what_stood_behind_it_come_again(ragla: Ragla, made: Made) -> None:
    again = ragla("replay", made.path)
    assert (again.exit_code, again.stdout) == (0, made.result.stdout)
    first, *panel, named = again.stderr.splitlines()
    assert first == f"› {QUESTION}"
    assert panel == made.result.stderr.splitlines()[:-1]
    assert any(line.startswith("[1] travel.md:5  copied ") for line in panel)
    assert any(line.startswith("verified: plain decoding gives the same") for line in panel)
    assert named.startswith("recorded 20")
    assert "parrot · profile tiny.yaml · ragla " in named


def test_json_is_the_recorded_document(ragla: Ragla, made: Made) -> None:
    again = ragla("replay", made.path, "--json")
    assert document(again) == made.content["answer"]
    assert again.stderr == ""


def test_the_draft_trees_are_drawn_again(ragla: Ragla, world: World, made: Made, tmp_path: Path) -> None:
    again = ragla("replay", made.path, "--trace")
    assert again.stdout == made.result.stdout
    heads = [line for line in again.stderr.splitlines() if line.startswith("step ")]
    assert len(heads) == len(made.content["steps"])
    one = ragla("replay", made.path, "--step", "2")
    assert one.stderr == ""
    assert one.stdout.splitlines()[0] == heads[1]
    assert one.stdout in again.stderr
    assert "✓" in one.stdout


def test_trees_and_text_take_turns_on_one_terminal(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 80, rows=200) as screen:
        with pumped(screen) as written:
            assert run(["replay", str(made.path), "--trace", "--speed", "0"]) == 0
        screen.stream.feed(bytes(written))
        lines = screen.lines()
    first, *_ = made.content["pieces"]
    assert lines[:2] == [f"› {QUESTION}", first["text"].rstrip()]
    assert lines[2].startswith("step 1 · ")
    assert len([line for line in lines if line.startswith("step ")]) == len(made.content["steps"])


def test_it_takes_the_time_it_took(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleep before each moment; what is written takes no time."""
    slept: list[float] = []
    monkeypatch.setattr("ragla.replaying.sleep", slept.append)
    monkeypatch.setattr("ragla.replaying.perf_counter", lambda: sum(slept))
    monkeypatch.setattr("ragla.live.perf_counter", lambda: 0.0)
    content = copy.deepcopy(made.content)
    moments = [*content["pieces"], *content["steps"]]
    for first_word_s, waited_s in ((1.5, 1.5), (36.0, LONGEST_WAIT_S)):
        later_s = first_word_s - content["pieces"][0]["at_s"]
        for one in moments:
            one["at_s"] += later_s
        last = max(one["at_s"] for one in moments) - first_word_s + waited_s
        for words, expected in (
            (["--speed", "1"], last),
            (["--speed", "4"], last / 4),
            (["--speed", "0"], 0),
            ([], 0),
        ):
            slept.clear()
            assert replayed(content, *words).exit_code == 0
            assert sum(slept) == pytest.approx(expected)


def test_an_interrupt_ends_it(ragla: Ragla, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ragla.replaying.sleep", interrupt)
    result = ragla("replay", made.path, "--speed", "0.01")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted"


def test_an_answer_that_was_interrupted_is_called_so(ragla: Ragla, made: Made) -> None:
    content = copy.deepcopy(made.content)
    content["answer"]["interrupted"] = True
    result = replayed(content)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-2] == "interrupted when it was recorded"


def test_nothing_heavy_is_loaded(made: Made) -> None:
    script = f"""
import sys
from ragla.cli import app
try:
    app(["replay", {str(made.path)!r}, "--trace"])
except SystemExit as leaving:
    assert not leaving.code, leaving.code
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


# --- wrong usage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--speed", "-1"], "--speed -1: from 0.01 to 1000, or 0"),
        (["--speed", "nan"], "--speed nan: from 0.01 to 1000, or 0"),
        (["--speed", "inf"], "--speed inf: from 0.01 to 1000, or 0"),
        (["--speed", "1e-300"], "--speed 1e-300: from 0.01 to 1000, or 0"),
        (["--step", "0"], "--step 0: the recording has"),
        (["--step", "99999999999999999999"], "--step 99999999999999999999: the recording has"),
        (["--step", "1", "--json"], "--json has the answer, not its draft trees"),
        (["--trace", "--json"], "--json has the answer, not its draft trees"),
    ],
)  # fmt: skip
def test_flags_that_make_no_sense_are_refused(ragla: Ragla, made: Made, words: list[str], said: str) -> None:
    result = ragla("replay", made.path, *words)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0].startswith(f"error: {said}")


# --- files from strangers ----------------------------------------------------------------------------------

NESTED = b"[" * 200_000
NO_RECORDING = "stdin: no recording, or one that was cut off: "


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", NO_RECORDING),
        (b"notes\n", NO_RECORDING),
        (b"\xff\xfe\x00", NO_RECORDING),
        (NESTED, NO_RECORDING),
        (b'{"schema": "ragla.recording/1", "model": "\\ud800"}', NO_RECORDING),
        (b'{"schema": "ragla.recording/1", "x": NaN}', NO_RECORDING),
        (b"[1]", "stdin: no recording of an answer"),
        (b'{"schema": "ragla.ask/1"}', "stdin: no recording of an answer"),
        (b'{"schema": ["ragla.recording/1"]}', "stdin: no recording of an answer"),
        (b'{"schema": "ragla.recording/0"}', "stdin: no recording of an answer"),
        (b'{"schema": "ragla.recording/2"}', "stdin: ragla.recording/2 is of a later ragla than this one"),
        (b'{"schema": "ragla.recording/1"}', "stdin: a damaged recording: ragla: Field required"),
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_recording_is_said_in_a_line(content: bytes, said: str) -> None:
    result = CliRunner().invoke(app, ["replay", "-"], input=content)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"error: {said}")
    assert len(lines) == 2
    assert lines[1].startswith("  → ")


def test_every_cut_is_noticed(made: Made, tmp_path: Path) -> None:
    whole = made.path.read_bytes()
    for length in range(1, len(whole) - 2, len(whole) // 20):
        (tmp_path / "cut.json").write_bytes(whole[:length])
        result = CliRunner().invoke(app, ["replay", str(tmp_path / "cut.json")])
        assert result.exit_code == 2
        assert "no recording, or one that was cut off" in result.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", ".: cannot be read: "),
        ("nowhere.json", "nowhere.json: cannot be read: "),
        ("/dev/zero", "/dev/zero: larger than any recording"),
    ],
)
def test_a_file_that_is_none_is_said(ragla: Ragla, name: str, said: str) -> None:
    result = ragla("replay", name)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")


def set_at(content: Any, place: str, value: Any) -> Any:
    """A copy in which a dotted place has another value."""
    changed = copy.deepcopy(content)
    *above, last = [int(part) if part.lstrip("-").isdigit() else part for part in place.split(".")]
    inner = changed
    for part in above:
        inner = inner[part]
    inner[last] = value
    return changed


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("recorded", "yesterday"),
        ("ragla", 1),
        ("pieces.0.text", "Another"),
        ("pieces.0.at_s", -1),
        ("pieces.0.at_s", 1e300),
        ("pieces.0.at_s", "0"),
        ("steps", [{}]),
        ("steps.0.step", 2),
        ("steps.0.at_s", 1e9),
        ("steps.0.parents.1", 1),
        ("steps.0.parents.0", 0),
        ("steps.0.accepted", [10_000]),
        ("steps.0.texts", []),
        ("steps.0.token_ids", []),
        ("steps.0.origins.1", {"kind": "moon", "path": None, "token": 1}),
        ("answer", None),
        ("answer.schema", "ragla.ask/2"),
        ("answer.provenance.0.end", 10_000_000),
        ("answer.provenance.0.start", -4),
        ("answer.provenance.0.number", 0),
        ("answer.sources.0.path", None),
        ("answer.sources.0.first_line", 10**40),
        ("answer.stats.tokens", -1),
        ("answer.stats.decode_s", True),
        ("answer.verify.verdict", "perhaps"),
        ("answer.steps", []),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_damaged_recording_is_said_in_a_line(made: Made, place: str, value: Any) -> None:
    result = replayed(set_at(made.content, place, value))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: stdin: a damaged recording: ")
    assert len(result.stderr.splitlines()) == 2


def test_a_larger_recording_than_any_is_not_read(tmp_path: Path, ragla: Ragla) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert ragla("replay", path).stderr.startswith(f"error: {path}: larger than any recording")


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r\n[bold]x[/] \u200b\x00"


def hostile(content: Any) -> Any:
    """The recording with each text a command to the terminal, as far as it may be any."""
    if isinstance(content, dict):
        kept = ("schema", "kind", "recorded", "verdict", "stale_reason")
        return {key: value if key in kept else hostile(value) for key, value in content.items()}
    if isinstance(content, list):
        return [hostile(value) for value in content]
    return f"{content}{HOSTILE}" if isinstance(content, str) else content


def with_hostile_texts(content: Recorded) -> Recorded:
    changed: Recorded = hostile(content)
    changed["answer"]["answer"] = "".join(piece["text"] for piece in changed["pieces"])
    return changed


COMMANDS = ("\x1b", "\x07", "\x9b", "\x00", "\r", "\u202e")


@pytest.mark.parametrize("words", [[], ["--trace"], ["--step", "1"], ["--json"]], ids=" ".join)
def test_a_strangers_texts_command_no_terminal(made: Made, words: list[str]) -> None:
    result = replayed(with_hostile_texts(made.content), *words)
    assert result.exit_code == 0, result.stderr
    found = [sign for sign in COMMANDS if sign in result.stdout + result.stderr]
    assert found == (["\u202e"] if words == ["--json"] else [])


def test_nor_on_a_terminal(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(with_hostile_texts(made.content)), encoding="utf-8")
    with terminal(monkeypatch, 80) as screen, pumped(screen) as written:
        assert run(["replay", str(path), "--trace", "--speed", "0"]) == 0
    assert b"step 1" in written
    assert b"\x1b]0;" not in written
    assert b"\x1b[2J" not in written
    assert b"\x07" not in written


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=9),
    st.just([]),
    st.just({}),
)


def places(content: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    rows: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        rows = list(content.items())
    elif isinstance(content, list):
        rows = list(enumerate(content))
    found = [above] if above else []
    for key, value in rows:
        found += places(value, (*above, key))
    return found


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_changed_nothing_unexpected_happens(made: Made, data: st.DataObject) -> None:
    """It is shown, or it is said in a line."""
    content = copy.deepcopy(made.content)
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(places(content)))
        inner: Any = content
        for part in above:
            inner = inner[part]
        if data.draw(st.booleans()):
            inner[last] = data.draw(VALUES)
        else:
            del inner[last]
    result = replayed(content, *data.draw(st.sampled_from([[], ["--trace"], ["--step", "1"]])))
    assert result.exit_code in (0, 2), result.output
    if result.exit_code:
        assert len(result.stderr.splitlines()) == 2
