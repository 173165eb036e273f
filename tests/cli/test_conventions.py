"""What every command keeps to: how much is said, help, hints, secrets, names that lie."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

from ragla.cli import app
from ragla.command import Group, speech
from ragla.failure import Failure
from ragla.secrets import redact
from ragla.terminal import Loudness, loudness
from tests.cli.tiny_world import QUESTION, Ragla, World

SECRET = "hf_abcdefghijklmnopqrstuvwx"


def commands() -> dict[str, typer.models.CommandInfo]:
    """Every command by the words that call it."""
    named = {
        info.name or info.callback.__name__.replace("_", "-"): info
        for info in app.registered_commands
        if info.callback
    }
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for info in group.typer_instance.registered_commands:
            named[f"{group.name} {info.name}"] = info
    return named


NAMES = sorted(commands())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", ["40", "80"])
def test_help_fits_its_terminal_and_shows_an_example_first(
    ragla: Ragla, monkeypatch: pytest.MonkeyPatch, name: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = ragla(*name.split(), "--help")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    examples = [at for at, line in enumerate(lines) if line.startswith(f"  ragla {name}")]
    assert examples, "an example: a paragraph of the docstring that is [bold]ragla …[/]"
    wide = [
        line
        for at, line in enumerate(lines)
        if cell_len(line) > int(columns) and not line.startswith("  ragla ")
    ]
    assert wide == []
    headings = [at for at, line in enumerate(lines) if line in ("Arguments", "Options")]
    assert examples[0] < headings[0]
    for flag in ("--quiet", "--verbose", "--debug", "--help"):
        assert any(flag in line for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_no_command_has_a_parameter_of_the_flags_that_all_have(name: str) -> None:
    callback = commands()[name].callback
    assert callback is not None
    assert not set(inspect.signature(callback).parameters) & set(inspect.signature(speech).parameters)


def test_every_group_has_them_too() -> None:
    assert all(issubclass(group.cls, Group) for group in app.registered_groups if group.cls)
    assert all(group.cls for group in app.registered_groups)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_quiet_leaves_the_answer_alone(ragla: Ragla, world: World, place: str) -> None:
    words = ["-q", "ask", QUESTION] if place == "before" else ["ask", QUESTION, "--quiet"]
    result = ragla(*words, *world.flags)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.strip()
    assert loudness() is Loudness.QUIET
    assert ragla("ask", QUESTION, *world.flags).stderr  # and the next command speaks again


def test_quiet_does_not_hide_what_went_wrong(ragla: Ragla) -> None:
    result = ragla("search", "x", "-q")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: no index in ")


def test_verbose_says_how_long_it_took(ragla: Ragla, world: World) -> None:
    said = ragla("ask", QUESTION, *world.flags, "-v").stderr
    assert re.search(r"opening the index · \d+\.\d s\n", said)
    assert "loading " in said
    assert " · " not in ragla("search", QUESTION, *world.flags).stderr


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["indx"], "error: no such command 'indx'", "did you mean index? ragla --help"),
        (["models", "pul"], "error: no such command 'pul'", "did you mean pull? ragla models --help"),
        (["ask", "--profle", "x"], "no such option: --profle", "did you mean --profile? ragla ask --help"),
        (["--vresion"], "error: no such option: --vresion", "did you mean --version? ragla --help"),
        (["search", "x", "-p", "offlin"], "error: unknown profile offlin", "did you mean offline?"),
        (["search", "x", "-s", "decode.max_dept=8"], "decode.max_dept", "decode.max_depth"),
        (["models", "path", "minilm"], "error: there is no model minilm", "did you mean minilm-l6?"),
        (["bench", "--compare", "greddy"], "greddy", "greedy"),
    ],
)  # fmt: skip
def test_what_is_nearly_right_is_told_what_is_right(
    ragla: Ragla, words: list[str], said: str, hint: str
) -> None:
    result = ragla(*words)
    first, second = result.stderr.splitlines()
    assert said in first
    assert hint in second
    assert result.exit_code in (2, 5)


def test_secrets_are_never_printed(ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        hidden_local = "y" * 40_000
        raise RuntimeError(
            f"401 for Bearer {SECRET} at https://me:{'pass' + 'word'}@host/ {len(hidden_local)}"
        )

    monkeypatch.setenv("MY_API_KEY", "0123456789")
    monkeypatch.setattr("ragla.session.open_retriever", fail)
    for flags in ([], ["--debug"], ["--json"]):
        said = ragla("search", QUESTION, *world.flags, *flags).output
        assert "***" in said
        assert not [secret for secret in (SECRET, "me:password", "0123456789") if secret in said]
        assert "yyyy" not in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN: secret-value here", "HF_TOKEN: *** here"),
        ("hf_0123456789abcdefXYZ", "***"),
        ("https://name:pw@host/path", "https://***@host/path"),
        ("Authorization: Bearer abcdefghij", "Authorization: Bearer ***"),
        ("the token count is 12", "the token count is 12"),
        ("C:\\a:b and a@b.c", "C:\\a:b and a@b.c"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret-value")
    monkeypatch.setenv("OTHER_TOKEN", "12")  # too short to be one
    assert redact(text) == shown
    assert redact(Failure(text, None, 1).message) == shown


def test_a_name_cannot_pass_for_another(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "invoice\u202efdp.md").write_text("# Paris\n\nThe hotel limit is 180.", encoding="utf-8")
    (docs / "in\u200bvoice.md").write_text(
        "# Paris\n\nThe limit of the hotel is 190.\u202e", encoding="utf-8"
    )
    flags = ["--index", tmp_path / "index", "--profile", world.profile]
    shown = [
        ragla("index", docs, "--dry-run", *flags), ragla("index", docs, *flags),
        ragla("search", "hotel limit", *flags), ragla("search", "hotel limit", "--explain", *flags),
        ragla("why-not", "invoice", "hotel", *flags), ragla("ask", "hotel limit", *flags),
        ragla("remove", docs / "in\u200bvoice.md", *flags), ragla("remove", "--list", *flags),
    ]  # fmt: skip
    for result in shown:
        assert not {"\u202e", "\u200b"} & set(result.output)
    assert "invoice\ufffdfdp.md" in shown[2].stdout


def test_colours_can_be_switched_off_and_data_is_never_coloured_in_a_pipe(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ragla("search", QUESTION, *world.flags).output
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in ragla("search", QUESTION, *world.flags).output
    assert "COLUMNS" in os.environ
