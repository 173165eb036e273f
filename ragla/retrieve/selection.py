"""Which files of a folder a user wants indexed, and how an index remembers it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathspec import GitIgnoreSpec

from ragla.errors import UsageError
from ragla.retrieve.faults import database_errors

if TYPE_CHECKING:
    from ragla.retrieve.store import Store

SELECTIONS = "selections"  # under which name an index keeps them


@dataclass(frozen=True)
class Selection:
    """Patterns are those of .gitignore, relative to the folder.

    ``include``: when there are any, files that match none are left out. ``exclude``: files and folders left
    out. ``hidden``: names that begin with a dot too. ``ignore``: heed .gitignore and .raglaignore.
    ``removed``: paths, not patterns, that were taken out of the index; with all that is below them.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: bool = False
    ignore: bool = True
    removed: tuple[str, ...] = ()

    def spec(self, patterns: Sequence[str]) -> GitIgnoreSpec | None:
        """The patterns ready to be matched. Raises UsageError for one that makes no sense."""
        for pattern in patterns:
            try:
                known = GitIgnoreSpec.from_lines([pattern])
            except (ValueError, re.error):
                known = None
            if known is None or not any(one.include is not None for one in known.patterns):
                raise UsageError(f"{pattern!r} is no pattern", hint="patterns look like '*.md' or 'drafts/'")
        return GitIgnoreSpec.from_lines(patterns) if patterns else None


EVERYTHING = Selection()


def selections(store: Store) -> dict[Path, Selection]:
    """What the folders of an index were indexed with, for those where it was not the default."""
    with database_errors(store.database):
        kept = store.value(SELECTIONS)
    return {Path(root): _selection(made) for root, made in json.loads(kept or "{}").items()}


def _selection(made: dict[str, Any]) -> Selection:
    removed = tuple(made.get("removed", ()))  # which earlier versions did not know
    return Selection(tuple(made["include"]), tuple(made["exclude"]), made["hidden"], made["ignore"], removed)


def selected(
    made: Mapping[Path, Selection], folders: Sequence[Path], selection: Selection | None
) -> dict[Path, Selection]:
    """What all folders are to be indexed with, where that is not the default: as before, but for ``folders``.

    ``selection``: what is now chosen for these, None: what was. What was removed stays out.
    """
    chosen = dict(made)
    if selection is not None:
        for folder in folders:
            chosen[folder] = replace(selection, removed=made.get(folder, EVERYTHING).removed)
    return {root: one for root, one in chosen.items() if one != EVERYTHING}


def remember(store: Store, made: Mapping[Path, Selection]) -> None:
    """Keep what folders are indexed with, for runs that do not say."""
    kept = {str(root): asdict(chosen) for root, chosen in made.items() if chosen != EVERYTHING}
    store.before_change()
    with store.transaction():
        store.set_value(SELECTIONS, json.dumps(kept, sort_keys=True))
