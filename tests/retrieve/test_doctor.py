"""What is found wrong with an index, that a whole one is found whole, and what a repair mends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.errors import IndexLocked, IndexUnusable
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve import update as update_module
from ragla.retrieve.check import check_index, checks, content_hash
from ragla.retrieve.events import BatchStored, Event
from ragla.retrieve.layout import current_database, generations, vectors_of, writing
from ragla.retrieve.repair import repair
from ragla.retrieve.selection import Selection

Index = Callable[..., IndexReport]
Found = Callable[[str], list[str]]


pytestmark = pytest.mark.usefixtures("no_tick")


def change(place: Path, *statements: str) -> None:
    """Change a database behind ragla's back."""
    database = current_database(place)
    assert database
    with closing(sqlite3.connect(database)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_whole_index_has_no_problem(index: Index, folder: Path, place: Path) -> None:
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 3)
    index()
    assert check_index(place) == []
    assert not any(check.waiting for check in checks(place))
    assert list(repair(place)) == []


def test_no_index_is_a_problem_with_its_command(tmp_path: Path) -> None:
    (problem,) = check_index(tmp_path)
    assert problem.mend == f"ragla index FOLDER --index {tmp_path}"
    with pytest.raises(IndexUnusable):
        list(repair(tmp_path / "nowhere"))


def test_while_another_writes_nothing_is_said(index: Index, place: Path) -> None:
    index()
    with writing(place):
        for attempt in (lambda: check_index(place), lambda: list(repair(place))):
            with pytest.raises(IndexLocked):
                attempt()


def test_the_content_hash_is_that_of_the_content_alone(
    index: Index, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    made = content_hash(tmp_path / "index")
    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)
    travel = folder / "travel.md"
    text = travel.read_text(encoding="utf-8")
    other = tmp_path / "other"
    travel.write_text("# Nothing\n", encoding="utf-8")
    index(index_dir=other)
    assert content_hash(other) != made
    travel.write_text(text, encoding="utf-8")
    index(index_dir=other)
    assert content_hash(other) == made


# (what is changed, the check that sees it, whether the content is whole again without a run)
ROWS = [
    ("UPDATE documents SET text = replace(text, 'second', 'secons')", "passages", False),
    ("UPDATE documents SET text = CAST(text AS BLOB) WHERE id = 1", "passages", False),
    ("UPDATE chunks SET first_line = first_line + 1 WHERE id = 1", "passages", False),
    ("UPDATE chunks SET title = 'Trovel' WHERE id = 1", "passages", False),
    ("UPDATE chunks SET document_id = 2 WHERE id = 1", "passages", False),
    ("UPDATE chunks SET vector = zeroblob(256) WHERE id = 2", "passages", False),
    ("UPDATE chunks SET vector = x'00' WHERE id = 2", "passages", False),
    ("UPDATE files SET path = 'trovel.md' WHERE id = 1", "files", False),
    ("UPDATE files SET mtime_ns = 1 WHERE id = 1", "files", False),
    ("DELETE FROM documents WHERE id = 1", "files", False),
    ("DELETE FROM words WHERE rowid = 1", "words", True),
    ("UPDATE words_content SET c0 = 'trovel' WHERE id = 1", "words", True),
    ("UPDATE words_data SET block = zeroblob(length(block)) WHERE id > 10", "words", True),
    ("UPDATE meta SET value = '7' WHERE key = 'generation'", "database", True),
    ("UPDATE meta SET key = 'measurad' WHERE key = 'measured'", "database", True),
    ("UPDATE meta SET value = value || ' ' WHERE key = 'reliability'", "database", True),
]


@pytest.mark.parametrize(("statement", "check", "is_whole"), ROWS, ids=[row[0] for row in ROWS])
def test_what_a_disk_changed_is_found_and_mended(
    index: Index, place: Path, statement: str, check: str, is_whole: bool
) -> None:
    index()
    whole = content_hash(place)
    change(place, statement)
    found = {one.name: one.problems for one in checks(place) if one.problems}
    assert check in found
    mends = {problem.mend for problems in found.values() for problem in problems}
    assert mends == {f"ragla doctor --repair --index {place}"}
    assert list(repair(place))
    assert check_index(place) == []
    if is_whole:
        assert content_hash(place) == whole
    else:
        assert index().indexed >= 1
    index()
    assert content_hash(place) == whole
    assert not any(one.waiting for one in checks(place))


@pytest.mark.parametrize("statement", [row[0] for row in ROWS if row[1] == "passages"])
def test_a_damaged_passage_is_never_shown(
    index: Index, place: Path, embedder: HashingEmbedder, statement: str
) -> None:
    index()
    change(place, statement)
    retriever = Retriever.open(place, embedder)
    with pytest.raises(IndexUnusable, match="damaged") as caught:
        retriever.search("trains in second class", 10)
    retriever.close()
    assert "ragla doctor --repair" in str(caught.value.hint)


def test_what_is_to_be_read_again_is_said(index: Index, place: Path, found: Found) -> None:
    index()
    change(place, "UPDATE chunks SET title = 'Trovel' WHERE id = 1")
    (done,) = [line for line in repair(place) if "took out" in line]
    assert "read" in done
    (waiting,) = [problem for check in checks(place) for problem in check.waiting if check.name == "files"]
    assert waiting.mend == f"ragla index --index {place}"
    assert index().indexed == 1
    assert len(found("trains second boats pier 差旅报销")) == 3


def test_what_was_wanted_is_said_to_be_forgotten(index: Index, place: Path) -> None:
    index(selection=Selection(exclude=("guides/",)))
    change(place, "UPDATE meta SET value = replace(value, 'guides', 'guidos') WHERE key = 'selections'")
    with pytest.raises(IndexUnusable, match="selections"):
        index()
    assert any("--exclude" in line for line in repair(place))
    assert index().indexed == 1


def test_what_cannot_be_known_again_is_left_to_a_rebuild(index: Index, folder: Path, place: Path) -> None:
    index()
    change(place, "UPDATE meta SET value = replace(value, '64', '65') WHERE key = 'fingerprint'")
    list(repair(place))
    (check,) = [check for check in checks(place, was_repaired=True) if check.problems]
    assert check.problems[0].mend == f"ragla index --rebuild {folder} --index {place}" or "FOLDER" in (
        check.problems[0].mend
    )
    report = index(rebuild=True)
    assert report.indexed == 3
    assert any("--exclude" in reason for _, reason in report.remarks)
    assert check_index(place) == []


def test_lost_pages_are_left_to_the_index_of_before(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()
    first = content_hash(place)
    (folder / "zebra.txt").write_text("A zebra.", encoding="utf-8")
    index()
    database = current_database(place)
    assert database
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2)
    problems = check_index(place)
    assert {problem.mend for problem in problems} >= {f"ragla index --rollback --index {place}"}
    from ragla.retrieve.generations import rollback

    rollback(place)
    assert content_hash(place) == first


@pytest.mark.parametrize("how", ["cut", "gone", "changed"])
def test_the_file_of_vectors_is_written_anew(index: Index, place: Path, found: Found, how: str) -> None:
    index()
    database = current_database(place)
    assert database
    path = vectors_of(database)
    raw = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(raw[:-5] if how == "cut" else raw[:-5] + b"zebra")
    assert [check.name for check in checks(place) if check.problems] == ["vectors"]
    assert list(repair(place)) == ["wrote the file of vectors anew"]
    assert path.read_bytes() == raw
    assert check_index(place) == []
    assert found("boats pier")


def test_an_index_of_the_database_is_made_anew(index: Index, place: Path) -> None:
    index()
    whole = content_hash(place)
    change(
        place,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE INDEX chunks_of_document ON chunks(page)' "
        "WHERE name = 'chunks_of_document'",
    )
    (problem,) = check_index(place)[:1]
    assert problem.mend == f"ragla doctor --repair --index {place}"
    assert list(repair(place)) == ["made the database's indexes anew"]
    assert check_index(place) == []
    assert content_hash(place) == whole


def test_where_nothing_says_what_is_current_the_latest_is(index: Index, folder: Path, place: Path) -> None:
    index()
    (folder / "zebra.txt").write_text("A zebra.", encoding="utf-8")
    index()
    kept = generations(place)
    (place / "current").write_text("passages-1.sqlit", encoding="ascii")
    (problem,) = check_index(place)
    assert problem.mend == f"ragla doctor --repair --index {place}"
    assert len(list(repair(place))) == 1
    assert generations(place) == kept
    assert check_index(place) == []


def test_what_interrupted_runs_leave_is_no_damage(
    index: Index, folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index()

    def interrupt(event: Event) -> None:
        if isinstance(event, BatchStored):
            raise KeyboardInterrupt

    monkeypatch.setattr(update_module, "_BATCH_FILES", 1)
    (folder / "zebra.txt").write_text("A zebra.", encoding="utf-8")
    for more in ({"rebuild": True}, {}):
        with pytest.raises(KeyboardInterrupt):
            index(on_event=interrupt, **more)
    (place / "vectors-1.faiss.123.tmp").touch()
    assert check_index(place) == []
    waiting = {check.name for check in checks(place) if check.waiting}
    assert waiting == {"folder", "records", "vectors"}
    list(repair(place))
    assert {check.name for check in checks(place) if check.waiting} == {"records"}
    index()
    assert not any(check.waiting for check in checks(place))
