"""Faults that users of such tools report about answers and terminals: each kind and the tests that hold it.

Tests that stand elsewhere are named, and must be there; the neighbours of the kinds are tried here.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from ragla.decode.stats import DecodeStats
from ragla.live import View
from tests.cli.screens import terminal
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.golden.recorder import pumped, run

TESTS = Path(__file__).parents[1]

# kind → file::test
KINDS = {
    "a prompt longer than the window": [
        "cli/test_failures.py::test_a_failure_says_what_happened_and_what_mends_it",
        "test_answer_limits.py::test_where_no_passage_fits_nothing_is_made_up",
    ],
    "only part of the passages used and nobody told": [
        "cli/test_terminal_faults.py::test_passages_that_did_not_fit_are_named",
        "test_answer_limits.py::test_a_short_window_holds_fewer_passages_and_an_answer",
    ],
    "an answer from memory where nothing relevant was found": [
        "cli/test_failures.py::test_below_the_floor_nothing_is_answered",
        "cli/test_failures.py::test_a_model_that_says_nothing_has_not_answered",
    ],
    "help takes seconds because it imports torch": [
        "cli/test_process.py::test_nothing_heavy_is_loaded_before_it_is_needed",
        "cli/test_completion.py::test_nothing_heavy_is_loaded_for_it",
    ],
    "JSON and paths wrapped at 80 columns in a pipe": [
        "cli/test_commands.py::test_long_lines_are_not_wrapped_off_a_terminal",
        "cli/test_terminal_faults.py::test_data_is_not_wrapped",
    ],
    "progress escapes in a log file": [
        "cli/test_process.py::test_a_question_in_a_pipe_needs_no_network_and_leaves_no_escapes",
        "cli/test_live_view.py::test_nothing_moves_where_it_must_not",
        "cli/test_live_view.py::test_colour_that_is_forced_off_a_terminal_moves_nothing",
        "cli/test_terminal_faults.py::test_a_log_of_any_command_holds_no_escapes",
    ],
    "words where an empty list belongs": [
        "cli/test_failures.py::test_below_the_floor_nothing_is_answered",
        "cli/test_terminal_faults.py::test_nothing_found_is_an_empty_list",
    ],
    "unknown keys of a profile are ignored": [
        "test_config.py::test_mistakes_in_a_file_name_it_and_the_key",
        "test_config.py::test_an_unknown_environment_setting_is_refused",
    ],
    "the settings of a cloned project run code": [
        "cli/test_settings.py::test_a_project_file_cannot_run_code",
        "test_config.py::test_a_project_file_cannot_run_remote_code",
    ],
    "a model that is here still asks the hub": [
        "cli/test_process.py::test_a_question_in_a_pipe_needs_no_network_and_leaves_no_escapes"
    ],
    "an exception in a generation thread hangs the stream": [
        "serve/test_serve_command.py::test_an_exception_while_answering_ends_the_stream_with_an_error",
        "serve/test_serve_command.py::test_nothing_that_is_raised_hangs_a_client",
    ],
    "a traceback shows tensors and secrets": [
        "cli/test_failures.py::test_the_unexpected_is_one_line_unless_asked_for_more",
        "cli/test_conventions.py::test_secrets_are_never_printed",
    ],
    "documents command the terminal": [
        "cli/test_commands.py::test_documents_cannot_command_the_terminal",
        "cli/test_failures.py::test_messages_cannot_command_the_terminal",
        "test_render.py::test_text_cannot_be_read_in_another_order_than_it_has",
        "cli/test_conventions.py::test_a_name_cannot_pass_for_another",
        "cli/test_replay_command.py::test_a_strangers_texts_command_no_terminal",
    ],
    "a file from a stranger is believed": [
        "cli/test_replay_command.py::test_a_damaged_recording_is_said_in_a_line",
        "cli/test_replay_command.py::test_whatever_is_changed_nothing_unexpected_happens",
    ],
    "a broken installation cannot say what is broken": [
        "cli/test_doctor_environment.py::test_nothing_that_is_installed_is_needed_to_say_so",
        "test_environment.py::test_a_package_that_kills_its_process_is_one_line",
    ],
    "a status line corrupts the text it stands below": [
        "cli/test_live_view.py::test_what_stays_on_the_screen_is_the_text",
        "cli/test_live_view.py::test_any_text_stays_whole",
        "cli/test_live_view.py::test_a_terminal_that_is_resized_keeps_the_text",
        "cli/test_live_view.py::test_a_pipe_whose_reader_shares_the_terminal_gets_no_line",
    ],
    "Ctrl-C loses the answer, or is not heard": [
        "cli/test_interrupts.py::test_what_there_is_of_an_answer_is_shown",
        "cli/test_interrupts.py::test_a_second_interrupt_ends_at_once",
        "cli/test_terminal_faults.py::test_ctrl_c_takes_the_line_away",
    ],
    "a reader that leaves early, a full disk, a closed stream": [
        "cli/test_process.py::test_a_reader_that_leaves_early_is_no_error",
        "cli/test_broken_pipes.py::test_a_command_whose_reader_has_left_ends_quietly",
        "cli/test_record_flag.py::test_a_full_disk_costs_the_recording_alone",
        "cli/test_closed_streams.py::test_a_stream_that_cannot_be_used_is_said",
        "cli/test_terminal_faults.py::test_a_reader_that_leaves_in_the_middle_of_an_answer_is_no_error",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_held(kind: str) -> None:
    for name in KINDS[kind]:
        file, test = name.split("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_passages_that_did_not_fit_are_named(ragla: Ragla, world: World) -> None:
    flags = [*world.flags, "-s", "prompt.token_budget=80"]
    answer = document(ragla("ask", QUESTION, *flags, "--json"))
    assert answer["left_out"]
    told = ragla("ask", QUESTION, *flags).stderr
    assert all(f"did not fit the prompt: {path}" in told for path in answer["left_out"])


def test_data_is_not_wrapped(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "docs" / ("深" * 60)
    folder.mkdir(parents=True)
    (folder / "long.md").write_text(f"hotel limit {'word ' * 30}\n", encoding="utf-8")
    flags = ["--index", str(tmp_path / "index"), "--profile", str(world.profile)]
    monkeypatch.setenv("COLUMNS", "40")
    assert ragla("index", tmp_path / "docs", *flags, "-q").output == ""
    lines = ragla("search", "hotel limit", *flags).stdout.splitlines()
    assert lines[0].startswith("[1] ")
    assert f"{'深' * 60}/long.md" in lines[0]  # off a terminal a line is a line
    words = ["search", "hotel limit", *flags, "--json"]
    piped = ragla(*words).stdout
    assert json.loads(piped)["passages"]
    with (
        terminal(monkeypatch, 40) as screen,
        pumped(screen) as written,
    ):  # and JSON is JSON on a terminal, too
        assert run(words) == 0
        sys.stdout.flush()
    assert written.decode().replace("\r\n", "\n") == piped


COMMANDS = (
    ["index"], ["index", "--dry-run"], ["search", QUESTION], ["ask", QUESTION, "--trace"], ["info"],
    ["answers", "list"], ["remove", "--list"], ["why-not", "travel.md", QUESTION], ["index", "nowhere"],
)  # fmt: skip


def test_a_log_of_any_command_holds_no_escapes(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for words in COMMANDS:
        result = ragla(*words, *world.flags[: 2 if words[0] in ("info", "answers", "remove") else 4])
        assert not {"\x1b", "\r", "\x08"} & set(result.output), words


def test_nothing_found_is_an_empty_list(ragla: Ragla, world: World, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    flags = ["--index", tmp_path / "index", "--profile", world.profile]
    assert document(ragla("index", tmp_path / "docs", *flags, "--json"))["skipped"] == []
    out_of_reach = ["--set", "retrieve.relevance_floor=0.99"]
    assert document(ragla("search", "x", *world.flags, *out_of_reach, "--json"))["passages"] == []
    assert document(ragla("answers", "list", *flags, "--json"))["answers"] == []
    assert document(ragla("remove", "--list", *flags, "--json"))["paths"] == []


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_takes_the_line_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = View.step
    steps: list[int] = []

    def step(view: View, stats: DecodeStats) -> None:
        honest(view, stats)
        steps.append(1)
        if len(steps) == 4:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(View, "step", step)
    words = ["ask", QUESTION, *world.flags, "-s", "decode.draft_budget=1"]
    with pytest.MonkeyPatch.context() as patch, terminal(patch, 80) as screen:
        with pumped(screen) as written:
            assert run(words) == 130
            sys.stdout.flush()
            sys.stderr.flush()
        screen.stream.feed(bytes(written))
        lines = screen.lines()
    assert lines[-1] == "interrupted"
    assert not [line for line in lines if "/step" in line and "tokens in" not in line]


def test_a_reader_that_leaves_in_the_middle_of_an_answer_is_no_error(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stdout = os.fdopen(writer, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert run(["ask", QUESTION, *world.flags]) == 0
    with contextlib.suppress(BrokenPipeError):
        stdout.close()
    assert capfd.readouterr().err == ""
