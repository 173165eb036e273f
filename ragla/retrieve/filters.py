"""Which documents a search may look at: by path and by type, before anything is ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ragla.errors import UsageError

_ALSO = {
    "markdown": ("md", "markdown"),
    "md": ("md", "markdown"),
    "html": ("html", "htm", "xhtml"),
    "text": ("txt",),
    "yaml": ("yaml", "yml"),
    "word": ("docx",),
    "excel": ("xlsx",),
}
_SHOWN = 8


@dataclass(frozen=True)
class Filters:
    """``paths``: patterns as in .gitignore, ``en/``, ``*.md``, ``guides/**``; ``types``: ``pdf``, ``md``.

    A document passes that one of each kind names; no pattern of a kind names all.
    """

    paths: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is kept out."""
        return bool(self.paths or self.types)

    def document_ids(self, documents: Sequence[tuple[int, str, str]]) -> list[int]:
        """Of (id, path within its folder, path as shown) those that pass.

        Raises UsageError, naming what there is, where none does.
        """
        from pathspec import GitIgnoreSpec

        spec = GitIgnoreSpec.from_lines(self.paths)
        wanted = {suffix for name in self.types for suffix in _suffixes(name)}
        passing = [
            document_id
            for document_id, path, shown in documents
            if (not self.paths or spec.match_file(path) or spec.match_file(shown))
            and (not self.types or _suffix(path) in wanted)
        ]
        if not passing:
            there = Counter(_suffix(path) or "without a suffix" for _, path, _ in documents)
            kinds = ", ".join(f"{name} ({count})" for name, count in there.most_common(_SHOWN))
            raise UsageError(f"{self}: no document of the index matches", f"types there: {kinds or 'none'}")
        return passing

    def __str__(self) -> str:
        """As flags."""
        flags = [f"--path {path}" for path in self.paths] + [f"--type {name}" for name in self.types]
        return " ".join(flags)


def _suffixes(name: str) -> tuple[str, ...]:
    plain = name.strip().lstrip(".").casefold()
    return _ALSO.get(plain, (plain,))


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lstrip(".").casefold()
