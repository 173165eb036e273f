"""``ragla bench`` as people and scripts run it: its files, its forms, and what it says of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragla import cli_bench_compare
from ragla.cli_bench_compare import warn_if_busy
from ragla.config import DecodeSettings, Profile
from tests.cli.tiny_world import Ragla, World, document

TURNS = [
    {"question_id": 1, "category": "写作", "turns": ["Write.", "Again."]},
    {"question_id": 2, "category": "rag", "turns": ["Boats float.\nWhat floats?"], "reference": [["Boats"]]},
    {"question_id": 3, "category": "rag", "turns": ["Keys hang.\nWhat hangs?"], "reference": [["Keys"]]},
]


@pytest.fixture
def spec_bench(tmp_path: Path) -> Path:
    path = tmp_path / "question 问.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in TURNS), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing else to do, whatever this one does."""
    monkeypatch.setattr("ragla.bench.machine.load_average", lambda: 0.0)
    monkeypatch.setattr("ragla.bench.machine.others_since_at_least", lambda clock, seconds: 0.0)


def test_spec_benchs_file_is_compared_saved_shown_and_drawn(
    ragla: Ragla, world: World, spec_bench: Path, tmp_path: Path
) -> None:
    flags = ["--profile", world.profile, "--spec-bench", spec_bench, "-s", "decode.max_new_tokens=8"]
    found = document(done := ragla("bench", *flags, "--compare", "greedy,shape:single", "--json"))
    assert done.stderr == ""
    assert list(found["decoders"]) == ["lookahead", "greedy", "shape:single"]
    assert all(numbers["identical"] == [4, 4] for numbers in found["decoders"].values())
    assert list(found["categories"]) == ["写作", "rag"]
    assert (found["questions"], found["follow_ups"]) == (4, 1)
    assert found["first_answer"]["load_s"] > 0
    assert found["environment"]["load_average"] == 0.0
    saved = tmp_path / "saved.json"
    saved.write_text(done.stdout, encoding="utf-8")
    shown = ragla("bench", "--show", saved, "--plot", tmp_path / "a.svg")
    assert shown.exit_code == 0, shown.output
    for said in ("shape:single", "lookahead, by category", "写作", "First answer of the process"):
        assert said in shown.stdout
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    written = ragla("bench", "--show", saved, "--markdown").stdout
    assert written.startswith(
        "| decoder | tokens/step | tokens/s | × greedy | first token, s | identical |\n"
    )
    assert "| 写作 | " in written


def test_a_choice_of_questions_in_our_own_prompt(ragla: Ragla, world: World, spec_bench: Path) -> None:
    flags = ["--profile", world.profile, "--spec-bench", spec_bench, "-s", "decode.max_new_tokens=4"]
    found = document(ragla("bench", *flags, "--category", "rag", "--split-passages", "--each", "1", "--json"))
    assert [row["id"] for row in found["rows"]] == ["2"]
    verbatim = document(ragla("bench", *flags, "--category", "rag", "--limit", "1", "--json"))
    assert verbatim["rows"][0]["prompt_tokens"] < found["rows"][0]["prompt_tokens"]  # no task of ours in it


def test_an_interrupt_shows_what_there_is_and_says_so(
    ragla: Ragla, world: World, spec_bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragla.bench import run

    rows = run._row

    def press(bench: run.Bench, *rest: object) -> object:
        if len(bench.rows) == 2:
            raise KeyboardInterrupt
        return rows(bench, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "_row", press)
    flags = ["--profile", world.profile, "--spec-bench", spec_bench, "-s", "decode.max_new_tokens=4"]
    done = ragla("bench", *flags, "--json")
    assert done.exit_code == 130
    found = document(done)
    assert (found["answers"], found["planned"], found["questions"]) == (2, 4, 2)
    assert done.stderr == "interrupted: 2 of 4 answers a decoder\n"


@pytest.mark.parametrize(
    ("flags", "said", "hint"),
    [
        (["--category", "rug"], "--category rug: no question is of that category", "did you mean rag?"),
        (["--plot", "a.pdf"], "pictures are PNG or SVG", "--plot FILE.svg"),
        (["--plot", "absent/a.png"], "there is no folder absent", "mkdir -p absent"),
        (["--compare", "shape:round"], "--compare shape:round: no such decoder", "shape:SHAPE"),
        (["--compare", "dtype:int4"], "--compare dtype:int4: no such decoder", "dtype:DTYPE"),
        (["--split-passages", "--questions", "q"], "--split-passages belongs to", "--spec-bench"),
    ],
)  # fmt: skip
def test_wrong_flags_are_told_before_a_model_is_loaded(
    ragla: Ragla, spec_bench: Path, flags: list[str], said: str, hint: str
) -> None:
    asked = [] if "--questions" in flags else ["--spec-bench", spec_bench]
    done = ragla("bench", "-m", "no such model", *asked, *flags)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_precision_that_is_not_to_be_had_is_named(
    ragla: Ragla, world: World, spec_bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragla.decode.model.integers_available", lambda: False)
    flags = ["--profile", world.profile, "--spec-bench", spec_bench, "--compare", "dtype:int8"]
    done = ragla("bench", *flags)
    assert done.exit_code == 2
    assert "--compare dtype:int8: this machine computes it in float32" in done.stderr


def test_float32_and_8_bit_stand_in_one_table(ragla: Ragla, world: World, spec_bench: Path) -> None:
    flags: list[str | Path] = ["--profile", world.profile, "--spec-bench", spec_bench]
    flags += ["-s", "decode.max_new_tokens=6", "-s", "decode.dtype=float32"]
    done = ragla("bench", *flags, "--category", "rag", "--quality", "--json")
    assert done.exit_code == 0, done.output
    found = document(done)
    assert list(found["decoders"]) == ["lookahead", "greedy", "lookahead@int8", "greedy@int8"]
    assert found["exact"] == "greedy"
    assert found["environment"]["dtypes"] == ["float32", "int8"]
    for numbers in found["decoders"].values():
        assert numbers["identical"] == [2, 2]  # each as the plain loop of its own precision
        assert numbers["same_as_exact"][1] == 2
        assert numbers["token_f1"] is not None


@pytest.mark.parametrize(
    ("used", "threads", "cores", "said"),
    [(3.5, 0, 2, "busy (others use 3.5 of 2 cores)"), (0.2, 0, 2, ""), (3.5, 4, 64, ""), (None, 0, 2, "")],
)
def test_a_busy_machine_is_told_before_it_is_measured(
    used: float | None,
    threads: int,
    cores: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli_bench_compare.os, "cpu_count", lambda: cores)
    warn_if_busy(Profile(decode=DecodeSettings(threads=threads)), used)
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert bool(told.err) == bool(said)
