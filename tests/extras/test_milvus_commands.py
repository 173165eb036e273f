"""Commands on passages in Milvus: the same documents as on the index of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli.conftest import elsewhere, ragla, world
from tests.cli.test_chat import BOATS
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults

__all__ = ["elsewhere", "ragla", "world"]

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite", reason="needs ragla[milvus]")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"milvus:{tmp_path_factory.mktemp('milvus') / 'passages.db'}"


@pytest.fixture
def there(ragla: Ragla, world: World, uri: str) -> list[str]:
    """The settings of the world's index, brought to a file."""
    moved = ragla("index", "--to", uri, *world.flags)
    assert moved.exit_code == 0, moved.output
    assert moved.stdout == ""
    return ["-s", "retrieve.store=milvus", "-s", f"retrieve.milvus_uri={uri}"]


def rounded(result: Result) -> Any:
    """The document; vectors are multiplied in another order there."""
    return json.loads(result.stdout, parse_float=lambda number: round(float(number), 5))


def test_a_search_writes_the_same_document(ragla: Ragla, world: World, there: list[str]) -> None:
    for more in ([], ["--path", "*.md"], ["--type", "html"], ["-k", "20"]):
        asked = [QUESTION, *more, "--json", *world.flags]
        here, elsewhere = ragla("search", *asked), ragla("search", *asked, *there)
        assert here.exit_code == elsewhere.exit_code
        assert rounded(here) == rounded(elsewhere)
    explained = document(ragla("search", QUESTION, "--explain", "--json", *world.flags, *there))
    assert faults(explained) == []


def test_a_reader_needs_no_index_of_its_own(
    ragla: Ragla, world: World, there: list[str], elsewhere: Path
) -> None:
    empty = ["--profile", str(world.profile)]
    here = ragla("search", QUESTION, "--json", *world.flags)
    assert rounded(ragla("search", QUESTION, "--json", *empty, *there)) == rounded(here)
    for _ in range(2):
        asked = ragla("ask", QUESTION, "--json", "-s", "decode.max_new_tokens=4", *empty, *there)
        assert asked.exit_code in (0, 4), asked.output
        assert document(asked)["sources"]
        assert "earlier answers" not in asked.stderr
    assert {path.name[:13] for path in elsewhere.rglob("*") if path.is_file()} <= {"conversation-"}
    why = document(ragla("why-not", "travel.md", QUESTION, "--json", *empty, *there))
    assert why["stage"]


def test_a_reader_goes_on_with_its_last_conversation(
    ragla: Ragla, world: World, there: list[str], elsewhere: Path
) -> None:
    brief = ["--json", "-s", "decode.max_new_tokens=4", "--profile", str(world.profile), *there]
    first = ragla("ask", QUESTION, *brief)
    assert first.exit_code == 0, first.output
    after = document(ragla("ask", "And the keys?", "-c", *brief))
    assert after["conversation"] == {"turns": 1}
    assert not [notice for notice in after["notices"] if "conversation" in notice or "not told" in notice]
    beside = ragla("ask", QUESTION, *brief, *world.flags[:2])  # an index of the same documents
    assert beside.exit_code == 0
    assert document(ragla("ask", BOATS, "-c", *brief, *world.flags[:2]))["conversation"] == {"turns": 1}
    assert document(ragla("ask", BOATS, "-c", *brief))["conversation"] == {"turns": 2}
    assert ragla("doctor", "--profile", str(world.profile)).exit_code != 3
    assert ragla("answers", "clear").exit_code == 0
    assert list((elsewhere / ".ragla").iterdir()) == []


def test_info_and_doctor_tell_of_it(ragla: Ragla, world: World, there: list[str]) -> None:
    here = document(ragla("info", "--json", *world.flags))
    elsewhere = document(ragla("info", "--json", *world.flags, *there))
    assert faults(elsewhere) == []
    for key in (
        "documents",
        "passages",
        "types",
        "made_with",
        "generation",
        "reasons",
        "skipped",
        "changed_at",
    ):
        assert elsewhere[key] == here[key], key
    assert elsewhere["dense"]["factory"] == "FLAT"
    checked = document(ragla("doctor", "--json", *world.flags, *there))
    assert faults(checked) == []
    found = next(check for check in checked["checks"] if check["name"] == "milvus")
    assert found["problems"] == [] == found["waiting"]


def test_an_index_run_brings_what_changed(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("Herons fish at night.\n")
    flags = ["--index", str(tmp_path / "index"), "--profile", str(world.profile)]
    there = ["-s", "retrieve.store=milvus", "-s", f"retrieve.milvus_uri=milvus:{tmp_path / 'own.db'}"]
    assert ragla("index", docs, *flags, *there).exit_code == 0
    (docs / "b.md").write_text("Otters swim at noon.\n")
    told = ragla("index", *flags, *there, "--json")
    assert faults(document(told)) == []
    found = document(
        ragla("search", "otters noon", "--json", "-s", "retrieve.relevance_floor=-1", *flags, *there)
    )
    assert {passage["path"] for passage in found["passages"]} == {"a.md", "b.md"}
    (docs / "b.md").unlink()
    assert ragla("index", *flags).exit_code == 0
    behind = document(ragla("doctor", "--json", *flags, *there))
    waiting = next(check for check in behind["checks"] if check["name"] == "milvus")["waiting"]
    assert "generation" in waiting[0]["what"]
    moved = ragla("index", "--to", f"milvus:{tmp_path / 'own.db'}", "--json", *flags)
    assert faults(document(moved)) == []
    assert document(moved)["removed"] == 1


def test_what_is_wrong_is_one_line_with_a_command(ragla: Ragla, world: World, tmp_path: Path) -> None:
    gone = ["-s", "retrieve.store=milvus", "-s", "retrieve.milvus_uri=milvus://127.0.0.1:9/x"]
    for command, code in (("search", 3), ("ask", 3)):
        failed = ragla(command, QUESTION, "--json", *world.flags, *gone)
        told = json.loads(failed.stdout)
        assert failed.exit_code == told["exit_code"] == code
        assert "does not answer" in told["error"]
        assert "retrieve.store=faiss" in told["hint"]
    looked = ragla("doctor", "--json", *world.flags, *gone)
    assert looked.exit_code == 3
    assert "does not answer" in looked.stdout
    empty = ["-s", "retrieve.store=milvus", "-s", f"retrieve.milvus_uri=milvus:{tmp_path / 'none.db'}"]
    failed = ragla("search", QUESTION, *world.flags, *empty)
    assert failed.exit_code == 3
    assert "no index here" in failed.stderr
    assert not (tmp_path / "none.db").exists()
