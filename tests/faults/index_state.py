"""What an index holds, whatever the order it was made in, and whether it is whole."""

from __future__ import annotations

import hashlib
import re
from contextlib import closing
from pathlib import Path

from ragla.retrieve.check import check_index, content_hash
from ragla.retrieve.store import Store

_FILES = "SELECT id, root, path, absolute, sha256, status, reason FROM files"
_CHUNKS = """
SELECT start, "end", first_line, last_line, title, page, vector, body
FROM chunks LEFT JOIN words ON words.rowid = chunks.id WHERE document_id = ? ORDER BY start, "end"
"""


def content(index_dir: Path) -> tuple[str, str]:
    """What ragla says is indexed, and, told from outside, all that a search can depend on.

    Files, texts, passages, vectors, words, and how the embedder reads the corpus; each as a digest.
    """
    lines = []
    with closing(Store.read(index_dir)) as store, store.transaction("DEFERRED") as connection:
        for number, *file in connection.execute(_FILES):
            text = connection.execute("SELECT text FROM documents WHERE id = ?", (number,)).fetchone()
            lines.append(repr((file, text, connection.execute(_CHUNKS, (number,)).fetchall())))
        rows = connection.execute("SELECT value FROM meta WHERE key = 'reliability'")
        lines += [repr(row) for row in rows]
    return content_hash(index_dir), hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def check_clean(index_dir: Path) -> None:
    """That an index is whole."""
    assert check_index(index_dir) == []


def is_one_line_with_a_command(error: tuple[str, str, str | None] | None) -> bool:
    """Whether an error is what a user is to see: one line, and what mends it."""
    assert error is not None
    _, message, hint = error
    return (
        bool(hint)
        and "\n" not in message
        and re.search(r"ragla |again|another|space", hint or "") is not None
    )
