"""Paths as a user writes them."""

from __future__ import annotations

from pathlib import Path

from ragla.errors import UsageError


def user_path(written: str) -> Path:
    """A path with ``~`` and ``~NAME`` as home folders. Raises UsageError where there is no such home."""
    try:
        return Path(written).expanduser()
    except RuntimeError as error:
        mend = f"./{written} is the file of that name"
        raise UsageError(f"{written}: no home folder of that name is known", mend) from error
