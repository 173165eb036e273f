"""``ragla index --to``: this machine's index brought to Milvus; after each run where a profile says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ragla.errors import UsageError
from ragla.terminal import errors, print_json, progress_bar

if TYPE_CHECKING:
    from ragla.config import RetrieveSettings
    from ragla.retrieve.milvus_publish import Published


def check_alone(given: Mapping[str, object]) -> None:
    """Raise UsageError for flags and folders that do not go with ``--to``."""
    other = next((name for name in given if given[name]), None)
    if other is not None:
        raise UsageError(
            f"--to and {other} exclude each other: it takes an index as it is",
            "ragla index first, then ragla index --to URI",
        )


def bring(to: str, place: Path, settings: RetrieveSettings, *, rebuild: bool, as_json: bool) -> None:
    """Bring the index at ``place`` to what ``to`` names, and say what was done. Raises as ``publish``."""
    published = _publish(to, place, settings, rebuild=rebuild, quiet=as_json)
    if as_json:
        print_json({"schema": "ragla.published/1", "index": str(place), **asdict(published)})
        return
    show(published)


def follow(place: Path, settings: RetrieveSettings, *, rebuild: bool, quiet: bool) -> None:
    """The same after a run, where ``retrieve.store`` is Milvus; nothing where it is not."""
    if settings.store == "milvus":
        published = _publish(settings.milvus_uri, place, settings, rebuild=rebuild, quiet=quiet)
        if not quiet:
            show(published)


def show(published: Published) -> None:
    """What a publication did, on one line of stderr."""
    from ragla.render import counted, one_line

    parts = [f"{counted(published.written, 'file')} written", f"{published.unchanged} unchanged"]
    parts += [f"{published.removed} removed"] if published.removed else []
    total = counted(published.total_passages, "passage")
    line = f"{published.target}: {', '.join(parts)} · {total} · {published.seconds:.1f} s"
    errors().print(one_line(line), soft_wrap=True)


def _publish(
    to: str | None, place: Path, settings: RetrieveSettings, *, rebuild: bool, quiet: bool
) -> Published:
    from ragla.conversation_file import forget_stale_conversation
    from ragla.retrieve.milvus_client import target_of
    from ragla.retrieve.milvus_publish import publish

    target = target_of(to)
    with progress_bar(quiet) as progress:
        task = progress.add_task(f"writing to {target}", total=None) if progress else None

        def on_passages(done: int, of: int) -> None:
            if progress is not None and task is not None:
                progress.update(task, completed=done, total=of)

        published = publish(place, target, settings, on_passages, rebuild=rebuild)
    forget_stale_conversation(place, str(target))
    return published
