"""A fake embedder, folders of documents and an indexing shorthand, all without a download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.retrieve import IndexReport, Retriever, changes, index_folders


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small folder of documents."""
    root = tmp_path / "docs"
    (root / "guides").mkdir(parents=True)
    (root / "travel.md").write_text(
        "# Travel\n\n## Booking\n\nBook trains in second class.\n", encoding="utf-8"
    )
    (root / "guides" / "boats.txt").write_text("Boats are moored at the north pier.\n", encoding="utf-8")
    (root / "差旅.md").write_text("# 差旅\n\n差旅报销需要发票。\n", encoding="utf-8")
    return root


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where ``index`` puts the index."""
    return tmp_path / "index"


@pytest.fixture
def no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were written a moment ago count as unchanged too."""
    monkeypatch.setattr(changes, "CLOCK_TICK_NS", 0)


Indexing = Callable[..., IndexReport]


@pytest.fixture
def index(folder: Path, tmp_path: Path, embedder: HashingEmbedder) -> Indexing:
    """Index ``folder`` (or ``roots``) into ``tmp_path / "index"``."""

    def run(
        roots: list[Path] | None = None, settings: RetrieveSettings | None = None, **more: Any
    ) -> IndexReport:
        embedded_by = more.pop("embedder", embedder)
        target = more.pop("index_dir", tmp_path / "index")
        return index_folders(roots or [folder], target, settings or RetrieveSettings(), embedded_by, **more)

    return run


@pytest.fixture
def found(tmp_path: Path, embedder: HashingEmbedder) -> Callable[[str], list[str]]:
    """Texts of the passages that contain words of the question."""

    def search(question: str) -> list[str]:
        retriever = Retriever.open(tmp_path / "index", embedder)
        try:
            return [item.passage.text for item in retriever.search(question, 10) if item.lexical > 0]
        finally:
            retriever.close()

    return search
