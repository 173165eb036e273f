"""What the shell offers at Tab: the names that there are, quickly, and never a complaint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_process import HEAVY
from tests.cli.tiny_world import Ragla, World


def offered(ragla: Ragla, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """What bash would show for the line that was typed so far."""
    words = line.split(" ")
    with monkeypatch.context() as patch:
        patch.setenv("_ROOT_COMPLETE", "complete_bash")
        patch.setenv("COMP_WORDS", line)
        patch.setenv("COMP_CWORD", str(len(words) - 1))
        result = ragla()
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout.split("\n")[:-1] if result.stdout.endswith("\n") else result.stdout.split("\n")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("ragla in", ["index", "info"]),
        ("ragla ask --pro", ["--profile"]),
        ("ragla ask --profile off", ["offline"]),
        ("ragla ask -p t", ["tiny"]),
        ("ragla ask --model smol", ["smollm2-135m"]),
        ("ragla models pull minilm", ["minilm-l6"]),
        ("ragla search x -s decode.max_d", ["decode.max_depth="]),
        ("ragla search x -s decode.shape=p", ["decode.shape=parallel"]),
        ("ragla search x -s nonsense=", [""]),
        ("ragla search x --index nowhere --path x", [""]),
    ],
)  # fmt: skip
def test_names_are_offered(
    ragla: Ragla, monkeypatch: pytest.MonkeyPatch, line: str, names: list[str]
) -> None:
    assert offered(ragla, monkeypatch, line) == names


@pytest.fixture
def near(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world's folder is where we are: completion of the shell's own words knows no quotes here."""
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("RAGLA_INDEX", str(world.index))
    return world


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("ragla why-not tra", ["travel.md"]),
        ("ragla remove 差", ["差旅.md"]),
        ("ragla search x --path b", ["boats and piers.txt"]),
        ("ragla search x --type ", ["md", "txt"]),
        ("ragla search x --index the", ["the index"]),
        ("ragla search x -p tiny.", ["tiny.yaml"]),
    ],
)
def test_what_the_index_holds_is_offered(
    ragla: Ragla, near: World, monkeypatch: pytest.MonkeyPatch, line: str, names: list[str]
) -> None:
    assert offered(ragla, monkeypatch, line) == names


def test_a_name_that_commands_the_shell_is_not_offered(
    ragla: Ragla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\x1b[2J\n.yaml").write_text("{}")
    (tmp_path / "ab.yaml").write_text("{}")
    assert offered(ragla, monkeypatch, "ragla search x -p a") == ["ab.yaml"]


def test_a_damaged_index_offers_nothing(
    ragla: Ragla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "current").write_text("passages-1.sqlite\n\nx\n")
    (tmp_path / "passages-1.sqlite").write_bytes(b"no database" * 100)
    monkeypatch.setenv("RAGLA_INDEX", str(tmp_path))
    assert offered(ragla, monkeypatch, "ragla why-not tra") == [""]


def test_nothing_heavy_is_loaded_for_it(world: World) -> None:
    script = f"""
import sys
from ragla.cli import app
try:
    app(prog_name="ragla")
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    environment = {"_RAGLA_COMPLETE": "complete_bash", "COMP_WORDS": "ragla why-not tra", "COMP_CWORD": "2"}
    environment |= {"RAGLA_INDEX": str(world.index), "PATH": "/usr/bin:/bin", "HOME": str(world.folder)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("travel.md\n", "[]\n")
