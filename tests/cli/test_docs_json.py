"""``docs/json.md``: every JSON document that a command writes is described, field for field."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from ragla.cli import app
from tests.cli.tiny_models import PARROT, save_parrot, write_documents
from tests.cli.tiny_world import QUESTION, World
from tests.documented import FOLDER, SCHEMAS, faults

CHECKOUT = Path(__file__).parents[2]
VERSION = 1
# a network, a server, Milvus; a file that only ragla reads
NOT_WRITTEN = {"ragla.pull/1", "ragla.health/1", "ragla.request/1", "ragla.serve/1", "ragla.published/1"}
PRIVATE = {"ragla.conversation/1"}
# what takes a reranker, a server, or texts that differ
NOT_SEEN = (
    "ragla.ask/1: verify.difference.", "ragla.ask/1: explain.reranker.", "ragla.search/1: explain.reranker.",
    "ragla.bench/1: decoders.first_difference.", "ragla.ask/1: remote",
)  # fmt: skip
Written = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def written(world: World, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Schema → the documents of that schema that commands wrote, each command run in turn on one index."""
    folder = tmp_path_factory.mktemp("written")
    found: Written = defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGLA_CACHE", str(folder / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setenv("RAGLA_INDEX", str(folder / "index"))
        patch.setenv("RAGLA_PROFILE", str(world.profile))
        patch.chdir(folder)
        for result in runs(folder, world):
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            for document in documents(result.stdout):
                found[document.get("schema", "")].append(document)
        for name, file in (("ragla.trace/1", "trace.jsonl"), ("ragla.recording/1", "recorded.json")):
            found[name] = documents((folder / file).read_text("utf-8"))
    return found


def documents(stdout: str) -> list[dict[str, Any]]:
    """One document, or one a line."""
    try:
        return [json.loads(stdout)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in stdout.splitlines()]


def ragla(*words: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def runs(folder: Path, world: World) -> Iterator[Result]:
    """Commands with ``--json`` or ``--jsonl``, all kinds of documents among what they write."""
    docs = write_documents(folder / "docs")
    (docs / "empty.md").write_text("")
    (docs / "no picture.pdf").write_text("Text, whatever its name says.\n")
    shutil.copy(docs / "travel.md", docs / "travel again.md")
    (docs / "list.csv").write_text("".join(f"{number},{number * 7}\n" for number in range(400)))
    asked = folder / "questions.jsonl"
    line = {
        "question": QUESTION,
        "reference": "180 euros",
        "source": "travel.md",
        "first_line": 5,
        "last_line": 5,
    }
    asked.write_text(json.dumps(line) + "\n")
    long = folder / "long.txt"
    long.write_text(f"{'why ' * 5000}\n")
    (folder / "more.jsonl").write_text(json.dumps({"question": "Who sings?", "answerable": False}) + "\n")
    short = ["-s", "decode.max_new_tokens=8", "-s", "decode.cost_aware=false"]
    yield ragla("index", docs, "--json")
    yield ragla("info", "--json")
    yield ragla("info", "--measure", "-s", "retrieve.faiss_index=HNSW8", "--json")
    yield ragla("info", "--plan", "10M", "--measure", "--json")
    yield ragla("doctor", "--json")
    yield ragla("search", QUESTION, "--explain", "--json")
    yield ragla("search", QUESTION, "--json", "--profile", "none")
    yield ragla("why-not", "travel.md", QUESTION, "--json")
    yield ragla("ask", QUESTION, "--explain", "--verify", "--json")
    kept = ["--trace-json", folder / "trace.jsonl", "--record", folder / "recorded.json"]
    yield ragla("ask", QUESTION, *short, *kept, "--json")
    yield ragla("replay", folder / "recorded.json", "--json")
    yield ragla("ask", QUESTION, "-s", "retrieve.judge=1", "--json")
    yield ragla("ask", QUESTION, "--model", save_parrot(folder / "parrot", PARROT), "--json")
    yield ragla("ask", "--file", asked, *short, "--jsonl")
    yield ragla("ask", "--file", long, *short, "--jsonl")
    yield ragla("chat", *short, "--jsonl", stdin=f"{QUESTION}\nAnd in Rome?\n")
    yield from run_over_answers(asked, folder, short)
    (docs / "new.md").write_text("The pier is open.\n")
    yield ragla("index", "--dry-run", "--json")
    yield ragla("index", "--json")
    yield ragla("index", "--rollback", "--json")
    yield ragla("remove", "travel.md", "--json")
    yield ragla("remove", "--list", "--json")
    yield ragla("remove", "--undo", "travel.md", "--json")
    for path in (folder / "index").glob("vectors-*"):
        path.write_bytes(b"damaged")
    yield ragla("doctor", "--json")
    yield ragla("doctor", "--repair", "--json")
    yield ragla("config", "show", "--json")
    yield ragla("models", "list", "--json")
    yield ragla("models", "path", world.folder / "llm", "--json")


def run_over_answers(asked: Path, folder: Path, short: list[str]) -> Iterator[Result]:
    """What measures, and what is kept of earlier answers."""
    yield ragla("bench", "--questions", asked, *short, "--compare", "greedy,hf-greedy", "--json")
    yield ragla("bench", "--questions", asked, "--record", folder / "answers.jsonl", "--json")
    yield ragla("bench", "--replay", folder / "answers.jsonl", "--budgets", "8", "--json")
    yield ragla("eval", asked, folder / "more.jsonl", *short, "--json")
    listed = ragla("answers", "list", "--json")
    yield listed
    yield ragla("answers", "remove", json.loads(listed.stdout)["answers"][0]["name"], "--json")
    yield ragla("answers", "clear", "--json")


def test_every_schema_of_the_source_has_a_file_and_the_other_way_round() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "ragla").rglob("*.py"))
    assert set(re.findall(r"\"(ragla\.[a-z-]+/\d+)\"", source)) - PRIVATE == set(SCHEMAS)
    for path in FOLDER.glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        assert schema["title"] == schema["properties"]["schema"]["const"] == f"ragla.{path.stem}/{VERSION}"


def test_what_commands_write_is_what_the_schemas_describe(written: Written) -> None:
    """Every field is described, every description is of something that is written."""
    assert [fault for found in written.values() for document in found for fault in faults(document)] == []
    assert set(SCHEMAS) - set(written) == NOT_WRITTEN
    unseen = {
        f"{name}: {field}"
        for name, found in written.items()
        for field in set(described(SCHEMAS[name]))
        - {one for it in found for one in present(SCHEMAS[name], it)}
    }
    surplus = sorted(field for field in unseen if not field.startswith(NOT_SEEN))
    assert not surplus, "no command wrote these, take them out of docs/schema: " + "; ".join(surplus)


def inside(form: dict[str, Any]) -> dict[str, Any] | None:
    """What a list or a mapping is of; None for anything else."""
    found: dict[str, Any] | None = form.get("items") or form.get("additionalProperties")
    return found


def described(form: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of all fields."""
    if (inner := inside(form)) is not None:
        yield from described(inner, prefix)
    for key, below in form.get("properties", {}).items():
        yield f"{prefix}{key}"
        yield from described(below, f"{prefix}{key}.")


def present(form: dict[str, Any], value: Any, prefix: str = "") -> Iterator[str]:
    """The same of those that a document has."""
    if (inner := inside(form)) is not None:
        for one in value.values() if isinstance(value, dict) else value or ():
            yield from present(inner, one, prefix)
    elif isinstance(value, dict):
        for key in form.get("properties", {}).keys() & value.keys():
            yield f"{prefix}{key}"
            yield from present(form["properties"][key], value[key], f"{prefix}{key}.")
