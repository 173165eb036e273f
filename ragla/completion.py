"""What the shell offers when Tab is pressed: indexes, their documents, profiles, models and settings.

It answers from names and one query of a database, loads no torch, and offers nothing where something is
amiss; a shell that waits or shows a traceback is worse than one that does not help.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

MOST = 200  # entries
WAIT_S = 0.2  # for an index that is being written
DATABASE = re.compile(r"passages-\d+\.sqlite")

Offer = Callable[[Any, str], list[str]]


def careful(offer: Callable[[Any, str], Iterable[str]]) -> Offer:
    """What begins with what was typed, in order; nothing where it cannot be told."""

    @wraps(offer)
    def offered(ctx: Any, incomplete: str) -> list[str]:
        found: list[str] = []
        with contextlib.suppress(Exception):
            # a control character in a name would be the shell's to obey
            names = (
                name for name in offer(ctx, incomplete) if name.startswith(incomplete) and name.isprintable()
            )
            found = sorted(dict.fromkeys(names))[:MOST]
        return found

    return offered


@careful
def profiles(ctx: Any, incomplete: str) -> Iterable[str]:
    """Shipped profiles, and YAML files."""
    from ragla.profiles import shipped_profiles

    return [*shipped_profiles(), *_files(incomplete, (".yaml", ".yml"))]


@careful
def models(ctx: Any, incomplete: str) -> Iterable[str]:
    """Models with a short name, model folders and .gguf files."""
    from ragla.models import registry

    return [*registry(), *_files(incomplete, (".gguf",))]


@careful
def recordings(ctx: Any, incomplete: str) -> Iterable[str]:
    """Files of JSON."""
    return _files(incomplete, (".json",))


@careful
def model_names(ctx: Any, incomplete: str) -> Iterable[str]:
    """Models with a short name."""
    from ragla.models import registry

    return registry()


@careful
def settings(ctx: Any, incomplete: str) -> Iterable[str]:
    """``KEY=``, and the values where there are only a few."""
    from typing import get_args

    from ragla import profiles

    key, equals, _ = incomplete.partition("=")
    fields = profiles.settings()
    if not equals:
        return [f"{name}=" for name in fields]
    annotation = fields[key].annotation
    values = ("true", "false") if annotation is bool else get_args(annotation)
    return [f"{key}={value}" for value in values if isinstance(value, str)]


@careful
def indexes(ctx: Any, incomplete: str) -> Iterable[str]:
    """Folders, those that are indexes without a slash behind them."""
    for folder in _folders(incomplete):
        yield folder.rstrip("/") if _database(Path(folder).expanduser()) is not None else folder


@careful
def documents(ctx: Any, incomplete: str) -> Iterable[str]:
    """Documents of the index, by their paths in it, and the folders they are in."""
    for path in _documents(ctx, incomplete):
        yield path
        if "/" in path[len(incomplete) :]:
            yield f"{path[: path.index('/', len(incomplete))]}/"


@careful
def types(ctx: Any, incomplete: str) -> Iterable[str]:
    """Types of the documents of the index."""
    return [Path(path).suffix.lstrip(".").lower() for path in _documents(ctx, "", most=100_000)]


def _files(incomplete: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Folders, and files with such suffixes."""
    yield from _folders(incomplete)
    for path in _below(incomplete):
        if path.suffix in suffixes and path.is_file():
            yield _as_typed(incomplete, path)


def _folders(incomplete: str) -> Iterator[str]:
    for path in _below(incomplete):
        if path.is_dir():
            yield f"{_as_typed(incomplete, path)}/"


def _below(incomplete: str) -> Iterator[Path]:
    """What a path may go on to; hidden names where a dot was typed."""
    folder, _, name = incomplete.rpartition("/")
    place = Path(f"{folder}/" if "/" in incomplete else ".").expanduser()
    for path in sorted(place.iterdir()):
        if path.name.startswith(name) and (
            name.startswith(".") or not path.name.startswith(".") or path.name == ".ragla"
        ):
            yield path


def _as_typed(incomplete: str, path: Path) -> str:
    folder, slash, _ = incomplete.rpartition("/")
    return f"{folder}{slash}{path.name}"


def _documents(ctx: Any, beginning: str, most: int = MOST) -> list[str]:
    """Paths of documents in the index that the command line means."""
    from ragla.session import find_index

    database = _database(find_index(ctx.params.get("index_path"), Path.cwd()))
    if database is None:
        return []
    with contextlib.closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=WAIT_S)
    ) as index:
        rows = index.execute(
            "SELECT path FROM files WHERE status = 'indexed' AND substr(path, 1, ?) = ? "
            "ORDER BY path LIMIT ?",
            (len(beginning), beginning, most),
        )
        return [path for (path,) in rows]


def _database(index: Path) -> Path | None:
    """The database of an index as it is now."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        found = DATABASE.match((index / "current").read_text(encoding="ascii"))
        return index / found[0] if found else None
    return None
