"""What the command line shows: lines and tables from results. It computes nothing and decides nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ragla.secrets import hide_setting

if TYPE_CHECKING:
    from ragla.models import ModelRow
    from ragla.profiles import LoadedProfile
    from ragla.retrieve import IndexReport
    from ragla.retrieve.passage import ScoredPassage

# control characters, and what reorders the text that follows it: overrides, embeddings, isolates
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]")
# what is not seen and means nothing to a reader, or hides a message for someone else
UNSEEN = re.compile(
    "[\xad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\U000e0000-\U000e0fff]"
)
# what a language needs inside a text, but a name only to look like another
DISGUISE = re.compile("[\t\u034f\u061c\u200c-\u200f\u2028\u2029]")
SKIPPED_SHOWN = 10


def safe(text: str) -> str:
    """Text from documents or a model, unable to control a terminal or to be read otherwise than it is."""
    return UNSEEN.sub("", CONTROL.sub("\ufffd", text))


def one_line(text: str) -> str:
    """The same, unable to pretend to be two lines: for paths, titles and reasons."""
    return " ".join(DISGUISE.sub("\ufffd", safe(UNSEEN.sub("\ufffd", text))).split("\n"))


def place(path: str, first_line: int, last_line: int) -> str:
    """``path:first-last``; ``path:line`` where it is one line."""
    return f"{path}:{first_line}" + (f"-{last_line}" if last_line != first_line else "")


def counted(count: int, noun: str) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_of(lines: Iterable[Text], most: int, style: str = "") -> Iterable[Text]:
    """The first ``most`` lines, and how many more there are."""
    every = list(lines)
    yield from every[:most]
    if len(every) > most:
        yield Text(f"  … and {len(every) - most} more; --json lists them all", style=style)


def passage_lines(number: int, found: ScoredPassage) -> Iterable[Text]:
    """A found passage: where, how well, and its text."""
    passage = found.passage
    head = Text(f"[{number}] ", style="cyan")
    head.append(one_line(place(passage.path, passage.first_line, passage.last_line)), style="bold")
    page = f"  page {passage.page}" if passage.page else ""
    head.append(
        f"{page}  score {found.score:.2f} (dense {found.dense:.2f}, lexical {found.lexical:.2f})", style="dim"
    )
    yield head
    if passage.title:
        yield Text(one_line(passage.title), style="italic")
    yield Text(safe(passage.text.strip()))
    for copy in found.copies:
        same = place(copy.path, copy.first_line, copy.last_line)
        yield Text(f"the same: {one_line(same)}", style="dim")


def passage_json(found: ScoredPassage) -> dict[str, Any]:
    """``ragla search --json``, one passage."""
    passage = found.passage
    return {
        "path": passage.path,
        "first_line": passage.first_line,
        "last_line": passage.last_line,
        "page": passage.page,
        "title": passage.title,
        "text": passage.text,
        "score": found.score,
        "dense": found.dense,
        "lexical": found.lexical,
        "copies": [
            {"path": copy.path, "first_line": copy.first_line, "last_line": copy.last_line}
            for copy in found.copies
        ],
    }


def index_lines(report: IndexReport, index: str) -> Iterable[Text]:
    """What an indexing run did, with the reasons for what it did not."""
    yield Text(
        f"{report.indexed} indexed, {report.unchanged} unchanged, {report.removed} removed, "
        f"{len(report.skipped)} skipped · {counted(report.total_passages, 'passage')} in {index} · "
        f"{report.seconds:.1f} s",
        style="bold",
    )
    if not report.total_passages:
        yield Text("  there is nothing in it to find: no document with text was found", style="yellow")
    for title, rows in (("skipped", report.skipped), ("note", report.remarks)):
        said = (f"  {title}: {one_line(path)}: {one_line(reason)}" for path, reason in rows)
        yield from first_of((Text(line, style="yellow") for line in said), SKIPPED_SHOWN, "yellow")


def index_json(report: IndexReport, index: str) -> dict[str, Any]:
    """``ragla index --json``."""
    return {
        "schema": "ragla.index/1",
        "index": index,
        "indexed": report.indexed,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "skipped": [{"path": path, "reason": reason} for path, reason in report.skipped],
        "remarks": [{"path": path, "reason": reason} for path, reason in report.remarks],
        "passages": report.passages,
        "total_passages": report.total_passages,
        "seconds": report.seconds,
    }


def models_lines(rows: Sequence[ModelRow]) -> Iterable[Text]:
    """``ragla models list`` where a table has no room: a name, and below it what there is to say."""
    for row in rows:
        yield Text(row.name, style="bold")
        state = Text(row.state, style="green" if row.state == "ready" else "dim")
        yield (
            Text("  ")
            .append_text(state)
            .append(f" · {row.kind} · {gigabytes(row.size)} · {row.licence}", "dim")
        )


def models_table(rows: Sequence[ModelRow]) -> Table:
    """``ragla models list``."""
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")  # a name that is cut is of no use
    for column in ("kind", "state", "size"):
        table.add_column(column, no_wrap=True, justify="right" if column == "size" else "left")
    table.add_column("licence", overflow="fold")
    for row in rows:
        style = "green" if row.state == "ready" else "dim"
        table.add_row(row.name, row.kind, Text(row.state, style=style), gigabytes(row.size), row.licence)
    return table


def models_json(rows: Sequence[ModelRow]) -> dict[str, Any]:
    """``ragla models list --json``."""
    listed = [
        {
            "name": row.name,
            "kind": row.kind,
            "licence": row.licence,
            "bytes": row.size,
            "state": row.state,
            "path": str(row.path) if row.path else None,
        }
        for row in rows
    ]
    return {"schema": "ragla.models/1", "models": listed}


def config_lines(loaded: LoadedProfile) -> Iterable[Text]:
    """Every setting, its value, and where the value came from."""
    values = setting_values(loaded)
    width = max(map(len, values))
    for key, value in values.items():
        line = Text(f"{key:<{width}}  ")
        origin = loaded.origins[key]
        line.append(one_line(as_yaml(value)), style="" if origin == "default" else "bold")
        line.append(f"  ({origin})", style="dim")
        yield line


def as_yaml(value: object) -> str:
    """A setting on one line, as a profile may say it."""
    import yaml

    form: dict[str, Any] = {"default_flow_style": True, "allow_unicode": True, "width": math.inf}
    plain: str = yaml.safe_dump(value, **form).removesuffix("...\n").rstrip("\n")
    if isinstance(value, str) and plain != value:  # quoted: in the one way that keeps every line on one
        plain = yaml.safe_dump(value, default_style='"', **form).rstrip("\n")
    return plain


def config_json(loaded: LoadedProfile) -> dict[str, Any]:
    """``ragla config show --json``."""
    settings = {
        key: {"value": value, "origin": loaded.origins[key]} for key, value in setting_values(loaded).items()
    }
    return {"schema": "ragla.config/1", "profile": loaded.name, "settings": settings}


def setting_values(loaded: LoadedProfile) -> dict[str, Any]:
    """Dotted key → value, as it can be shown."""
    sections = loaded.profile.model_dump(mode="json")
    return {
        f"{section}.{key}": hide_setting(key, value)
        for section, keys in sections.items()
        for key, value in keys.items()
    }


def gigabytes(size: float) -> str:
    """A number of bytes that are many."""
    return f"{size / 1e9:.1f} GB"
