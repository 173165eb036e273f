"""Every command that the README and the quickstart tell a reader to type, typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ragla.cli import app
from tests.cli.tiny_models import write_documents
from tests.cli.tiny_world import World

CHECKOUT = Path(__file__).parents[2]
NOT_RUN = {
    "make": "it sets up what runs this test, and tests it",
    "pip": "it changes the environment that runs this test",
    "ragla models pull": "it needs a network",
    "ragla serve": "it goes on",
    "export RAGLA_PROFILE": "the tiny profile stands for it",
}
OPERATORS = ("&&", "|", ">", ">>", "<")

pytestmark = pytest.mark.skipif(
    not (CHECKOUT / "docs").is_dir(), reason="the documents are in a checkout only"
)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(page: str) -> Iterator[str]:
    """What stands behind a prompt."""
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")


def parts(line: str) -> list[list[str]]:
    """The commands of a line, each as its words; an operator is a word of the command before it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>;")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if word == "&&":
            found.append([])
        else:
            found[-1].append(word)
    return found


def is_run(words: list[str]) -> bool:
    """Whether a command can be run here."""
    line = " ".join(words)
    return not any(line == name or line.startswith((f"{name} ", f"{name}=")) for name in NOT_RUN)


class Shell:
    """Runs what a reader types, ``ragla`` in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, line: str) -> None:
        for words in parts(line):
            if not is_run(words):
                continue
            if words[0] == "ragla":
                self.ragla(words[1:])
            elif words[0] != ".":  # the environment that the prompt is in
                subprocess.run(["bash", "-ec", line], cwd=self.folder, check=True, timeout=60)

    def ragla(self, words: list[str]) -> None:
        cut = next((at for at, word in enumerate(words) if word in OPERATORS), len(words))
        result = typed(words[:cut])
        refused = 4 if "--check-answerable" in words else 0  # a random model may find nothing
        assert result.exit_code in (0, refused), (words, result.output)
        if words[cut : cut + 1] == [">"]:
            (self.folder / words[cut + 1]).write_text(result.stdout, encoding="utf-8")
        else:
            assert words[cut:] == [], f"cannot be run here: {words}"


def typed(words: list[str]) -> Result:
    """What a command of ragla does, in this process."""
    asked = [str(Path(word).expanduser()) if word.startswith("~") else word for word in words]
    if "--profile" in asked:  # the tiny profile stands for it
        at = asked.index("--profile")
        del asked[at : at + 2]
    return CliRunner().invoke(app, asked, input="How many days?\n/quit\n" if words[0] == "chat" else None)


def run_here(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """``subprocess.run`` for a script that calls ragla; another process would load torch once more."""
    assert command[0] == "ragla"
    assert options == {"capture_output": True, "text": True}
    result = typed(command[1:])
    return subprocess.CompletedProcess(command, result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def shell(world: World, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A home with documents, in which the tiny profile stands for any."""
    monkeypatch.setenv("HOME", str(elsewhere))
    monkeypatch.setenv("RAGLA_PROFILE", str(world.profile))
    monkeypatch.setenv("RAGLA_DECODE__MAX_NEW_TOKENS", "8")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    write_documents(elsewhere / "documents")
    write_documents(elsewhere / "corpora" / "handbook")
    return Shell(elsewhere)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_what_a_page_tells_to_type_can_be_typed(shell: Shell, page: str) -> None:
    lines = list(commands(page))
    assert len(lines) >= 8
    for line in lines:
        shell.run(line)


def test_a_script_of_the_quickstart_runs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run("ragla index ~/documents")
    [script] = blocks("docs/quickstart.md", "python")
    monkeypatch.setattr(subprocess, "run", run_here)
    exec(compile(script, "quickstart.md", "exec"), {})
    assert "] travel.md:1-5\n" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["docs/comparing.md", "docs/json.md"])
def test_what_a_page_tells_can_be_typed_where_there_are_questions(shell: Shell, page: str) -> None:
    shell.run("ragla index ~/documents")
    (shell.folder / "questions.jsonl").write_text('{"question": "What is the hotel limit in Paris?"}\n')
    (shell.folder / "questions.txt").write_text("What is the hotel limit in Paris?\n")
    lines = list(commands(page))
    assert len(lines) >= 2
    for line in lines:
        shell.run(line)
