"""What ``ragla info`` shows of an index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ragla.render import counted, one_line

if TYPE_CHECKING:
    from ragla.retrieve.advice import Advice
    from ragla.retrieve.dense_trial import Trial
    from ragla.retrieve.selection import Selection
    from ragla.retrieve.statistics import DenseStatistics, IndexStatistics

TYPES_SHOWN = 12
REASONS_SHOWN = 8
LABEL = 10  # columns


def info_lines(
    found: IndexStatistics, advice: Advice, trial: Trial | None, *, skipped: bool
) -> Iterable[Text]:
    """An index on a few lines; ``skipped``: each skipped file and why, behind them."""
    files = counted(found.indexed_files, "document")
    changed = found.changed_at.astimezone().strftime("%Y-%m-%d %H:%M") if found.changed_at else "never"
    yield Text(f"{one_line(str(found.index))}: {files}, {counted(found.passages, 'passage')}", style="bold")
    for folder in found.folders:
        parts = [counted(folder.indexed, "document"), *_chosen(folder.selection)]
        parts += [] if folder.is_there else ["no longer there"]
        style = "" if folder.is_there else "yellow"
        yield _line("folder", f"{folder.folder}  {', '.join(parts)}", style)
    yield _line("types", _types(found) or "none")
    if found.reasons:
        yield _line("skipped", _reasons(found), "yellow")
    made = found.made_with
    yield _line(
        "made with",
        f"{made.get('embedder', '?')}, {made.get('dimension', '?')} dimensions, revision "
        f"{made.get('revision', '?')}; passages of {made.get('chunk_tokens', '?')} tokens at most, "
        f"{made.get('chunk_overlap', '?')} shared",
    )
    if found.is_outdated:
        yield _line("", "an earlier ragla read the documents: ragla index --rebuild FOLDER", "yellow")
    yield _line("vectors", _dense(found.dense, found.passages), "" if found.dense.is_current else "yellow")
    if found.store == "faiss":
        yield _line("", _advice(found.dense, advice))
    if trial is not None:
        yield _line("tried", _trial(trial))
    if found.store == "faiss":
        sizes = ", ".join(f"{part} {megabytes(size)}" for part, size in found.bytes.items() if size)
        yield _line("on disk", f"{megabytes(sum(found.bytes.values()))}: {sizes}")
    yield _line("changed", f"{changed}, generation {found.generation}, schema {found.schema}")
    if skipped:
        for path, reason in found.skipped:
            yield Text(f"skipped: {one_line(path)}: {one_line(reason)}", style="yellow")


def info_json(found: IndexStatistics, advice: Advice, trial: Trial | None) -> dict[str, Any]:
    """``ragla info --json``; every skipped file is in it."""
    return {
        "schema": "ragla.info/1",
        "index": str(found.index),
        "bytes": {"total": sum(found.bytes.values()), **found.bytes},
        "index_schema": found.schema,
        "generation": found.generation,
        "changed_at": found.changed_at.isoformat(timespec="seconds") if found.changed_at else None,
        "made_with": found.made_with,
        "outdated": found.is_outdated,
        "folders": [asdict(folder) for folder in found.folders],
        "documents": found.indexed_files,
        "passages": found.passages,
        "types": [asdict(one) for one in found.types],
        "reasons": found.reasons,
        "skipped": [{"path": path, "reason": reason} for path, reason in found.skipped],
        "dense": {
            **(asdict(found.dense.record) if found.dense.record else {}),
            "bytes": found.dense.bytes,
            "current": found.dense.is_current,
        },
        "advice": asdict(advice),
        "trial": asdict(trial) if trial else None,
    }


def megabytes(size: int) -> str:
    """``12 kB``, ``3.4 MB``, ``1.2 GB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"


def _line(label: str, text: str, style: str = "") -> Text:
    line = Text(f"  {label:<{LABEL}}", style="dim")
    line.append(one_line(text), style=style or "not dim")
    return line


def _types(found: IndexStatistics) -> str:
    there = [one for one in found.types if one.indexed]
    shown = [
        f"{one.suffix or 'without a suffix'} {one.indexed} ({counted(one.passages, 'passage')})"
        for one in there[:TYPES_SHOWN]
    ]
    return ", ".join(shown) + (f", and {len(there) - TYPES_SHOWN} more" if len(there) > TYPES_SHOWN else "")


def _reasons(found: IndexStatistics) -> str:
    shown = [f"{count} × {reason}" for reason, count in list(found.reasons.items())[:REASONS_SHOWN]]
    more = len(found.reasons) - REASONS_SHOWN
    return f"{len(found.skipped)}: {'; '.join(shown)}" + (f"; and {more} more reasons" if more > 0 else "")


def _chosen(selection: Selection) -> list[str]:
    """The flags it was indexed with, and how much was taken out since."""
    return [
        *(f"--include '{pattern}'" for pattern in selection.include),
        *(f"--exclude '{pattern}'" for pattern in selection.exclude),
        *(["--hidden"] if selection.hidden else []),
        *([] if selection.ignore else ["--no-ignore"]),
        *([f"{counted(len(selection.removed), 'path')} taken out"] if selection.removed else []),
    ]


def _dense(dense: DenseStatistics, passages: int) -> str:
    if dense.record is None:
        return "not written yet: ragla index"
    if not dense.is_current:
        return f"{dense.record.factory}, older than the passages: ragla index"
    size = f", {megabytes(dense.bytes)}" if dense.bytes else ""  # which Milvus does not say
    return f"{dense.record.factory}, {counted(passages, 'passage')}{size}"


def _advice(dense: DenseStatistics, advice: Advice) -> str:
    present = dense.record.factory if dense.record else "Flat"
    if present == advice.factory:
        return f"{present} is {advice.reason}" if advice.factory == "Flat" else advice.reason
    return f"better: -s retrieve.faiss_index={advice.factory}: {advice.reason}"


def _trial(trial: Trial) -> str:
    set_to = f" with {trial.parameters}" if trial.parameters else ""
    return (
        f"{trial.factory}{set_to} on {trial.sample:,} of {trial.passages:,} passages: recall@10 "
        f"{trial.recall:.3f}, {trial.ms:.2f} ms a search (Flat 1.000, {trial.flat_ms:.2f} ms), "
        f"built in {trial.seconds:.1f} s"
    )
