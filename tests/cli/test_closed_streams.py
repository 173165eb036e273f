"""Streams that are closed or full: one clear line where there is still somewhere to write it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.tiny_world import QUESTION, World

RAGLA = Path(sys.executable).with_name("ragla")


def shell(words: str, world: World) -> subprocess.CompletedProcess[str]:
    """Run ``ragla`` with redirections; ``$@`` are the flags that name the world."""
    command = ["sh", "-c", f"exec '{RAGLA}' {words}", "sh", *world.flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ('ask --file - "$@" <&-', 2, "error: there is no stdin to read questions from"),
        ('ask - "$@" <&-', 2, "error: there is no stdin to read questions from"),
        ('ask --json --file - "$@" </dev/null >&-', 2, "error: --json is for one question"),
        (f'ask "{QUESTION}" "$@" >&-', 2, "error: stdout is closed, there is nowhere to write to"),
        ('chat --jsonl "$@" </dev/null >&-', 2, "error: stdout is closed, there is nowhere to write to"),
        ("models list >&-", 2, "error: stdout is closed, there is nowhere to write to"),
        ("models list >/dev/full", 1, "error: no space left where this is written"),
        ('ask --json "" "$@" >/dev/full', 2, "error: no question"),
    ],
)
def test_a_stream_that_cannot_be_used_is_said(world: World, words: str, code: int, said: str) -> None:
    done = shell(words, world)
    assert (done.returncode, done.stdout) == (code, "")
    lines = done.stderr.splitlines()
    assert lines[0] == said
    assert len(lines) == 2
    assert lines[1].startswith("  → ")


def test_without_stderr_the_answer_comes_alone(world: World) -> None:
    done = shell(f'ask --trace "{QUESTION}" "$@" 2>&-', world)
    assert done.returncode == 0
    assert done.stdout.strip()
