"""Transcripts: greedy answers with the ids the model ranked best, one JSON object a line.

``{"id", "cat", "prompt": [token ids], "out": [token ids], "tops": [[8 ids], …]}``: ``out`` holds no
end-of-sequence token; ``tops[i]`` are the model's best ids at the position of ``out[i]``, best first. There
is one row more than ``out`` has tokens when the answer ended by itself.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from ragla.bench.json_lines import Line, read_lines
from ragla.errors import RaglaError, UsageError

FORM = 'each line is a JSON object like {"id": 1, "prompt": [12, 7], "out": [9, 4], "tops": [[9, 3], [4, 8]]}'


@dataclass(frozen=True)
class Transcript:
    """One answer. ``best_ids`` may be empty: then nothing can be recycled."""

    id: str
    category: str
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    best_ids: tuple[tuple[int, ...], ...]

    def to_line(self) -> bytes:
        """The line of a file, its end included."""
        record = {
            "id": self.id,
            "cat": self.category,
            "prompt": self.prompt_ids,
            "out": self.answer_ids,
            "tops": self.best_ids,
        }
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def load_transcripts(path: Path, limit: int | None = None) -> list[Transcript]:
    """The first ``limit`` transcripts of a file; every line is checked, blank lines are skipped.

    Raises UsageError with file and line for a line that is no transcript, and for a file that holds none.
    """
    found = [_transcript(line) for line in read_lines(path, "--replay", FORM)]
    if not found:
        raise UsageError(f"{path}: holds no transcripts", "make some: ragla bench --record FILE.jsonl")
    return found[:limit]


def _transcript(line: Line) -> Transcript:
    record, at, where = line
    prompt, answer = (_ids(record.get(key), f"`{key}`", where) for key in ("prompt", "out"))
    if not prompt:
        raise UsageError(f"{where}: `prompt` is empty", FORM)
    rows = record.get("tops") or []
    if not isinstance(rows, list):
        raise UsageError(f"{where}: `tops` must be a list of lists of token ids", FORM)
    least = len(answer)
    if rows and len(rows) not in (least, least + 1):
        raise UsageError(f"{where}: `tops` must have {least} or {least + 1} rows, not {len(rows)}", FORM)
    best = tuple(_ids(row, f"row {number} of `tops`", where) for number, row in enumerate(rows))
    return Transcript(str(record.get("id", f"line {at}")), str(record.get("cat", "")), prompt, answer, best)


def _ids(value: Any, name: str, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: {name} must be a list of token ids", FORM)
    for token in value:
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise UsageError(f"{where}: {name} holds {json.dumps(token)[:40]}, which is no token id", FORM)
    return tuple(value)


def check_writable(path: Path, *, force: bool) -> None:
    """Refuse a place where no transcripts can be written, before anything is computed. Raises UsageError."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder", "--record FILE.jsonl")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
    if path.exists() and not force:
        raise already_there(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: cannot be written: Permission denied", "--record FILE.jsonl")


class TranscriptFile:
    """A file of transcripts that holds whole lines only, whenever writing ends and for whatever reason.

    A context. The file is made, or with ``force`` emptied, when the first line is written.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.path = path
        self.force = force
        self.written = 0
        self._length = 0
        self._file: FileIO | None = None

    def write(self, transcript: Transcript) -> None:
        """Add a line. Raises UsageError when the file is there already, RaglaError when it takes no more."""
        line = transcript.to_line()
        try:
            if self._file is None:
                self._file = self.path.open("wb" if self.force else "xb", buffering=0)
            whole = self._file.write(line) == len(line)
        except FileExistsError as error:
            raise already_there(self.path) from error
        except OSError as error:
            raise RaglaError(f"{self.path}: cannot be written: {error.strerror}", "--record FILE") from error
        if not whole:
            raise RaglaError(f"{self.path}: cannot be written: the disk is full", "make room")
        self._length += len(line)
        self.written += 1

    def __enter__(self) -> TranscriptFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is None:
            return
        if self.path.is_file() and self.path.stat().st_size > self._length:  # a line was broken off
            self._file.truncate(self._length)
        self._file.close()


def already_there(path: Path) -> UsageError:
    """What to say of a file that would be lost."""
    return UsageError(f"{path}: is there already", "overwrite it with --force, or name another file")
