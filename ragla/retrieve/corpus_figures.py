"""What a document of an index takes on the average: passages, bytes of the database, time."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragla.errors import IndexUnusable
from ragla.retrieve.pace import Pace, noted_pace
from ragla.retrieve.store import Store

_PASSAGES = """
SELECT count(*), coalesce(sum(n), 0), coalesce(sum(n * n), 0)
FROM (SELECT count(*) AS n FROM chunks GROUP BY document_id)
"""


@dataclass(frozen=True)
class CorpusFigures:
    """An index, counted. ``spread``: standard deviation of the passages of a document.

    ``database_bytes``: the least and the most that its content may be said to take. Every table and index
    ends with a page that is partly empty, which is much of a small database and nothing of a large one.
    ``pace``: of the last run that embedded enough to tell, None where there was none.
    """

    documents: int
    passages: int
    spread: float
    database_bytes: tuple[int, int]
    dimension: int
    pace: Pace | None


def corpus_figures(index_dir: Path) -> CorpusFigures:
    """The figures of the index in ``index_dir``.

    Raises IndexUnusable for no index, one that cannot be read, and one without a passage.
    """
    with closing(Store.read(Path(index_dir))) as store, store.transaction("DEFERRED") as connection:
        _, passages, squares = connection.execute(_PASSAGES).fetchone()
        documents = _one(connection, "SELECT count(*) FROM files WHERE status = 'indexed'")
        if not passages:
            raise IndexUnusable(
                f"{store.database.parent}: no passage to plan from",
                "index some hundred documents of the kind first: ragla index FOLDER",
            )
        mean = passages / documents
        return CorpusFigures(
            documents=documents,
            passages=passages,
            spread=math.sqrt(max(0.0, squares / documents - mean**2)),
            database_bytes=_content_bytes(connection),
            dimension=int(store.fingerprint().get("dimension", 0)),
            pace=noted_pace(store),
        )


def _content_bytes(connection: sqlite3.Connection) -> tuple[int, int]:
    page = _one(connection, "PRAGMA page_size")
    used = _one(connection, "PRAGMA page_count") - _one(connection, "PRAGMA freelist_count")
    trees = _one(connection, "SELECT count(*) FROM sqlite_master WHERE rootpage > 0")
    return max(0, used - trees) * page, used * page


def _one(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
