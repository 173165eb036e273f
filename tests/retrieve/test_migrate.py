"""An index of an earlier schema is brought to the present one; one of a later schema is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.errors import IndexUnusable
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve import migrate as migrate_module
from ragla.retrieve.check import check_index, content_hash
from ragla.retrieve.generations import rollback
from ragla.retrieve.layout import current_database
from ragla.retrieve.lexical import TOKENIZE
from ragla.retrieve.selection import Selection

Index = Callable[..., IndexReport]

# As the first version of ragla made it.
SCHEMA_1 = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    absolute TEXT NOT NULL UNIQUE, root TEXT NOT NULL, path TEXT NOT NULL,
    size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, read_ns INTEGER,
    sha256 TEXT, status TEXT NOT NULL CHECK (status IN ('indexed', 'skipped')), reason TEXT
);
CREATE TABLE documents (id INTEGER PRIMARY KEY REFERENCES files(id) ON DELETE CASCADE, text TEXT NOT NULL);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL,
    title TEXT NOT NULL, page INTEGER, vector BLOB NOT NULL
);
CREATE INDEX chunks_of_document ON chunks(document_id);
CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZE}');
"""
COLUMNS = {
    "meta": "key, value",
    "files": "id, absolute, root, path, size, mtime_ns, ctime_ns, inode, read_ns, sha256, status, reason",
    "documents": "id, text",
    "chunks": 'id, document_id, start, "end", first_line, last_line, title, page, vector',
}


pytestmark = pytest.mark.usefixtures("no_tick")


@pytest.fixture
def old(index: Index, folder: Path, tmp_path: Path) -> Path:
    """An index folder as the first version left it."""
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 3)
    index(selection=Selection(exclude=("drafts/",)))
    database = current_database(tmp_path / "index")
    assert database
    new = database.rename(tmp_path / "new.sqlite")
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(SCHEMA_1)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("ATTACH ? AS new", (str(new),))
        for table, columns in COLUMNS.items():
            connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM new.{table}")
        connection.execute("INSERT INTO words (rowid, body) SELECT rowid, body FROM new.words")
        connection.execute("DELETE FROM meta WHERE key IN ('roots', 'changed_at', 'measured')")
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")
        connection.commit()
    (tmp_path / "index" / "current").write_text(database.name, encoding="ascii")
    return tmp_path / "index"


def test_the_next_run_brings_it_up_without_reading_anything(
    index: Index, old: Path, embedder: HashingEmbedder, tmp_path: Path, found: Callable[[str], list[str]]
) -> None:
    embedder.texts.clear()
    report = index()
    assert (report.indexed, report.unchanged) == (0, 3)
    assert embedder.texts == []
    assert check_index(old) == []
    assert found("boats at the pier")
    index(index_dir=tmp_path / "fresh", selection=Selection(exclude=("drafts/",)))
    assert content_hash(old) == content_hash(tmp_path / "fresh")


def test_a_rebuild_keeps_what_was_wanted_and_the_index_of_before(
    index: Index, old: Path, folder: Path, found: Callable[[str], list[str]]
) -> None:
    (folder / "drafts").mkdir()
    (folder / "drafts" / "zebra.md").write_text("A zebra.", encoding="utf-8")
    report = index(embedder=HashingEmbedder("other"), rebuild=True)
    assert (report.indexed, report.remarks) == (3, ())
    rollback(old)
    assert check_index(old) == []
    assert found("boats at the pier")


def test_a_reader_is_told_the_command(old: Path, embedder: HashingEmbedder) -> None:
    with pytest.raises(IndexUnusable, match="earlier ragla") as caught:
        Retriever.open(old, embedder)
    assert caught.value.hint == "ragla index"
    (problem,) = check_index(old)
    assert problem.mend == f"ragla index --index {old}"


def test_other_settings_are_said_before_anything_is_changed(index: Index, old: Path) -> None:
    before = {path.name: path.read_bytes() for path in old.glob("passages-*.sqlite")}
    with pytest.raises(IndexUnusable, match="made with"):
        index(embedder=HashingEmbedder("other"))
    assert {path.name: path.read_bytes() for path in old.glob("passages-*.sqlite")} == before


def test_an_interrupt_leaves_the_old_one_whole(
    index: Index, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(connection: sqlite3.Connection) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrate_module, "_add_digests", interrupt)
        with pytest.raises(KeyboardInterrupt):
            index()
    assert index().unchanged == 3
    assert check_index(old) == []


@pytest.mark.parametrize(
    ("version", "says"), [("3", "newer ragla"), ("0", "earlier ragla"), ("x", "damaged")]
)
def test_any_other_version_is_refused(index: Index, tmp_path: Path, version: str, says: str) -> None:
    index()
    database = current_database(tmp_path / "index")
    assert database
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
        connection.commit()
    for attempt in (index, lambda: Retriever.open(tmp_path / "index", HashingEmbedder())):
        with pytest.raises(IndexUnusable, match=says) as caught:
            attempt()
        assert "ragla index --rebuild FOLDER" in str(caught.value.hint)
    assert index(rebuild=True).indexed == 3
