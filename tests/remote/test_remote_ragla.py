"""A ``ragla serve`` elsewhere: the passages of this index, the text of the model here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cli.tiny_models import PARROT, save_parrot, write_profile
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults
from tests.serve.conftest import TOKEN, Server, serving

FIRST = "Where are the boats?"


@pytest.fixture(scope="module")
def parrot(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same world with a model that copies and cites."""
    folder = tmp_path_factory.mktemp("parrot")
    llm = save_parrot(folder / "llm", PARROT)
    return replace(world, profile=write_profile(folder / "p.yaml", llm, world.folder / "an embedder"))


@pytest.fixture(scope="module")
def server(parrot: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(parrot, tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def flags(parrot: World, server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What asks that server."""
    monkeypatch.setenv("THE_TOKEN", TOKEN)
    settings = (
        "backend=remote",
        f"remote_url={server.url}",
        "remote_key_env=THE_TOKEN",
        "keep_answers=false",
    )
    return [*parrot.flags, *(word for setting in settings for word in ("-s", f"decode.{setting}"))]


def test_the_answer_is_that_of_the_model_here(ragla: Ragla, parrot: World, flags: list[str]) -> None:
    plain = ("-s", "decode.keep_answers=false")
    here = document(ragla("ask", QUESTION, *parrot.flags, *plain, "--json"))
    there = document(ragla("ask", QUESTION, *flags, "--json"))
    assert faults(there) == []
    for key in ("answer", "answered", "left_out", "unsupported"):
        assert there[key] == here[key], key
    assert there["answer"].startswith(
        "The hotel limit in Paris is 180 euros a night, breakfast included. [1]"
    )
    for key in ("number", "path", "first_line", "last_line", "cited", "copied_share", "stale"):
        assert [source[key] for source in there["sources"]] == [source[key] for source in here["sources"]], (
            key
        )
    assert {span["path"] for span in there["provenance"]} == {span["path"] for span in here["provenance"]}
    for key in ("prompt_tokens", "tokens"):
        assert there["stats"][key] == here["stats"][key], key
    assert there["stats"]["tokens_per_step"] > 1
    shown = ragla("ask", QUESTION, *flags)
    assert shown.stdout == f"{here['answer']}\n"
    assert "tokens/step" in shown.stderr


def test_turns_are_told_as_they_are_here(ragla: Ragla, parrot: World, flags: list[str]) -> None:
    plain = ("-s", "decode.keep_answers=false")
    talk = f"{FIRST}\n{QUESTION}\n"
    here = ragla("chat", *parrot.flags, *plain, "--jsonl", stdin=talk).stdout.splitlines()
    there = ragla("chat", *flags, "--jsonl", stdin=talk).stdout.splitlines()
    both = [[json.loads(line) for line in lines] for lines in (here, there)]
    for mine, other in zip(*both, strict=True):
        assert other["answer"] == mine["answer"]
        assert other["stats"]["prompt_tokens"] == mine["stats"]["prompt_tokens"]


def test_passages_that_the_server_had_no_room_for(ragla: Ragla, flags: list[str]) -> None:
    """The server packs by its own budget, and says which passages it has read."""
    many = ragla("ask", QUESTION, *flags, "-s", "retrieve.top_k=100", "--json")
    told = document(many)
    assert [source["number"] for source in told["sources"]] == list(range(1, len(told["sources"]) + 1))


def test_what_a_server_refuses_is_said(ragla: Ragla, flags: list[str]) -> None:
    refused = ragla("ask", QUESTION, *flags, "-s", "decode.min_p=0.1")
    assert refused.exit_code == 1
    assert "min_p: no such field is known here" in refused.stderr
    unknown = ragla("ask", QUESTION, *flags, "--model", "another")
    assert unknown.exit_code == 5
    assert "the model here is llm" in unknown.stderr
