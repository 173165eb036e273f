"""``ragla ask`` with passages and models here and elsewhere: the same flags, the same document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import elsewhere, ragla, world
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults
from tests.remote.fake_server import saying, serving

__all__ = ["elsewhere", "ragla", "world"]

pytest.importorskip("milvus_lite", reason="needs ragla[milvus]")

COPIED = "The hotel limit in Paris is 180 euros a night, breakfast included."
FLAGS: tuple[list[str], ...] = ([], ["--explain"], ["--path", "*.md"], ["--set", "retrieve.top_k=1"])


@pytest.fixture
def milvus(ragla: Ragla, world: World, tmp_path: Path) -> list[str]:
    """The settings of the world's index, brought to a Milvus file."""
    uri = f"milvus:{tmp_path / 'passages.db'}"
    moved = ragla("index", "--to", uri, *world.flags)
    assert moved.exit_code == 0, moved.output
    return ["-s", "retrieve.store=milvus", "-s", f"retrieve.milvus_uri={uri}"]


def shape(value: Any) -> Any:
    """A document without its values: the names of its fields, and those of the first of each list."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return [shape(part) for part in value[:1]] if isinstance(value, list) else None


@pytest.mark.parametrize("more", FLAGS, ids=lambda more: " ".join(more) or "plain")
def test_flags_and_documents_are_the_same(
    ragla: Ragla, world: World, milvus: list[str], more: list[str]
) -> None:
    asked = [QUESTION, *world.flags, *more, "--json"]
    with serving(saying(f"{COPIED} [1]", usage={"prompt_tokens": 9, "completion_tokens": 21})) as fake:
        ways = [
            document(ragla("ask", *asked, *where))
            for where in ([], milvus, fake.flags, [*milvus, *fake.flags])
        ]
    prompts = [body["messages"] for body in fake.bodies]
    assert prompts[0] == prompts[1]
    here = ways[0]
    for told in ways:
        assert faults(told) == []
        for key in ("path", "first_line", "last_line"):
            assert [one[key] for one in told["sources"]] == [one[key] for one in here["sources"]]
        for key in ("sources", "stats", "explain"):
            assert shape(told.get(key)) == shape(here.get(key)), key
        assert told.keys() == here.keys()
    assert [told["remote"] for told in ways] == [False, False, True, True]
    assert ways[1]["answer"] == here["answer"]
    assert ways[2]["answer"] == ways[3]["answer"] == f"{COPIED} [1]"
    assert ways[3]["provenance"] == ways[2]["provenance"]
