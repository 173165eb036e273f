"""A conversation: piped and typed, its commands, what is told to the model, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.tiny_world import QUESTION, Ragla, World, document

RAGLA = Path(sys.executable).with_name("ragla")
BOATS = "Where are boats moored, at which pier?"


def said(result: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- piped -------------------------------------------------------------------------------------------------


def test_lines_of_a_pipe_are_answered_in_turn(ragla: Ragla, world: World) -> None:
    result = ragla("chat", *world.flags, "--jsonl", stdin=f"{QUESTION}\n\n  {BOATS}  \n")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = said(result)
    assert (first["question"], second["question"]) == (QUESTION, BOATS)
    assert first["answer"] == document(ragla("ask", QUESTION, *world.flags, "--json"))["answer"]
    assert second["stats"]["reused_tokens"] > 0


def test_no_prompt_is_drawn_for_a_pipe(ragla: Ragla, world: World) -> None:
    result = ragla("chat", *world.flags, stdin=f"{QUESTION}\n{BOATS}")
    assert result.exit_code == 0
    assert not any(line.startswith("> ") for line in result.output.splitlines())
    assert "/help" not in result.stderr
    assert result.stderr.count(" tokens in ") == 2
    assert "\x1b" not in result.output


def test_reuse_changes_no_answer(ragla: Ragla, world: World) -> None:
    lines = f"{QUESTION}\n{BOATS}\nAnd the keys?\n{QUESTION}\n"
    kept, whole = (
        said(ragla("chat", *world.flags, "--jsonl", *more, stdin=lines)) for more in ([], ["--no-reuse"])
    )
    assert [answer["answer"] for answer in kept] == [answer["answer"] for answer in whole]
    assert [answer["stats"]["prompt_tokens"] for answer in kept] == [
        answer["stats"]["prompt_tokens"] for answer in whole
    ]
    assert sum(answer["stats"]["reused_tokens"] for answer in kept) > 0
    assert sum(answer["stats"]["reused_tokens"] for answer in whole) == 0


def test_what_was_said_is_part_of_the_next_prompt_until_it_is_forgotten(ragla: Ragla, world: World) -> None:
    lines = f"{QUESTION}\n{BOATS}\n/new\n{BOATS}\n"
    _, told, anew = said(ragla("chat", *world.flags, "--jsonl", stdin=lines))
    alone = document(ragla("ask", BOATS, *world.flags, "--json"))
    assert told["stats"]["prompt_tokens"] > alone["stats"]["prompt_tokens"] == anew["stats"]["prompt_tokens"]
    assert anew["answer"] == alone["answer"]


def test_help_lists_the_commands(ragla: Ragla, world: World) -> None:
    result = ragla("chat", *world.flags, stdin="/help\n")
    assert (result.exit_code, result.stdout) == (0, "")
    assert all(command in result.stderr for command in ("/new", "/sources", "/help", "/quit"))


def test_quit_ends_before_the_next_line(ragla: Ragla, world: World) -> None:
    result = ragla("chat", *world.flags, "--jsonl", stdin=f"/quit\n{QUESTION}\n")
    assert (result.exit_code, result.output) == (0, "")


def test_sources_are_all_that_were_read(ragla: Ragla, world: World) -> None:
    result = ragla("chat", *world.flags, "-s", "retrieve.top_k=2", stdin=f"/sources\n{QUESTION}\n/sources\n")
    assert "no passages were read yet" in result.stderr
    assert result.stdout.splitlines()[-2].startswith("[1] ")
    assert result.stdout.splitlines()[-1].startswith("[2] ")
    assert "travel.md:" in "".join(result.stdout.splitlines()[-2:])


def test_a_line_that_fails_is_one_line_and_the_next_is_answered(ragla: Ragla, world: World) -> None:
    lines = f"/nonsense\n{'word ' * 20_000}\n{QUESTION}\n"
    result = ragla("chat", *world.flags, stdin=lines)
    assert result.exit_code == 2
    failures = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert failures[0] == "error: /nonsense: no such command"
    assert "the model's window is 4096" in failures[1]
    assert result.stdout.strip()
    told = said(ragla("chat", *world.flags, "--jsonl", stdin=lines))
    assert [record["schema"] for record in told] == ["ragla.error/1", "ragla.error/1", "ragla.ask/1"]
    assert told[0]["hint"] == "/help lists the commands"


def test_chat_without_an_index_does_not_begin(ragla: Ragla, world: World) -> None:
    result = ragla("chat", "--profile", world.profile, "--jsonl", stdin=QUESTION)
    assert result.exit_code == 3
    [failure] = said(result)
    assert failure["exit_code"] == 3


def test_bytes_that_are_no_text_are_read_as_well_as_can_be(ragla: Ragla, world: World) -> None:
    [answer] = said(ragla("chat", *world.flags, "--jsonl", stdin="caf\xe9 hours\n".encode("latin-1")))
    assert answer["question"] == "caf\ufffd hours"


def test_a_byte_order_mark_is_no_part_of_the_first_line(ragla: Ragla, world: World) -> None:
    [answer] = said(ragla("chat", *world.flags, "--jsonl", stdin=f"\ufeff{QUESTION}\n"))
    assert answer["question"] == QUESTION
    answer = document(ragla("ask", "-", *world.flags, "--json", stdin="\ufeffWhy?"))
    assert answer["question"] == "Why?"


# --- typed -------------------------------------------------------------------------------------------------


class Typist:
    """A process at a terminal of its own: what is typed, what is seen."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.terminal = terminal
        self.seen = b""

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def wait_for(self, text: str, seconds: float = 90.0) -> str:
        """Read until ``text`` is seen; all that was seen since the last wait."""
        end = time.monotonic() + seconds
        while text.encode() not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {text!r} in {self.seen!r}"
            try:
                piece = os.read(self.terminal, 65536)
            except OSError:  # the other side has closed
                piece = b""
            assert piece, f"no {text!r} in {self.seen!r}"
            self.seen += piece
        before, _, self.seen = self.seen.partition(text.encode())
        return before.decode(errors="replace") + text

    def drop_line(self) -> None:
        """Press Ctrl-C until there is a new prompt: amid a key readline hears it at the next one only."""
        for _ in range(20):
            self.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            if select.select([self.terminal], [], [], 0)[0]:
                break
        self.wait_for("> ")

    def leaves(self) -> int:
        return self.process.wait(timeout=60)


@contextmanager
def typing(world: World, *more: str) -> Iterator[Typist]:
    terminal, other = pty.openpty()
    command = [str(RAGLA), "chat", *world.flags, *more]
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True
    ) as process:
        os.close(other)
        try:
            yield Typist(process, terminal)
        finally:
            process.kill()
            os.close(terminal)


@pytest.mark.usefixtures("heard_interrupts")
def test_a_person_asks_interrupts_asks_again_and_leaves(world: World) -> None:
    with typing(world, "-s", "decode.max_new_tokens=3000") as person:
        assert "passages" in person.wait_for("/help")  # the line may be broken behind it
        person.wait_for("> ")
        person.type("half a thought")
        person.wait_for("thought")
        person.drop_line()
        person.type(f"{QUESTION}\n")
        person.wait_for(QUESTION)
        person.wait_for("\n")
        person.wait_for("tokens/s")  # the line below an answer that has begun
        person.process.send_signal(signal.SIGINT)
        assert " tokens in " in person.wait_for("interrupted")
        person.wait_for("> ")
        person.type("/sources\n")
        assert "travel.md:" in person.wait_for("> ")
        person.type("\x04")
        assert person.leaves() == 0
