"""JSON Lines as a bench reads them: each line checked, each fault with its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ragla.errors import UsageError


class Line(NamedTuple):
    """A JSON object, the number of its line, from 1, and ``file:line``."""

    record: dict[str, Any]
    at: int
    where: str


def read_lines(path: Path, flag: str, form: str) -> Iterator[Line]:
    """The objects of a file one by one; blank lines are skipped.

    ``flag``: the flag that names such a file. ``form``: what a line looks like. Raises UsageError with file
    and line for a line that is no JSON object.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", f"{flag} FILE.jsonl") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a UTF-8 text", form) from error
    for at, line in enumerate(lines, 1):
        if line.strip():
            where = f"{path}:{at}"
            yield Line(_object(line, where, form), at, where)


def _object(line: str, where: str, form: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: broken JSON: {error}", form) from error
    if not isinstance(record, dict):
        raise UsageError(f"{where}: not a JSON object", form)
    return record
