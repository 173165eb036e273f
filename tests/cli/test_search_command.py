"""Filters, explanations and ``ragla why-not`` on the command line."""

from __future__ import annotations

import pytest

from tests.cli.tiny_world import QUESTION, Ragla, World, document


def test_filters_hold_before_anything_is_ranked(ragla: Ragla, world: World) -> None:
    everything = document(ragla("search", QUESTION, *world.flags, "--json", "-k", "50"))["passages"]
    some = everything[-1]["path"]
    found = document(ragla("search", QUESTION, *world.flags, "--json", "-k", "50", "--path", f"/{some}"))
    assert {passage["path"] for passage in found["passages"]} == {some}
    nothing = ragla("search", QUESTION, *world.flags, "--type", "pdf")
    assert nothing.exit_code == 2
    assert "types there" in nothing.stderr


def test_search_explains_itself(ragla: Ragla, world: World) -> None:
    found = document(ragla("search", QUESTION, *world.flags, "--json", "--explain", "-k", "1"))
    explained = found["explain"]
    first = explained["ranked"][0]
    assert first["fate"] == "kept"
    trust = explained["trust"]
    assert first["score"] == pytest.approx(trust * first["dense"] + (1 - trust) * first["lexical"])
    told = ragla("search", QUESTION, *world.flags, "--explain", "-k", "1")
    assert "background cosine" in told.stderr
    assert "background cosine" not in told.stdout


def test_ask_explains_and_filters(ragla: Ragla, world: World) -> None:
    flags = [*world.flags, "-s", "decode.max_new_tokens=4", "--explain"]
    found = document(ragla("ask", QUESTION, *flags, "--json"))
    assert found["explain"]["ranked"]
    some = found["explain"]["ranked"][-1]["path"]
    narrowed = document(ragla("ask", QUESTION, *flags, "--json", "--path", f"/{some}"))
    assert {source["path"] for source in narrowed["sources"]} == {some}
    assert "background cosine" in ragla("ask", QUESTION, *flags).stderr


def test_why_not(ragla: Ragla, world: World) -> None:
    best = document(ragla("search", QUESTION, *world.flags, "--json", "-k", "1"))["passages"][0]["path"]
    found = document(ragla("why-not", best, QUESTION, *world.flags, "--json"))
    assert (found["schema"], found["path"], found["stage"]) == ("ragla.why-not/1", best, "kept")
    assert "it was found" in ragla("why-not", best, QUESTION, *world.flags).stdout
    unknown = ragla("why-not", "nowhere.md", QUESTION, *world.flags)
    assert unknown.exit_code == 2
    assert "not in the index" in unknown.stderr
