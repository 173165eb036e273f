"""``ragla index --dry-run``: what a run would do; nothing is written and no model loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragla.index_progress import index_progress
from ragla.terminal import output, print_json

if TYPE_CHECKING:
    from rich.text import Text

    from ragla.config import Profile
    from ragla.retrieve.preview import Preview
    from ragla.retrieve.selection import Selection

SHOWN = 20  # files of one kind


def show(
    roots: Sequence[Path], place: Path, profile: Profile, selection: Selection | None, retry: bool,
    rebuild: bool, as_json: bool,
) -> None:  # fmt: skip
    """Say what `ragla index` would do with these folders."""
    from ragla.retrieve.indexer import cutting_of
    from ragla.retrieve.preview import preview

    settings = profile.retrieve
    fingerprint = cutting_of(settings) | {"embedder": settings.embedder}
    with index_progress(quiet=as_json) as on_event:
        seen = preview(roots, place, fingerprint, on_event, selection=selection, retry=retry, rebuild=rebuild)
    if as_json:
        print_json(preview_json(seen, place))
        return
    for line in preview_lines(seen):
        output().print(line, soft_wrap=True)


def preview_lines(seen: Preview) -> Iterable[Text]:
    """Counts, then the files."""
    from rich.text import Text

    from ragla.render import counted, first_of, one_line

    yield Text(
        f"would read {counted(len(seen.to_read), 'file')}, leave {len(seen.unchanged)} unchanged, "
        f"drop {len(seen.removed)}, skip {len(seen.skipped)}; nothing was written",
        style="bold",
    )
    for word, paths in (("read", seen.to_read), ("drop", seen.removed)):
        yield from first_of((Text(f"  {word}: {one_line(path)}") for path in paths), SHOWN, "yellow")
    skipped = (f"  skip: {one_line(path)}: {one_line(reason)}" for path, reason in seen.skipped)
    yield from first_of((Text(line, style="yellow") for line in skipped), SHOWN, "yellow")


def preview_json(seen: Preview, place: Path) -> dict[str, Any]:
    """``ragla index --dry-run --json``."""
    return {
        "schema": "ragla.dry-run/1",
        "index": str(place),
        "read": seen.to_read,
        "unchanged": seen.unchanged,
        "removed": seen.removed,
        "skipped": [{"path": path, "reason": reason} for path, reason in seen.skipped],
    }
