"""The documents are true: what follows from the code is what the code says now."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from ragla.cli import app

CHECKOUT = Path(__file__).parents[1]
SCRIPTS = CHECKOUT / "scripts"

if not (SCRIPTS / "make_docs.py").is_file():
    pytest.skip("the scripts are in a checkout only", allow_module_level=True)
sys.path.insert(0, str(SCRIPTS))

import make_docs  # noqa: E402
from reference import commands, modules  # noqa: E402


@pytest.mark.parametrize("path", make_docs.documents(), ids=lambda path: path.name)
def test_what_is_made_from_the_code_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == make_docs.made(path), f"renew it: {make_docs.COMMAND}"


def test_every_part_stands_in_a_document() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in make_docs.documents())
    assert {found["name"] for found in make_docs.PART.finditer(text)} == set(make_docs.PARTS)


ROOT: Any = typer.main.get_command(app)
EVERY = dict(commands.every_command(ROOT, ("ragla",)))


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_reference_says_what_help_says(words: tuple[str, ...]) -> None:
    """Each option and each word of its explanation, in a terminal that folds nothing."""
    told = CliRunner().invoke(app, [*words[1:], "--help"], env={"COLUMNS": "400", "TERM": "dumb"}).stdout
    section = part("cli.md", f"## {' '.join(words)}\n")
    for parameter in EVERY[words].params:
        if commands.is_own(parameter):
            assert all(name in told and f"`{name}`" in section for name in parameter.opts)
            assert cell(parameter.help) in section
    everywhere = {"--help", *re.findall(r"--[a-z-]+", part("cli.md", "## ragla\n"))}
    offered = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", told)) - everywhere
    assert offered <= set(re.findall(r"--[a-z][a-z-]+", section))


def test_every_command_says_its_exit_codes() -> None:
    assert set(commands.EXIT_CODES) == {" ".join(words[1:]) for words in EVERY}
    assert {code for codes in commands.EXIT_CODES.values() for code in codes} < set(commands.MEANINGS)


def part(name: str, head: str) -> str:
    """A section of a document, from its head to the next of that rank."""
    text = (CHECKOUT / "docs" / name).read_text(encoding="utf-8")
    return text.partition(head)[2].partition("\n## ")[0]


def cell(text: str) -> str:
    """Text as a table has it."""
    return " ".join(text.split()).replace("|", "\\|")


def test_the_map_names_every_module_once() -> None:
    """Against the tree itself, not against what makes the map."""
    text = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = []
    for room in re.split(r"^### ", text, flags=re.M)[1:]:
        folder, _, lines = room.partition("\n")
        found += [f"{folder}/{name}" for name in re.findall(r"^- `([\w.]+)`: ", lines, re.M)]
    there = [
        path.relative_to(CHECKOUT).as_posix()
        for path in (CHECKOUT / "ragla").rglob("*")
        if path.suffix in (".py", ".c") and path.name != "__init__.py"
    ]
    assert sorted(found) == sorted(there)


def test_every_module_says_what_it_is_for() -> None:
    silent = [path.name for path in modules.PACKAGE.rglob("*.py") if not modules.docstring(path).strip()]
    assert not silent


def test_the_rooms_are_those_that_the_contracts_hold() -> None:
    """Every package and every command is in a layer; the layers name nothing that is not there."""
    [layers] = [one["layers"] for one in modules.contracts() if one["type"] == "layers"]
    named = {name.strip() for layer in layers for name in layer.split("|")}
    tree = {f"ragla.{path.stem}" for path in modules.PACKAGE.iterdir()}
    assert named <= tree
    assert {name for name in tree if name.startswith("ragla.cli_")} <= named


def test_the_chinese_readme_tells_the_same_commands() -> None:
    """Comments apart, and a section of its own about Chinese documents."""
    english, chinese = (typed(name) for name in ("README.md", "README.zh.md"))
    assert len(english) >= 10
    assert [line for line in chinese if "zh" not in line] == english
    links = [
        set(re.findall(r"\]\((?!README|https)([\w./-]+)", readme(name)))
        for name in ("README.md", "README.zh.md")
    ]
    assert links[0] == links[1]


def readme(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def typed(name: str) -> list[str]:
    """Commands of a page without their comments."""
    lines = re.findall(r"^(?:\$ |    (?=make ))(.*)$", readme(name), re.M)
    return [line.partition(" #")[0].rstrip() for line in lines]


LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)\s]*)?\)")


@pytest.mark.parametrize(
    "path",
    [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))],
    ids=lambda path: path.name,
)
def test_every_link_leads_to_a_file(path: Path) -> None:
    dead = [link for link in LINK.findall(path.read_text("utf-8")) if not (path.parent / link).exists()]
    assert not dead
