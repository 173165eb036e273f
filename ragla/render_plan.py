"""What ``ragla info --plan`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ragla.render import counted, one_line
from ragla.render_info import LABEL

if TYPE_CHECKING:
    from ragla.plan import Plan, Range
    from ragla.retrieve.pace import Pace

_BYTES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
_NUMBERS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1.0, ""))
_TIMES = (
    (365.25 * 86_400, "years"),
    (86_400.0, "days"),
    (3600.0, "hours"),
    (60.0, "minutes"),
    (1.0, "seconds"),
)


def plan_lines(found: Plan, index: Path) -> Iterable[Text]:
    """A plan, each figure with what it rests on."""
    figures = found.figures
    yield Text(
        f"{found.documents:,} documents like the {figures.documents:,} of {one_line(str(index))}",
        style="bold",
    )
    each = ranged(found.passages_a_document, _NUMBERS)
    rests = (
        f"{each} a document, as {counted(figures.documents, 'document')} with {figures.passages:,} tell it"
    )
    yield _line("passages", ranged(found.passages, _NUMBERS), rests)
    yield _line(
        "disk",
        ranged(found.disk, _BYTES),
        f"database {ranged(found.database, _BYTES)} at {ranged(found.database_a_passage, _BYTES)} a passage, "
        f"vectors {ranged(found.vectors, _BYTES)} at {found.vector_bytes:,} bytes; the most is with the "
        "index of before",
    )
    vectors = "the vectors" if found.factory else "the vectors, on the server"
    yield _line("memory", ranged(found.search_memory, _BYTES), f"to search: {vectors}; the models come to it")
    yield _line(
        "", ranged(found.index_memory, _BYTES), "to index: what is known of each file" + _built(found)
    )
    if found.seconds is None:
        yield _line("time", "unknown", found.indexing_reason)
    else:
        yield _line("time", ranged(found.seconds, _TIMES), f"of this machine: {_pace(figures.pace)}")
    store = (
        f"FAISS, -s retrieve.faiss_index={found.factory}"
        if found.factory
        else "Milvus, ragla index --to milvus://HOST:19530/NAME"
    )
    yield _line("store", store, found.store_reason)
    if found.seconds is not None:
        yield _line("indexing", "Ray" if found.indexing == "ray" else "this machine", found.indexing_reason)


def plan_json(found: Plan, index: Path) -> dict[str, Any]:
    """``ragla info --plan N --json``."""
    figures = found.figures
    return {
        "schema": "ragla.plan/1",
        "index": str(index),
        "documents": found.documents,
        "measured": {
            "documents": figures.documents,
            "passages": figures.passages,
            "dimension": figures.dimension,
            "pace": asdict(figures.pace) if figures.pace else None,
        },
        "passages_a_document": asdict(found.passages_a_document),
        "passages": asdict(found.passages),
        "bytes": {
            "database_a_passage": asdict(found.database_a_passage),
            "vector": found.vector_bytes,
            "database": asdict(found.database),
            "vectors": asdict(found.vectors),
            "disk": asdict(found.disk),
            "search_memory": asdict(found.search_memory),
            "index_memory": asdict(found.index_memory),
        },
        "seconds": asdict(found.seconds) if found.seconds else None,
        "machines": found.machines,
        "store": {"name": found.store, "factory": found.factory, "reason": found.store_reason},
        "indexing": {"name": found.indexing, "reason": found.indexing_reason},
    }


def ranged(found: Range, scales: Sequence[tuple[float, str]]) -> str:
    """``42 – 47 million``, ``900 kB – 1.1 MB``; one number where both ends look alike."""
    low, low_unit = _scaled(found.low, scales)
    high, high_unit = _scaled(found.high, scales)
    if (low, low_unit) == (high, high_unit):
        return f"{low} {low_unit}".strip()
    if low_unit == high_unit:
        return f"{low} – {high} {high_unit}".strip()
    return f"{low} {low_unit}".strip() + " – " + f"{high} {high_unit}".strip()


def _scaled(number: float, scales: Sequence[tuple[float, str]]) -> tuple[str, str]:
    """Two digits that count, in the largest unit of which there is one."""
    scale, unit = next((pair for pair in scales if number >= pair[0]), scales[-1])
    part = number / scale
    if part >= 10:
        digits = 10 ** max(0, len(str(int(part))) - 2)
        return f"{round(part / digits) * digits:,}", unit
    return f"{part:.1f}".removesuffix(".0"), unit


def _built(found: Plan) -> str:
    return ", and the vectors while FAISS builds" if found.factory not in (None, "Flat") else ""


def _pace(pace: Pace | None) -> str:
    assert pace is not None
    per_second = pace.passages / max(pace.seconds, 1e-9)
    rate = f"{per_second:,.{0 if per_second >= 10 else 1}f} passages/s"
    if pace.is_trial:
        return f"{rate}, embedding alone, of {pace.passages:,} just now"
    return f"{rate}, as the last run took {pace.seconds:,.0f} s for {pace.passages:,}"


def _line(label: str, figure: str, rests: str) -> Text:
    line = Text(f"  {label:<{LABEL}}", style="dim")
    line.append(one_line(figure), style="not dim")
    line.append(one_line(f"  {rests}"), style="dim")
    return line
