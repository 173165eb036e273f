"""What happens while a folder is indexed, for whoever draws the progress; nothing here is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class FilesFound:
    """The walk is over: ``files`` were found, ``to_read`` of them are new or may have changed."""

    files: int
    to_read: int


@dataclass(frozen=True)
class FileRead:
    """A file was read and cut into ``passages``, which are not stored yet."""

    path: str
    passages: int


@dataclass(frozen=True)
class FileSkipped:
    """A file, or a folder, that gave no text, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class FileRemoved:
    """A file that is gone; its passages were dropped."""

    path: str


@dataclass(frozen=True)
class EmbedderLoading:
    """The embedder is loaded now, which takes seconds."""

    name: str


@dataclass(frozen=True)
class EmbeddingBegun:
    """What was read since the last batch is embedded now."""


@dataclass(frozen=True)
class PassagesEmbedded:
    """``passages`` so far were embedded in this run."""

    passages: int


@dataclass(frozen=True)
class BatchStored:
    """A batch of ``files`` is safe on disk; whatever happens now, they are not read again."""

    files: int


@dataclass(frozen=True)
class VectorsBegun:
    """All is stored; how the embedder reads it is measured now, and the vectors are written."""


Event = (
    FilesFound
    | FileRead
    | FileSkipped
    | FileRemoved
    | EmbedderLoading
    | EmbeddingBegun
    | PassagesEmbedded
    | BatchStored
    | VectorsBegun
)
OnEvent = Callable[[Event], None]
