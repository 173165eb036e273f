"""Rows of the file of earlier answers, believed only where each value is what it must be."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite

from ragla.trie.answers import packed

Document = tuple[str, str]
"""A document's path and the digest of its content."""


@dataclass(frozen=True)
class StoredAnswer:
    """An answer as it is kept. ``uses`` and ``last_used`` as in ``KeptAnswer``.

    ``tokenizer``: the key of the one its ids are of.
    """

    name: str
    token_ids: tuple[int, ...]
    uses: int = 0
    last_used: float = 0.0
    documents: tuple[Document, ...] = ()
    tokenizer: str = ""


def read_answer(
    tokenizer: object,
    name: object,
    token_ids: object,
    checksum: object,
    uses: object,
    last_used: object,
    *,
    vocabulary: int,
    documents: tuple[Document, ...],
) -> StoredAnswer | None:
    """An answer from a row, if each of its values is what it must be."""
    ids = read_ids(token_ids, vocabulary)
    if ids is None or sha256(packed(ids)).digest() != checksum:
        return None
    if not isinstance(tokenizer, str) or not isinstance(name, str):
        return None
    if type(uses) is not int or uses < 0:
        return None
    if not isinstance(last_used, float) or not isfinite(last_used):
        return None
    return StoredAnswer(name, ids, uses, last_used, documents, tokenizer)


def read_ids(blob: object, vocabulary: int) -> tuple[int, ...] | None:
    """Token ids from a blob; None unless there is one and all are ids of the vocabulary."""
    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return None
    ids = struct.unpack(f"<{len(blob) // 4}i", blob)
    return ids if min(ids) >= 0 and max(ids) < vocabulary else None


def is_id(token: object, vocabulary: int) -> bool:
    """Whether a value is an id of the vocabulary."""
    return type(token) is int and 0 <= token < vocabulary


def read_numbers(text: object) -> list[float] | None:
    """Finite floats from a JSON list; None for anything else."""
    try:
        numbers = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(numbers, list) or not all(type(number) is float for number in numbers):
        return None
    return numbers if all(isfinite(number) for number in numbers) else None
