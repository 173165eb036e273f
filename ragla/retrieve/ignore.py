"""Ignore rules: what .gitignore and .raglaignore keep out of an index, at every level, as git reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".raglaignore")


@dataclass(frozen=True)
class Rules:
    """The ignore rules of one folder and of those above it, innermost first."""

    layers: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    def extended(self, folder: Path) -> Rules:
        """With those that stand in ``folder``."""
        lines = [line for name in IGNORE_FILES for line in _ignore_lines(folder / name)]
        spec = _ignore_spec(lines)
        return Rules(((folder, spec), *self.layers)) if spec is not None else self

    def ignore(self, path: Path, is_folder: bool) -> bool:
        """Whether the innermost rule that names ``path`` keeps it out."""
        for folder, spec in self.layers:
            if not path.is_relative_to(folder):
                continue
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


def rules_above(root: Path) -> Rules:
    """The rules of the folders between the top of the repository that holds ``root`` and ``root``.

    A folder that they ignore was named by the user all the same; then they say nothing about what is in it.
    """
    top = next((folder for folder in root.parents if (folder / ".git").exists()), None)
    if top is None or (root / ".git").exists():
        return Rules()
    rules = Rules()
    for folder in reversed([folder for folder in root.parents if folder.is_relative_to(top)]):
        rules = rules.extended(folder)
    inside = [folder for folder in (root, *root.parents) if folder != top and folder.is_relative_to(top)]
    return Rules() if any(rules.ignore(folder, is_folder=True) for folder in inside) else rules
