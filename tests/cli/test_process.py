"""The command as a process: what it loads, pipes, signals, and that it never asks the network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.tiny_world import QUESTION, World

RAGLA = Path(sys.executable).with_name("ragla")


def process(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    command = [str(RAGLA), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **more)


HEAVY = ("torch", "transformers", "sentence_transformers", "faiss", "numpy")


@pytest.mark.parametrize("words", [["--help"], ["ask", "--help"], ["config", "show"]], ids=" ".join)
def test_nothing_heavy_is_loaded_before_it_is_needed(words: list[str]) -> None:
    script = f"""
import sys
from ragla.cli import app
try:
    app({words!r})
except SystemExit as leaving:
    assert not leaving.code, leaving.code
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "[]\n"


def test_a_process_ends_without_a_last_look_for_garbage() -> None:
    """What torch has brought takes Python seconds to look through."""
    script = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0, len(gc.get_objects()) < 1000, file=sys.stderr))
from ragla.cli import app
app(["config", "show"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "True True\n"


@pytest.fixture
def no_sockets(tmp_path: Path) -> dict[str, str]:
    """An environment in which a Python process that makes a network connection says so and dies."""
    guard = tmp_path / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def forbid(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'socket.sendto'):\n"
        "        os.write(2, f'NETWORK {event} {arguments}'.encode()); os._exit(99)\n"
        "sys.addaudithook(forbid)\n"
    )
    return {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"} | {
        "PYTHONPATH": str(guard)
    }


def test_the_guard_sees_connections(no_sockets: dict[str, str]) -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 9))"
    done = subprocess.run([sys.executable, "-c", script], env=no_sockets, check=False, capture_output=True)
    assert done.returncode == 99


def test_a_question_in_a_pipe_needs_no_network_and_leaves_no_escapes(
    world: World, no_sockets: dict[str, str]
) -> None:
    done = process("ask", "-", *world.flags, input=QUESTION, env=no_sockets | {"TERM": "xterm-256color"})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert done.stdout.strip()
    assert [line for line in done.stderr.splitlines() if line][-2].startswith("24 tokens in ")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"'{RAGLA}' config show | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    first, code = done.stdout.splitlines()
    assert first
    assert code == "0"


def test_output_a_terminal_cannot_write_is_replaced(elsewhere: Path) -> None:
    (elsewhere / "ragla.yaml").write_text("prompt:\n  instruction: 只用文档\n", encoding="utf-8")
    done = process("config", "show", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "prompt.instruction" in done.stdout


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Press Ctrl-C; exit code and stderr."""
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_while_the_question_is_typed(world: World) -> None:
    command = [str(RAGLA), "ask", "-", *world.flags]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(" " * 500_000)  # more than a pipe holds: returns once it is being read
        waiting.stdin.flush()
        assert interrupted(waiting) == (130, "interrupted\n")


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_in_the_middle_of_an_answer(world: World) -> None:
    command = [str(RAGLA), "ask", QUESTION, *world.flags, "-s", "decode.max_new_tokens=3500"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as answering:
        assert answering.stdout is not None
        assert answering.stdout.read(20)
        answering.send_signal(signal.SIGINT)
        rest, stderr = answering.communicate(timeout=60)
    assert answering.returncode == 130
    assert stderr.splitlines()[-1] == "interrupted"
    assert " tokens in " in stderr
    assert rest.endswith("\n")
