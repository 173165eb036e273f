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

from ragla.retrieve.dense import Blocks
from ragla.retrieve.embed import Embedder, Vectors
from ragla.retrieve.lexical import is_cjk

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
_DOCUMENTS_SAMPLED = """
SELECT files.id, sha256, text FROM files JOIN documents ON documents.id = files.id
WHERE status = 'indexed' ORDER BY sha256, path LIMIT ?
"""
_PLACES = 'SELECT id, start, "end" FROM chunks WHERE document_id = ? ORDER BY start'


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


@dataclass(frozen=True)
class _Question:
    """A sentence of a passage, asked for: vectors (dimension,) of the sentence and of its own passage."""

    script: str
    vector: Vectors
    passage: Vectors


def script(text: str) -> str:
    """``cjk`` or ``other``: what most of a text's letters are."""
    letters = [letter for letter in text if letter.isalnum()]
    return "cjk" if sum(map(is_cjk, letters)) * 4 > len(letters) else "other"


def reading_for(readings: dict[str, Reading], question: str) -> Reading | None:
    """That of the question's script, else of any, for the background of a script the corpus has not."""
    if not readings:
        return None
    return readings.get(script(question)) or max(readings.values(), key=lambda one: one.passages)


def measure(connection: sqlite3.Connection, blocks: Blocks, embedder: Embedder, before: str) -> str:
    """What to store: readings of each script, as JSON. ``before``: what was stored; its probes are reused.

    ``blocks``: the ids and vectors of all passages.
    """
    old = json.loads(before or "{}").get("probes", {})
    probes: dict[str, str] = {}
    asked: list[_Question] = []
    scripts: dict[str, dict[str, Any]] = {}
    for name, sampled in _sample(connection).items():
        vectors = _vectors(connection, [chunk_id for _, chunk_id, _ in sampled])
        for sentence, chunk_id in _sentences(name, sampled):
            key = hashlib.sha256(sentence.encode()).hexdigest()[:16]
            probes[key] = old.get(key) or embedder.encode_query(sentence).astype("<f4").tobytes().hex()
            asked.append(_Question(name, _vector(probes[key]), vectors[chunk_id]))
        total = np.sum(list(vectors.values()), axis=0, dtype=np.float32)
        scripts[name] = {"total": total.astype("<f4").tobytes().hex(), "passages": len(sampled)}
    ranks = _reciprocal_ranks(asked, blocks)
    for name, one in scripts.items():
        own = [rank for rank, question in zip(ranks, asked, strict=True) if question.script == name]
        one["found_again"] = float(np.mean(own)) if len(own) >= _FEWEST else 1.0
    return json.dumps({"scripts": scripts, "probes": probes}, sort_keys=True)


def readings(stored: str) -> dict[str, Reading]:
    """What ``measure`` gave, by script; empty for an index that was made without."""
    found: dict[str, Any] = json.loads(stored or "{}").get("scripts", {})
    return {
        name: Reading(_vector(one["total"]), int(one["passages"]), float(one["found_again"]))
        for name, one in found.items()
    }


_Sampled = tuple[str, int, str]  # a hash that orders it, chunk id, text


def _sample(connection: sqlite3.Connection) -> dict[str, list[_Sampled]]:
    """By script, the passages with the smallest hashes, of the documents with the smallest hashes.

    Only their content decides which, and in what order. One document at a time is in memory.
    """
    samples: dict[str, list[_Sampled]] = {}
    for document_id, sha256, text in connection.execute(_DOCUMENTS_SAMPLED, (_DOCUMENTS,)):
        for chunk_id, start, end in connection.execute(_PLACES, (document_id,)):
            passage = text[start:end]
            key = hashlib.sha256((sha256 + passage).encode()).hexdigest()
            of_script = samples.setdefault(script(passage), [])
            of_script.append((key, chunk_id, passage))
            if len(of_script) == 2 * _PASSAGES_A_SCRIPT:
                of_script.sort()
                del of_script[_PASSAGES_A_SCRIPT:]
    return {name: sorted(samples[name])[:_PASSAGES_A_SCRIPT] for name in sorted(samples)}


def _vectors(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Vectors]:
    """In the order of the ids, so that sums over them come out the same each time."""
    query = "SELECT vector FROM chunks WHERE id = ?"
    return {one: np.frombuffer(connection.execute(query, (one,)).fetchone()[0], "<f4") for one in ids}


def _sentences(name: str, sampled: Sequence[_Sampled]) -> Iterator[tuple[str, int]]:
    """The middle sentence of the first passages that have one long enough, with the passage's id."""
    given = 0
    for _, chunk_id, text in sampled:
        whole = [part.strip() for part in _SENTENCE_END.split(text)]
        long = [part for part in whole if len(part) >= _LONG_ENOUGH[name]]
        if len(long) < 2:  # a passage of one sentence finds itself, whatever the embedder
            continue
        yield long[len(long) // 2], chunk_id
        given += 1
        if given == _PROBES:
            return


def _reciprocal_ranks(asked: Sequence[_Question], blocks: Blocks) -> list[float]:
    """Of each question's own passage among all; of two an embedder cannot tell apart, either may be first."""
    if not asked:
        return []
    queries = np.stack([question.vector for question in asked])
    own = np.array([question.vector @ question.passage for question in asked])
    before, alike = np.zeros(len(asked), dtype=np.int64), np.full(len(asked), -1)
    for _, vectors in blocks():
        cosines = vectors @ queries.T
        before += np.sum(cosines > own + _TIE, axis=0)
        alike += np.sum(np.abs(cosines - own) <= _TIE, axis=0)
    return [float(rank) for rank in 1 / (1 + before + np.maximum(alike, 0) / 2)]


def _vector(spelled: str) -> Vectors:
    return np.frombuffer(bytes.fromhex(spelled), dtype="<f4").astype(np.float32)
