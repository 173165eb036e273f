"""Which files a folder holds: ignore rules, links and unreadable folders; no file is opened."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from ragla.errors import UsageError
from ragla.retrieve.decoding import neutralise
from ragla.retrieve.ignore import IGNORE_FILES, Rules, rules_above
from ragla.retrieve.selection import EVERYTHING, Selection
from ragla.user_path import user_path

# Rules, and what tools keep for themselves; not even ``--hidden`` means these.
_NEVER = frozenset({".git", ".hg", ".svn", ".jj", ".ragla", *IGNORE_FILES})


@dataclass(frozen=True)
class FoundFile:
    """A regular file; ``path`` is POSIX, relative to ``root`` and for people: without control characters."""

    root: Path
    path: str
    absolute: Path
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True)
class Unreached:
    """Something the walk could not or would not enter. ``is_folder``: what is below is unknown, not gone."""

    absolute: Path
    reason: str
    is_folder: bool = False


def resolve_roots(roots: Sequence[Path]) -> list[Path]:
    """The folders to walk, absolute, without repeats.

    Raises UsageError for a root that is missing or no folder: its files are not to be taken for deleted.
    """
    resolved: dict[Path, None] = {}
    for root in roots:
        path = user_path(str(root)).resolve()
        if not path.exists():
            raise UsageError(f"{root}: no such folder", hint="check the path; nothing was changed")
        if not path.is_dir():
            only = ["ragla", "index", str(path.parent), "--include", _pattern(path.name)]
            raise UsageError(
                f"{root}: not a folder", hint=f"name the folder that holds it: {shlex.join(only)}"
            )
        resolved[path] = None
    if not resolved:
        raise UsageError("no folder to index", hint="ragla index FOLDER")
    return list(resolved)


def _pattern(name: str) -> str:
    """What matches this name in the folder itself and no other, as ``--include`` takes it."""
    plain = re.sub(r"([\\*?\[])", r"\\\1", name)
    return "/" + (plain[:-1] + "\\ " if plain.endswith(" ") else plain)


def walk(
    roots: Sequence[Path],
    excluded: Path | None = None,
    selections: Mapping[Path, Selection] | None = None,
) -> Iterator[FoundFile | Unreached]:
    """Yield every document-like file below ``roots`` (resolved folders), in a stable order.

    Hidden names, what ignore files name, what the root's selection leaves out and ``excluded`` (the index
    itself) are passed over in silence. A file below two of the roots is yielded once.
    """
    state = _Walk(excluded)
    for root in roots:
        state.select((selections or {}).get(root, EVERYTHING))
        yield from state.folder(root, root, rules_above(root))
        yield from state.follow_links(root)


class Reach:
    """Whether a walk of ``root`` comes to a path, by names and rules alone; made anew when rules changed."""

    def __init__(self, root: Path, excluded: Path | None, selection: Selection) -> None:
        self._root = root
        self._walk = _Walk(excluded)
        self._walk.select(selection)
        self._rules: dict[Path, Rules | None] = {}

    def comes_to(self, path: Path) -> bool:
        """``path``: absolute, perhaps gone. Ignore files are come to, since they decide about others."""
        if path == self._root:
            return True
        rules = self._inside(path.parent) if path.is_relative_to(self._root) else None
        if rules is None:
            return False
        if path.name in IGNORE_FILES:
            return self._walk.selection.ignore
        # What is gone may have been either.
        kinds = (path.is_dir(),) if path.exists() else (True, False)
        return any(not self._walk.passes_over(self._root, path, is_folder, rules) for is_folder in kinds)

    def _inside(self, folder: Path) -> Rules | None:
        """The rules for what is in a folder, None for one that is not entered."""
        if folder not in self._rules:
            outer = rules_above(folder) if folder == self._root else self._inside(folder.parent)
            if folder != self._root and (
                outer is None or self._walk.passes_over(self._root, folder, True, outer)
            ):
                self._rules[folder] = None
            else:
                self._rules[folder] = self._walk.inner(outer or Rules(), folder)
        return self._rules[folder]


@dataclass
class _Walk:
    excluded: Path | None
    folders_seen: set[tuple[int, int]] = field(default_factory=set)
    files_seen: set[Path] = field(default_factory=set)
    links: list[Path] = field(default_factory=list)
    selection: Selection = EVERYTHING
    included: GitIgnoreSpec | None = None
    left_out: GitIgnoreSpec | None = None
    removed: frozenset[str] = frozenset()

    def select(self, selection: Selection) -> None:
        """Walk the next root with this selection."""
        self.selection = selection
        self.folders_seen.clear()  # what another root's selection left out may be in this one's
        self.included = selection.spec(selection.include)
        self.left_out = selection.spec(selection.exclude)
        self.removed = frozenset(selection.removed)

    def folder(self, root: Path, start: Path, rules: Rules) -> Iterator[FoundFile | Unreached]:
        pending = [(start, rules)]
        while pending:
            folder, outer = pending.pop()
            entries = self._entries(folder)
            if isinstance(entries, Unreached):
                yield entries
                continue
            inner = self.inner(outer, folder)
            below: list[tuple[Path, Rules]] = []
            for entry in entries:
                found = self._visit(root, Path(entry.path), entry, inner)
                if isinstance(found, Path):
                    below.append((found, inner))
                elif found is not None:
                    yield found
            pending.extend(reversed(below))

    def inner(self, outer: Rules, folder: Path) -> Rules:
        return outer.extended(folder) if self.selection.ignore else Rules()

    def passes_over(self, root: Path, path: Path, is_folder: bool, rules: Rules) -> bool:
        """Whether names or rules keep it out; ``rules``: those for what is in its folder."""
        if path.name.startswith(".") and (not self.selection.hidden or path.name in _NEVER):
            return True
        if path == self.excluded:
            return True
        return rules.ignore(path, is_folder) or self._unwanted(root, path, is_folder)

    def _entries(self, folder: Path) -> list[os.DirEntry[str]] | Unreached:
        try:
            status = folder.stat()
            identity = (status.st_dev, status.st_ino)
            if identity in self.folders_seen:
                return []
            self.folders_seen.add(identity)
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            return Unreached(folder, f"folder cannot be read: {error.strerror}", is_folder=True)

    def _visit(
        self, root: Path, path: Path, entry: os.DirEntry[str], rules: Rules
    ) -> FoundFile | Unreached | Path | None:
        """A file to yield, a folder to enter later (as Path), a problem, or nothing."""
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if self.passes_over(root, path, is_folder, rules):
                return None
            if entry.is_symlink():
                self.links.append(path)
                return None
            return path if is_folder else self._file(root, path, entry.stat(follow_symlinks=False))
        except OSError as error:
            return Unreached(path, f"cannot be read: {error.strerror}")

    def _unwanted(self, root: Path, path: Path, is_folder: bool) -> bool:
        """Whether the selection leaves it out; a folder is entered for what in it may be included."""
        relative = path.relative_to(root).as_posix() + ("/" if is_folder else "")
        if self.left_out is not None and self.left_out.check_file(relative).include:
            return True
        if self.removed and not self.removed.isdisjoint(map(str, _and_above(relative))):
            return True
        if is_folder or self.included is None:
            return False
        return not self.included.check_file(relative).include

    def _file(self, root: Path, path: Path, status: os.stat_result) -> FoundFile | Unreached | None:
        if not stat.S_ISREG(status.st_mode):
            return Unreached(path, "not a regular file")
        if not _is_unicode(str(path)):
            return Unreached(_printable(path), "the name is not valid UTF-8: rename it")
        if path in self.files_seen:
            return None
        self.files_seen.add(path)
        return FoundFile(
            root, neutralise(path.relative_to(root).as_posix()), path,
            status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
        )  # fmt: skip

    def follow_links(self, root: Path) -> Iterator[FoundFile | Unreached]:
        """Follow the links met on the way, last, so that a target inside is read at its own place."""
        while self.links:
            link = self.links.pop(0)
            target = self._target(root, link)
            if isinstance(target, Unreached):
                yield target
            elif self._unwanted(root, target, target.is_dir()):
                continue
            elif target.is_dir():
                yield from self.folder(root, target, Rules())
            elif target not in self.files_seen and (found := self._file(root, target, target.stat())):
                yield found

    def _target(self, root: Path, link: Path) -> Path | Unreached:
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
            loop = isinstance(error, RuntimeError) or "symbolic links" in str(error)
            return Unreached(link, "link loop" if loop else "broken link")
        if not target.is_relative_to(root):
            return Unreached(link, "link leads out of the folder")
        if self.excluded is not None and target.is_relative_to(self.excluded):
            return Unreached(link, "link leads into the index")
        if not _NEVER.isdisjoint(target.relative_to(root).parts):
            return Unreached(link, "link leads into what a tool keeps for itself")
        return target


def _and_above(relative: str) -> Iterator[PurePosixPath]:
    """A path and the folders above it."""
    path = PurePosixPath(relative)
    yield path
    yield from path.parents


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(path: Path) -> Path:
    return Path(str(path).encode(errors="backslashreplace").decode())
