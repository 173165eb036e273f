"""Whether a file still says what was indexed of it, read again when an answer quotes it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import Literal

from ragla.retrieve.decoding import decode
from ragla.retrieve.passage import Passage
from ragla.retrieve.read import MAX_BYTES

_OPENING = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)  # a pipe has no end to wait for
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")

Freshness = Literal["same", "changed elsewhere", "changed", "gone"]
"""``changed elsewhere``: the file is another, but the passage stands in the same lines of it."""


def freshness(passage: Passage, sha256: str | None) -> Freshness | None:
    """How the file of a passage is now; None where that cannot be said.

    ``sha256``: of the file as it was indexed, None where the index knows it no longer.
    """
    try:
        raw = _content(passage.absolute)
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except (OSError, ValueError):  # ValueError: no path at all
        return None
    if raw is None:
        return None
    if hashlib.sha256(raw).hexdigest() == sha256:
        return "same"
    return "changed elsewhere" if _says(raw, passage) else "changed"


def _content(path: str) -> bytes | None:
    """The bytes of a regular file; None for what is none, or is larger than what is indexed."""
    descriptor = os.open(path, _OPENING)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            raw = opened.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    return raw if len(raw) <= MAX_BYTES else None


def _says(raw: bytes, passage: Passage) -> bool:
    """Whether the passage stands in its lines; never for a format that is not text."""
    lines = _LINE.findall(decode(raw) or "")
    return passage.text in "".join(lines[passage.first_line - 1 : passage.last_line])
