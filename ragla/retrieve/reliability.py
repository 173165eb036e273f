"""What an embedder can read of a corpus, found out while indexing, for each script by itself.

Sentences of sampled passages are searched for: how often their own passage comes first says whether the
dense search can be believed at all. The mean of the sampled passages says what texts of that script have
in common, which no question's answer should be thanked for. The sample depends on the content alone, so
that an index made in one go and one made in many say the same.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragla.retrieve.embed import Embedder, Vectors
from ragla.retrieve.lexical import is_cjk
from ragla.retrieve.store import Store

_DOCUMENTS = 256
_PASSAGES_A_SCRIPT = 256
_PROBES = 12  # sentences searched for, in each script
_FEWEST = 4  # with fewer the outcome is chance
# Counted as passages that have nothing in common with the question, so that in a tiny corpus the one right
# passage is not its own background.
_PRIOR = 16
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_TIE = 1e-6
_LONG_ENOUGH = {"cjk": 12, "other": 30}  # characters
_SAMPLED = """
SELECT files.sha256, chunks.id, chunks.vector, substr(text, start + 1, "end" - start)
FROM (SELECT id, sha256 FROM files WHERE status = 'indexed' ORDER BY sha256, path LIMIT ?) AS files
JOIN documents ON documents.id = files.id JOIN chunks ON chunks.document_id = files.id
ORDER BY files.sha256, chunks.start
"""


@dataclass(frozen=True)
class Reading:
    """How an embedder reads one script: sum of unit vectors (dimension,), of how many, and how often
    a sentence found its passage again (mean reciprocal rank)."""

    total: Vectors
    passages: int
    found_again: float

    def background(self, query: Vectors) -> float:
        """Cosine of ``query`` (dimension,) with the mean passage, drawn towards 0 where there are few."""
        return float(query @ self.total) / (self.passages + _PRIOR)


def script(text: str) -> str:
    """``cjk`` or ``other``: what most of a text's letters are."""
    letters = [letter for letter in text if letter.isalnum()]
    return "cjk" if sum(map(is_cjk, letters)) * 4 > len(letters) else "other"


def reading_for(readings: dict[str, Reading], question: str) -> Reading | None:
    """That of the question's script, else of any, for the background of a script the corpus has not."""
    if not readings:
        return None
    return readings.get(script(question)) or max(readings.values(), key=lambda one: one.passages)


def measure(
    connection: sqlite3.Connection, ids: NDArray[np.int64], vectors: Vectors, embedder: Embedder, before: str
) -> str:
    """What to store: readings of each script, as JSON. ``before``: what was stored; its probes are reused.

    ``ids`` (n,) and ``vectors`` (n, dimension) are those of all passages.
    """
    old = json.loads(before or "{}").get("probes", {})
    samples: dict[str, list[tuple[str, int, Vectors, str]]] = {}
    for key, chunk_id, blob, text in sorted(_sample(connection)):
        of_script = samples.setdefault(script(text), [])
        if len(of_script) < _PASSAGES_A_SCRIPT:
            of_script.append((key, chunk_id, np.frombuffer(blob, "<f4"), text))
    probes: dict[str, str] = {}
    scripts = {}
    for name, sampled in samples.items():
        ranks = []
        for sentence, chunk_id in _sentences(name, sampled):
            key = hashlib.sha256(sentence.encode()).hexdigest()[:16]
            probes[key] = old.get(key) or embedder.encode_query(sentence).astype("<f4").tobytes().hex()
            ranks.append(_reciprocal_rank(_vector(probes[key]), chunk_id, ids, vectors))
        total = np.sum([vector for _, _, vector, _ in sampled], axis=0, dtype=np.float32)
        scripts[name] = {
            "total": total.astype("<f4").tobytes().hex(),
            "passages": len(sampled),
            "found_again": float(np.mean(ranks)) if len(ranks) >= _FEWEST else 1.0,
        }
    return json.dumps({"scripts": scripts, "probes": probes}, sort_keys=True)


def readings(store: Store) -> dict[str, Reading]:
    """What was stored, by script; empty for an index that was made without."""
    found: dict[str, Any] = json.loads(store.reliability() or "{}").get("scripts", {})
    return {
        name: Reading(_vector(one["total"]), int(one["passages"]), float(one["found_again"]))
        for name, one in found.items()
    }


def _sample(connection: sqlite3.Connection) -> Iterator[tuple[str, int, bytes, str]]:
    """Passages of the documents with the smallest hashes, in an order that only their content decides."""
    for sha256, chunk_id, blob, text in connection.execute(_SAMPLED, (_DOCUMENTS,)):
        yield hashlib.sha256((sha256 + text).encode()).hexdigest(), chunk_id, blob, text


def _sentences(name: str, sampled: Sequence[tuple[str, int, Vectors, str]]) -> Iterator[tuple[str, int]]:
    """The middle sentence of the first passages that have one long enough, with the passage's id."""
    given = 0
    for _, chunk_id, _, text in sampled:
        whole = [part.strip() for part in _SENTENCE_END.split(text)]
        long = [part for part in whole if len(part) >= _LONG_ENOUGH[name]]
        if len(long) < 2:  # a passage of one sentence finds itself, whatever the embedder
            continue
        yield long[len(long) // 2], chunk_id
        given += 1
        if given == _PROBES:
            return


def _reciprocal_rank(query: Vectors, chunk_id: int, ids: NDArray[np.int64], vectors: Vectors) -> float:
    """Of the passage among all; to an embedder that cannot tell two apart, either may come first."""
    cosines = vectors @ query
    own = cosines[int(np.searchsorted(ids, chunk_id))]
    before = int(np.sum(cosines > own + _TIE))
    alike = int(np.sum(np.abs(cosines - own) <= _TIE)) - 1
    return 1 / (1 + before + alike / 2)


def _vector(spelled: str) -> Vectors:
    return np.frombuffer(bytes.fromhex(spelled), dtype="<f4").astype(np.float32)
