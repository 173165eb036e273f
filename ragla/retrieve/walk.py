"""Which files a folder holds: ignore rules, links and unreadable folders; no file is opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from ragla.errors import UsageError
from ragla.retrieve.decoding import neutralise
from ragla.retrieve.selection import EVERYTHING, Selection
from ragla.user_path import user_path

IGNORE_FILES = (".gitignore", ".raglaignore")
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


@dataclass(frozen=True)
class _Rules:
    """The ignore rules of one folder and of those above it, innermost first."""

    layers: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    def extended(self, folder: Path) -> _Rules:
        lines = [line for name in IGNORE_FILES for line in _ignore_lines(folder / name)]
        spec = _ignore_spec(lines)
        return _Rules(((folder, spec), *self.layers)) if spec is not None else self

    def ignore(self, path: Path, is_folder: bool) -> bool:
        for folder, spec in self.layers:
            relative = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
            verdict = spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return False


def _ignore_lines(path: Path) -> list[str]:
    try:
        if not path.is_file():  # a pipe of that name would be waited on for ever
            return []
        return path.read_bytes().decode("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []


def _ignore_spec(lines: list[str]) -> GitIgnoreSpec | None:
    """The rules in these lines; like git, a line that makes no sense is passed over."""
    patterns: list[str] = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):
            continue
        patterns.append(line)
    return GitIgnoreSpec.from_lines(patterns) if patterns else None


def _rules_above(root: Path) -> _Rules:
    """The rules of the folders between the top of the repository that holds ``root`` and ``root``.

    A folder that they ignore was named by the user all the same; then they say nothing about what is in it.
    """
    top = next((folder for folder in root.parents if (folder / ".git").exists()), None)
    if top is None or (root / ".git").exists():
        return _Rules()
    rules = _Rules()
    for folder in reversed([folder for folder in root.parents if folder.is_relative_to(top)]):
        rules = rules.extended(folder)
    inside = [folder for folder in (root, *root.parents) if folder != top and folder.is_relative_to(top)]
    return _Rules() if any(rules.ignore(folder, is_folder=True) for folder in inside) else rules


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
            raise UsageError(f"{root}: not a folder", hint="name the folder that holds the file")
        resolved[path] = None
    if not resolved:
        raise UsageError("no folder to index", hint="ragla index FOLDER")
    return list(resolved)


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
        yield from state.folder(root, root, _rules_above(root))
        yield from state.follow_links(root)


@dataclass
class _Walk:
    excluded: Path | None
    folders_seen: set[tuple[int, int]] = field(default_factory=set)
    files_seen: set[Path] = field(default_factory=set)
    links: list[Path] = field(default_factory=list)
    selection: Selection = EVERYTHING
    included: GitIgnoreSpec | None = None
    left_out: GitIgnoreSpec | None = None

    def select(self, selection: Selection) -> None:
        """Walk the next root with this selection."""
        self.selection = selection
        self.folders_seen.clear()  # what another root's selection left out may be in this one's
        self.included = selection.spec(selection.include)
        self.left_out = selection.spec(selection.exclude)

    def folder(self, root: Path, start: Path, rules: _Rules) -> Iterator[FoundFile | Unreached]:
        pending = [(start, rules)]
        while pending:
            folder, outer = pending.pop()
            entries = self._entries(folder)
            if isinstance(entries, Unreached):
                yield entries
                continue
            inner = outer.extended(folder) if self.selection.ignore else _Rules()
            below: list[tuple[Path, _Rules]] = []
            for entry in entries:
                found = self._visit(root, Path(entry.path), entry, inner)
                if isinstance(found, Path):
                    below.append((found, inner))
                elif found is not None:
                    yield found
            pending.extend(reversed(below))

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
        self, root: Path, path: Path, entry: os.DirEntry[str], rules: _Rules
    ) -> FoundFile | Unreached | Path | None:
        """A file to yield, a folder to enter later (as Path), a problem, or nothing."""
        if entry.name.startswith(".") and (not self.selection.hidden or entry.name in _NEVER):
            return None
        if path == self.excluded:
            return None
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.ignore(path, is_folder) or self._unwanted(root, path, is_folder):
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
                yield from self.folder(root, target, _Rules())
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


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(path: Path) -> Path:
    return Path(str(path).encode(errors="backslashreplace").decode())
