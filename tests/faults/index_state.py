"""What an index holds, whatever the order it was made in, and whether it is whole."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from ragla.retrieve.layout import current_database

_FILES = "SELECT id, root, path, absolute, sha256, status, reason FROM files"
_CHUNKS = """
SELECT start, "end", first_line, last_line, title, page, vector, body
FROM chunks LEFT JOIN words ON words.rowid = chunks.id WHERE document_id = ? ORDER BY start, "end"
"""


def content(index_dir: Path) -> str:
    """A digest of all that a search can depend on: files, texts, passages, vectors, words, readings."""
    database = current_database(index_dir)
    assert database is not None
    lines = []
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA query_only = ON")
        for number, *file in connection.execute(_FILES):
            text = connection.execute("SELECT text FROM documents WHERE id = ?", (number,)).fetchone()
            lines.append(repr((file, text, connection.execute(_CHUNKS, (number,)).fetchall())))
        rows = connection.execute("SELECT value FROM meta WHERE key IN ('reliability', 'selections')")
        lines += [repr(row) for row in rows]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def check_clean(index_dir: Path) -> None:
    """That an index is whole."""
    database = current_database(index_dir)
    assert database is not None
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.execute("INSERT INTO words(words) VALUES('integrity-check')")


def is_one_line_with_a_command(error: tuple[str, str, str | None] | None) -> bool:
    """Whether an error is what a user is to see: one line, and what mends it."""
    assert error is not None
    _, message, hint = error
    return (
        bool(hint)
        and "\n" not in message
        and re.search(r"ragla |again|another|space", hint or "") is not None
    )
