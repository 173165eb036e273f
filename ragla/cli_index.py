"""``ragla index``: documents become passages that can be searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragla import cli_dry_run, cli_publish, cli_rollback, cli_watch
from ragla.errors import UsageError
from ragla.flags import IndexFlag, JsonFlag, ProfileFlag, SetFlag, load_profile
from ragla.index_progress import index_progress
from ragla.terminal import errors, phase, print_json, show_notice

if TYPE_CHECKING:
    from ragla.config import Profile
    from ragla.retrieve import Embedder, IndexReport
    from ragla.retrieve.taking import Source, Taking


def index(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders; none: those the index was made of.")
    ] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read and embed everything anew.")] = False,
    include: Annotated[
        list[str] | None, typer.Option(help="Only files that match, such as '*.md'; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out what matches, such as 'drafts/'; may be repeated.")
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Names that begin with a dot too.")] = False,
    no_ignore: Annotated[
        bool, typer.Option("--no-ignore", help="Read what .gitignore and .raglaignore leave out.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try again files that were skipped.")] = False,
    follow: Annotated[
        bool, typer.Option("--watch", help="Go on: follow changes of the folders until Ctrl-C.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read, dropped and skipped; write nothing.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Back to the index of before the last change; again: forth.")
    ] = False,
    device: Annotated[
        list[str] | None,
        typer.Option(help="Where to embed: cpu, cuda, cuda:1, mps; repeated: on all of them at once."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Read and embed on a Ray cluster: ray for this machine, or ray://HOST:10001.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Bring the index as it is to Milvus: milvus://HOST:19530/NAME, or milvus:FILE.db.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make or update an index: reads what changed, drops what is gone.

    What the flags choose is kept for a later `ragla index` that names no folder.

    [bold]ragla index ./docs --exclude 'drafts/'[/]
    """
    from ragla import session

    for_a_run = {
        "folders": folders, "--rebuild": rebuild, "--include": include, "--exclude": exclude,
        "--hidden": hidden, "--no-ignore": no_ignore, "--retry": retry, "--device": device, "--on": on,
    }  # fmt: skip
    _check_flags({"--rollback": rollback, "--dry-run": dry_run, "--watch": follow}, for_a_run | {"--to": to})
    _check_place({"--on": on, "--watch": follow, "--dry-run": dry_run, "--device": device})
    if rollback:
        cli_rollback.roll_back(index_path, as_json)
        return
    loaded = load_profile(profile, settings, {"retrieve.device": ",".join(device) if device else None})
    if to is not None:
        cli_publish.check_alone(for_a_run | {"--rebuild": None, "--dry-run": dry_run, "--watch": follow})
        place = session.find_index(index_path, Path.cwd())
        cli_publish.bring(to, place, loaded.profile.retrieve, rebuild=rebuild, as_json=as_json)
        return
    if follow:
        cli_watch.check()
    roots, place = index_roots(folders, index_path)
    from ragla.retrieve import Selection, index_folders
    from ragla.retrieve.generations import Sitting

    chosen = Selection(tuple(include or ()), tuple(exclude or ()), hidden, not no_ignore)
    # Without a folder and without a flag the folders are read as they were before.
    selection = chosen if folders or chosen != Selection() else None
    if dry_run:
        cli_dry_run.show(roots, place, loaded.profile, selection, retry, rebuild, as_json)
        return
    # Who follows folders does not want to wait for the model at the first change.
    opened = session.open_embedder if follow else session.lazy_embedder
    with phase("loading the embedder", quiet=as_json):  # at its first use ever, or to follow folders
        embedder = opened(loaded.profile)
    source = _source_on(on, loaded.profile, embedder) if on is not None else None

    sitting = Sitting()

    def update(first: bool = True) -> IndexReport:
        with index_progress(quiet=as_json) as on_event:
            report = index_folders(
                roots, place, loaded.profile.retrieve, embedder, on_event,
                rebuild=rebuild and first, selection=selection if first else None, retry=retry and first,
                sitting=sitting, source=source,
            )  # fmt: skip
        cli_publish.follow(place, loaded.profile.retrieve, rebuild=rebuild and first, quiet=as_json)
        return report

    with closing(embedder):
        if follow:
            cli_watch.watch(roots, place, update, as_json=as_json)
        report = update()
    show_notice(embedder.notice)
    _show(report, place, as_json)


def _show(report: IndexReport, place: Path, as_json: bool) -> None:
    """What a run did, and what came of it for earlier answers."""
    from ragla import render
    from ragla.earlier import forget_stale

    dropped, problem = forget_stale(place)
    if as_json:
        print_json(render.index_json(report, str(place)))
        return
    for line in render.index_lines(report, str(place)):
        errors().print(line, soft_wrap=True)
    if dropped:
        count = render.counted(dropped, "earlier answer")
        errors().print(f"  dropped with its documents: {count}", soft_wrap=True)
    show_notice(problem)


def _check_flags(modes: Mapping[str, bool], for_a_run: Mapping[str, object]) -> None:
    """Raise UsageError for flags that exclude each other."""
    chosen = [name for name, is_on in modes.items() if is_on]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other", "give one of them")
    meant = next((name for name, given in for_a_run.items() if given), None)
    if modes["--rollback"] and meant:
        raise UsageError(
            f"--rollback takes no {meant}: it brings the whole index back", "ragla index --rollback"
        )


def _check_place(given: Mapping[str, object]) -> None:
    """Raise UsageError for flags that do not go with ``--on``."""
    other = next((name for name in given if name != "--on" and given[name]), None)
    if given["--on"] is not None and other is not None:
        raise UsageError(f"--on and {other} exclude each other", "give one of them")


def _source_on(on: str, profile: Profile, embedder: Embedder) -> Callable[[Taking], Source]:
    """What reads and embeds on a Ray cluster. Raises UsageError, RaglaError where there is none."""
    from ragla import session
    from ragla.retrieve.ray_cluster import address_of, check_ray
    from ragla.retrieve.ray_source import RaySource

    address = address_of(on)
    check_ray(address)
    load, wants_gpu = partial(session.embedder_on, profile), session.may_use_gpu(profile)
    return partial(RaySource, address, load, wants_gpu, embedder, profile.retrieve)


def index_roots(folders: list[Path] | None, index_path: str | None) -> tuple[list[Path], Path]:
    """What to index and where to: named folders here, or the folders of the index that is found."""
    from ragla import session

    if folders:
        return folders, session.new_index(index_path, Path.cwd())
    from ragla.retrieve import indexed_roots

    place = session.find_index(index_path, Path.cwd())
    return indexed_roots(place), place
