"""Digests of rows: what tells a row that a disk has changed from the row that was written.

SQLite's own checks look at its pages, not at what stands in them: a flipped bit inside a text is no error
to it. A row that does not match its digest is never shown; ``ragla doctor --repair`` has its file read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

_BYTES = 16
# Escapes whatever is not ASCII, so that no version of Unicode or Python spells a value otherwise.
_spelled = json.JSONEncoder(separators=(",", ":")).encode


def row_digest(values: Iterable[object]) -> bytes:
    """Of texts, numbers and None, in order; empty, which no row has, for values of any other kind.

    A damaged row may hold bytes where a text was.
    """
    try:
        spelled = _spelled(list(values))
    except (TypeError, ValueError):
        return b""
    return blake2b(spelled.encode("ascii"), digest_size=_BYTES).digest()


def passage_digest(
    chunk_id: int, file: tuple[str, str, str, str | None], place: tuple[int, int, int, int, str, int | None],
    text: str,
) -> bytes:  # fmt: skip
    """Of all that is shown of a passage.

    ``file``: absolute, root, path, sha256. ``place``: start, end, first line, last line, title, page.
    """
    return row_digest((chunk_id, *file, *place, text))


def document_digest(absolute: str, sha256: str | None, passages: int, text: str) -> bytes:
    """Of a whole text, of whose it is, and of how many passages it was cut into."""
    try:
        raw = text.encode("utf-8", "surrogatepass")
    except AttributeError:  # a damaged row: not a text at all
        return b""
    digest = blake2b(row_digest((absolute, sha256, passages)), digest_size=_BYTES)
    digest.update(raw)
    return digest.digest()


def vector_digest(vector: bytes) -> bytes:
    """Of a stored vector."""
    return blake2b(vector, digest_size=_BYTES // 2).digest() if isinstance(vector, bytes) else b""
