"""``ragla info --plan``: what many more documents would take."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ragla.errors import UsageError
from ragla.plan import FILE_BYTES, MOST, Range, documents_of, plan
from ragla.render_plan import _BYTES, _NUMBERS, _TIMES, ranged
from ragla.retrieve.corpus_figures import CorpusFigures
from ragla.retrieve.pace import Pace
from tests.cli.tiny_world import Ragla, World, document

FIGURES = CorpusFigures(
    documents=10_000, passages=50_000, spread=5.0, database_bytes=(200_000_000, 200_050_000), dimension=384,
    pace=Pace(50_000, 1_000.0),
)  # fmt: skip
ROOMY = 1 << 20  # MiB


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("1", 1), ("10000000", 10**7), ("10,000,000", 10**7), ("10_000_000", 10**7), (" 10M ", 10**7),
        ("10 m", 10**7), ("2.5k", 2_500), ("1e7", 10**7), ("1B", 10**9), ("1g", 10**9), ("1000B", MOST),
        ("1T", MOST),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text: str, documents: int) -> None:
    assert documents_of(text) == documents


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "ten",
        "1e30",
        "1e999",
        "1001B",
        "2T",
        "2.5",
        "0.0001k",
        "nan",
        "inf",
        "1M0",
        "１０",
        "--json",
        "1 0",
    ],
)
def test_what_is_no_number_of_documents_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="no number of documents") as caught:
        documents_of(text)
    assert "\n" not in str(caught.value)


def test_everything_grows_with_the_documents() -> None:
    one, ten = plan(10**6, FIGURES, ROOMY), plan(10**7, FIGURES, ROOMY)
    assert one.passages.low < 5 * 10**6 < one.passages.high
    for name in ("passages", "database", "disk", "seconds"):
        assert getattr(ten, name).low == pytest.approx(10 * getattr(one, name).low)
        assert getattr(one, name).low < getattr(one, name).high
    # 4 kB of the database a passage, and a vector of 384 numbers
    assert one.database.low < 5e6 * 4_000 < one.database.high
    assert one.search_memory.low < 5e6 * (4 * 384 + 8) < one.search_memory.high
    assert one.seconds is not None
    assert one.seconds.low < 5e6 / 50 < one.seconds.high


def test_the_fewer_documents_were_counted_the_wider_the_range() -> None:
    def width(documents: int, spread: float) -> float:
        figures = CorpusFigures(documents, 5 * documents, spread, (10**6, 2 * 10**6), 384, None)
        found = plan(10**6, figures, ROOMY).passages_a_document
        return found.high / found.low

    assert width(1, 0.0) > width(4, 0.0) > width(10_000, 0.0) > 1
    assert width(10_000, 50.0) > width(10_000, 5.0)
    assert math.isfinite(width(1, 0.0))


@pytest.mark.parametrize(
    ("documents", "free", "store", "factory"),
    [
        (10_000, ROOMY, "faiss", "Flat"),
        (10**6, ROOMY, "faiss", "IVF8192,Flat"),
        (10**6, 20_000, "faiss", "IVF8192,SQ8"),
        (10**6, 2_000, "milvus", None),
        (10**8, 1 << 24, "milvus", None),
    ],
)
def test_the_store_suits_size_and_memory(
    documents: int, free: float, store: str, factory: str | None
) -> None:
    found = plan(documents, FIGURES, free)
    assert (found.store, found.factory) == (store, factory)
    assert found.store_reason
    builds = factory not in (None, "Flat")  # a flat file is written as the vectors come
    assert (found.index_memory.low > FILE_BYTES * documents) == builds


def test_more_machines_are_advised_where_one_takes_days_and_none_without_a_pace() -> None:
    assert plan(10**5, FIGURES, ROOMY).indexing == "local"
    long = plan(10**7, FIGURES, ROOMY)
    assert long.indexing == "ray"
    assert long.seconds is not None
    assert long.machines == math.ceil(long.seconds.high / 86_400)
    unknown = plan(10**7, CorpusFigures(10, 50, 1.0, (10**6, 10**6), 384, None), ROOMY)
    assert (unknown.seconds, unknown.machines, unknown.indexing) == (None, None, "unknown")
    assert "--measure" in unknown.indexing_reason


@pytest.mark.parametrize(
    ("low", "high", "scales", "text"),
    [
        (42e6, 47.3e6, _NUMBERS, "42 – 47 million"),
        (9e5, 1.1e6, _BYTES, "900 kB – 1.1 MB"),
        (1e9, 1.01e9, _BYTES, "1 GB"),
        (3e6, 8e8, _TIMES, "35 days – 25 years"),
        (4.5, 5.25, _NUMBERS, "4.5 – 5.2"),
        (0, 0, _BYTES, "0 bytes"),
        (5.7e15, 9e18, _BYTES, "5.7 – 9,000 PB"),
    ],
)
def test_ranges_are_read_at_a_glance(
    low: float, high: float, scales: tuple[tuple[float, str]], text: str
) -> None:
    assert ranged(Range(low, high), scales) == text


def test_a_plan_in_words_and_as_json(ragla: Ragla, world: World) -> None:
    told = ragla("info", "--plan", "10M", *world.flags)
    assert told.exit_code == 0, told.output
    assert told.stderr == ""
    assert told.stdout.startswith("10,000,000 documents like the 4 of ")
    found = document(ragla("info", "--plan", "10M", *world.flags, "--json"))
    assert found["schema"] == "ragla.plan/1"
    assert found["passages"]["low"] < found["passages"]["high"]
    assert found["seconds"] is None  # four documents tell nothing of it
    measured = document(ragla("info", "--plan", "10M", "--measure", *world.flags, "--json"))
    assert measured["seconds"]["low"] > 0
    assert measured["measured"]["pace"]["is_trial"]


def test_a_long_run_notes_its_pace(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    chapters = "".join(
        f"# Chapter {number}\n\nHotels in Paris are {number} euros.\n\n" for number in range(70)
    )
    (docs / "book.md").write_text(chapters, encoding="utf-8")
    flags = ["--index", index, "--profile", world.profile]
    assert ragla("index", docs, *flags).exit_code == 0
    pace = document(ragla("info", "--plan", "1k", *flags, "--json"))["measured"]["pace"]
    assert pace["passages"] == 70
    assert not pace["is_trial"]
    (docs / "note.md").write_text("Boats.\n", encoding="utf-8")
    assert ragla("index", docs, *flags).exit_code == 0  # too little to tell
    assert document(ragla("info", "--plan", "1k", *flags, "--json"))["measured"]["pace"] == pace
    assert " passages/s, as the last run took " in ragla("info", "--plan", "1k", *flags).stdout


@pytest.mark.parametrize("text", ["0", "-1", "ten", "1e30", "\x1b[31m7"])
def test_an_absurd_number_ends_with_the_command(ragla: Ragla, world: World, text: str) -> None:
    result = ragla("info", f"--plan={text}", *world.flags)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "ragla info --plan 10M" in result.stderr
    assert "\x1b" not in result.stderr


def test_an_index_without_a_passage_plans_nothing(ragla: Ragla, world: World, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    flags = ["--index", tmp_path / "index", "--profile", world.profile]
    assert ragla("index", tmp_path / "docs", *flags).exit_code == 0
    result = ragla("info", "--plan", "1M", *flags)
    assert result.exit_code == 3
    assert "no passage to plan from" in result.stderr


def test_a_plan_lists_no_skipped_files(ragla: Ragla, world: World) -> None:
    result = ragla("info", "--plan", "1M", "--skipped", *world.flags)
    assert result.exit_code == 2
    assert "--plan and --skipped exclude each other" in result.stderr
