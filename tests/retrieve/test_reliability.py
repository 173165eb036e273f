from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hashing_embedder import HashingEmbedder

from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve.reliability import Reading, readings, script
from ragla.retrieve.store import Store

Index = Callable[..., IndexReport]
PROSE = [
    f"The {animal} of station {animal}ton sleeps below the old bridge. Nobody feeds the {animal} after dark, "
    f"says the keeper of {animal}ton. Its food is {animal}weed."
    for animal in ("otter", "heron", "badger", "weasel", "marten", "falcon", "lizard", "salmon")
]


class Blind(HashingEmbedder):
    """Knows every token and understands none: what it sees in a text depends on its first letter alone."""

    def words(self, text: str) -> list[str]:
        return [text[:1]]


def stored(index_dir: Path) -> str:
    store = Store.read(index_dir)
    try:
        return store.reliability()
    finally:
        store.close()


def read(index_dir: Path) -> dict[str, Reading]:
    store = Store.read(index_dir)
    try:
        return readings(store.reliability())
    finally:
        store.close()


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo"
    folder.mkdir()
    for number, text in enumerate(PROSE):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Boats", "other"),
        ("差旅报销", "cjk"),
        ("用 Python 写的程序", "cjk"),
        ("The word 船 means boat", "other"),
        ("", "other"),
    ],
)
def test_scripts(text: str, name: str) -> None:
    assert script(text) == name


def test_an_embedder_that_reads_finds_passages_again(index: Index, zoo: Path, tmp_path: Path) -> None:
    index([zoo])
    (reading,) = read(tmp_path / "index").values()
    assert reading.passages == len(PROSE)
    assert reading.found_again > 0.9


def test_one_that_does_not_is_not_believed(index: Index, zoo: Path, tmp_path: Path) -> None:
    blind = Blind("blind")
    index([zoo], embedder=blind)
    assert read(tmp_path / "index")["other"].found_again < 0.3
    opened = Retriever.open(tmp_path / "index", blind)
    found = opened.explain("Nobody feeds the salmon")
    opened.close()
    assert found.evidence.trust < 0.1
    assert found.kept[0].passage.path == "7.txt"


def test_what_is_stored_depends_on_the_content_alone(index: Index, zoo: Path, tmp_path: Path) -> None:
    index([zoo])
    whole = stored(tmp_path / "index")
    for name in ("3.txt", "5.txt"):
        text = (zoo / name).read_text(encoding="utf-8")
        (zoo / name).unlink()
        index([zoo], index_dir=tmp_path / "other")
        (zoo / name).write_text(text, encoding="utf-8")
    index([zoo], index_dir=tmp_path / "other")
    assert json.loads(stored(tmp_path / "other")) == json.loads(whole)


def test_sentences_are_embedded_once(
    index: Index, zoo: Path, tmp_path: Path, embedder: HashingEmbedder
) -> None:
    asked: list[str] = []
    plain = embedder.encode_query
    embedder.encode_query = lambda text: asked.append(text) or plain(text)  # type: ignore[method-assign]
    index([zoo])
    assert len(asked) == len(PROSE)
    (zoo / "new.txt").write_text("One more. " + PROSE[0].replace("otter", "walrus"), encoding="utf-8")
    index([zoo])
    assert len(asked) == len(PROSE) + 1


def test_background_is_nearly_nothing_for_a_few_passages() -> None:
    vector = np.array([1.0, 0.0], dtype=np.float32)
    assert Reading(vector, 1, 1.0).background(vector) == pytest.approx(1 / 17)
    assert Reading(vector * 984, 984, 1.0).background(vector) == pytest.approx(0.984)
