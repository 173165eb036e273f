"""The world of these tests: two tiny models, a profile that names them, documents and their index."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typer.testing import Result

from ragla.trie.answer_store import FILE_NAME

QUESTION = "What is the hotel limit in Paris?"


@dataclass(frozen=True)
class World:
    """Two models, a profile that names them, documents and their index; the path is an awkward one."""

    folder: Path
    profile: Path
    docs: Path
    index: Path

    @property
    def flags(self) -> list[str]:
        return ["--index", str(self.index), "--profile", str(self.profile)]

    def with_index_of_its_own(self, index: Path) -> World:
        """The same documents under a copied index, without what other tests were answered and said."""
        shutil.copytree(self.index, index, ignore=shutil.ignore_patterns(FILE_NAME + "*", "conversation-*"))
        return replace(self, index=index)


Ragla = Callable[..., Result]


def document(result: Result) -> dict[str, Any]:
    """The one JSON document that stdout must be."""
    found: dict[str, Any] = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found
