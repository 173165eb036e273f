"""``ragla doctor``, ``remove``, ``index --rollback`` and ``--dry-run`` on the command line."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragla.retrieve.layout import current_database
from tests.cli.tiny_world import QUESTION, Ragla, World, document


@pytest.fixture
def mine(world: World, ragla: Ragla, tmp_path: Path) -> World:
    """The same models, with documents to change and an index of them."""
    docs = tmp_path / "my docs"
    shutil.copytree(world.docs, docs)
    made = replace(world, docs=docs, index=tmp_path / "my index")
    assert ragla("index", docs, *made.flags).exit_code == 0
    return made


@pytest.fixture
def place(mine: World) -> list[str]:
    return ["--index", str(mine.index)]


def damage(mine: World, statement: str) -> None:
    database = current_database(mine.index)
    assert database
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()


def paths(found: dict[str, Any]) -> set[str]:
    return {Path(path).name for path in found["read"]}


def test_a_whole_index_is_said_to_be_whole(ragla: Ragla, mine: World) -> None:
    told = ragla("doctor", *mine.flags)
    assert told.exit_code == 0, told.output
    _, _, about_index = told.stdout.partition(f"\nindex {mine.index}\n")
    assert [line.split() for line in about_index.splitlines()] == [
        ["ok", name] for name in ("folder", "database", "records", "files", "passages", "words", "vectors")
    ]
    found = document(ragla("doctor", *mine.flags, "--json"))
    assert (found["schema"], found["ok"], found["mended"]) == ("ragla.doctor/1", True, [])


def test_damage_is_said_mended_and_read_again(ragla: Ragla, mine: World) -> None:
    damage(mine, "UPDATE chunks SET title = '\x1b[31mred[bold]'")
    asked = ragla("search", QUESTION, *mine.flags)
    assert asked.exit_code == 3
    assert "ragla doctor --repair" in asked.stderr
    told = ragla("doctor", *mine.flags)
    assert told.exit_code == 3
    assert "damaged passages" in told.stdout
    assert "→ ragla doctor --repair --index" in told.stdout
    assert "\x1b" not in told.stdout
    found = document(ragla("doctor", *mine.flags, "--repair", "--json"))
    assert found["ok"]
    assert found["mended"]
    (waiting,) = [check for check in found["checks"] if check["waiting"]]
    assert waiting["waiting"][0]["mend"].startswith("ragla index --index")
    assert document(ragla("index", *mine.flags, "--json"))["indexed"] == len(waiting["waiting"])
    assert ragla("search", QUESTION, *mine.flags).exit_code == 0


def test_what_cannot_be_mended_says_what_is_left(ragla: Ragla, mine: World) -> None:
    database = current_database(mine.index)
    assert database
    database.write_bytes(b"not a database at all" * 500)
    told = ragla("doctor", "--repair", *mine.flags)
    assert told.exit_code == 3
    assert "→ ragla index --rebuild FOLDER --index" in told.stdout
    assert "Traceback" not in told.output
    assert ragla("index", "--rebuild", mine.docs, *mine.flags).exit_code == 0
    assert ragla("doctor", *mine.flags).exit_code == 0


@pytest.mark.parametrize("command", [["doctor", "--repair"], ["remove", "x"], ["remove", "--list"]])
def test_without_an_index_the_command_that_makes_one(
    ragla: Ragla, tmp_path: Path, command: list[str]
) -> None:
    told = ragla(*command)
    assert told.exit_code == 3
    assert "ragla index FOLDER" in told.stderr
    (tmp_path / "empty").mkdir()
    told = ragla(*command, "--index", tmp_path / "empty")
    assert told.exit_code == 3
    assert "ragla index FOLDER" in told.output
    assert list((tmp_path / "empty").glob("passages*")) == []


def test_a_rollback_says_what_is_there_now(ragla: Ragla, mine: World, place: list[str]) -> None:
    told = ragla("index", "--rollback", *place)
    assert told.exit_code == 1
    assert "nothing to go back to" in told.stderr
    before = document(ragla("info", *place, "--json"))["passages"]
    (mine.docs / "zebra.md").write_text("A zebra.", encoding="utf-8")
    assert ragla("index", *mine.flags).exit_code == 0
    told = ragla("index", "--rollback", *place)
    assert told.exit_code == 0
    assert f"{before} passages" in told.stderr
    found = document(ragla("index", "--rollback", *place, "--json"))
    assert (found["schema"], found["passages"]) == ("ragla.rollback/1", before + 1)
    assert found["changed_at"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--rollback", "docs"], "--rollback takes no folders"),
        (["--rollback", "--rebuild"], "--rollback takes no --rebuild"),
        (["--rollback", "--exclude", "*.md"], "--rollback takes no --exclude"),
        (["--rollback", "--dry-run"], "exclude each other"),
        (["--dry-run", "--watch"], "exclude each other"),
    ],
)
def test_flags_that_exclude_each_other(ragla: Ragla, flags: list[str], says: str) -> None:
    told = ragla("index", *flags)
    assert told.exit_code == 2
    assert says in told.stderr


def test_a_dry_run_writes_nothing_and_needs_no_model(
    ragla: Ragla, mine: World, place: list[str], tmp_path: Path
) -> None:
    new = tmp_path / "new index"
    found = document(
        ragla("index", mine.docs, "--index", new, "--dry-run", "--json", "-s", "retrieve.embedder=nowhere")
    )
    assert found["schema"] == "ragla.dry-run/1"
    assert len(found["read"]) == sum(path.is_file() for path in mine.docs.rglob("*"))
    assert not new.exists()
    (mine.docs / "zebra.md").write_text("A zebra.", encoding="utf-8")
    (mine.docs / "empty.md").touch()
    gone = next(path for path in mine.docs.rglob("*.md") if path.name not in ("zebra.md", "empty.md"))
    gone.unlink()
    before = {path.name: path.read_bytes() for path in mine.index.iterdir()}
    found = document(ragla("index", *mine.flags, "--dry-run", "--json"))
    assert {path.name: path.read_bytes() for path in mine.index.iterdir()} == before
    assert paths(found) == {"zebra.md"}
    assert found["removed"] == [str(gone)]
    assert [row["reason"] for row in found["skipped"]] == ["empty file"]
    told = ragla("index", *mine.flags, "--dry-run")
    assert "would read 1 file" in told.stdout
    made = document(ragla("index", *mine.flags, "--json"))
    assert (made["indexed"], made["removed"], made["unchanged"]) == (1, 1, len(found["unchanged"]))


def test_a_dry_run_is_refused_as_the_run_would_be(ragla: Ragla, mine: World) -> None:
    flags = [*mine.flags, "-s", "retrieve.chunk_tokens=48"]
    for more in ([], ["--dry-run"]):
        told = ragla("index", *flags, *more)
        assert told.exit_code == 3
        assert "chunk_tokens" in told.stderr
    found = document(ragla("index", mine.docs, *flags, "--dry-run", "--rebuild", "--json"))
    assert found["unchanged"] == []


def test_what_is_removed_stays_out_until_it_is_taken_back(
    ragla: Ragla, mine: World, place: list[str]
) -> None:
    assert ragla("ask", QUESTION, *mine.flags).exit_code in (0, 4)
    told = ragla("remove", mine.docs / "travel.md", *mine.flags)
    assert "1 file removed" in told.stderr
    assert told.exit_code == 0, told.output
    (out,) = document(ragla("remove", "--list", *place, "--json"))["paths"]
    assert ragla("remove", "--list", *place).stdout.strip() == out
    made = document(ragla("index", mine.docs, *mine.flags, "--json"))
    assert made["indexed"] == 0
    assert any("--list" in row["reason"] for row in made["remarks"])
    assert document(ragla("remove", "--undo", out, *place, "--json"))["paths"] == [out]
    assert document(ragla("index", *mine.flags, "--json"))["indexed"] >= 1
    assert "nothing was removed" in ragla("remove", "--list", *place).stderr


def test_a_name_that_means_nothing_has_a_near_one(ragla: Ragla, mine: World, place: list[str]) -> None:
    known = next(mine.docs.rglob("*.md")).name
    told = ragla("remove", known[:-1], *place)
    assert told.exit_code == 2
    assert "did you mean" in told.stderr
    assert known in told.stderr
    for command in (["remove"], ["remove", "--list", "x"], ["remove", "--undo", "x"]):
        assert ragla(*command, *place).exit_code == 2
