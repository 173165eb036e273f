"""``ragla info``: what an index holds, and whether its vectors are kept as suits its size."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragla.errors import UsageError
from ragla.flags import IndexFlag, JsonFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import output, print_json, status

if TYPE_CHECKING:
    from ragla.config import Profile, RetrieveSettings
    from ragla.retrieve.advice import Advice
    from ragla.retrieve.dense_trial import Trial
    from ragla.retrieve.statistics import IndexStatistics


def info(
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="List each skipped file with its reason.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Try the advised FAISS index, or the one set, on a sample.")
    ] = False,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="N",
            help="What N documents like these would take; with --measure embeds some now.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what the index holds: folders, types, what was skipped, sizes, and what it was made with.

    [bold]ragla info --plan 10M[/]
    """
    from ragla import render_info, session
    from ragla.memory import free_mebibytes
    from ragla.retrieve.advice import advise

    loaded = load_profile(profile, settings)
    place = session.searched_index(index_path, Path.cwd(), loaded.profile)
    if plan is not None:
        if skipped:
            raise UsageError("--plan and --skipped exclude each other", "give one of them")
        _show_plan(plan, place, loaded.profile, measure, as_json)
        return
    found = _statistics(place, loaded.profile.retrieve)
    dimension = int(found.made_with.get("dimension", 0))
    advice = advise(found.passages, dimension, free_mebibytes())
    trial = _trial(place, loaded.profile.retrieve, advice, quiet=as_json) if measure else None
    if as_json:
        print_json(render_info.info_json(found, advice, trial))
        return
    for line in render_info.info_lines(found, advice, trial, skipped=skipped):
        output().print(line, soft_wrap=True)


def _statistics(place: Path, settings: RetrieveSettings) -> IndexStatistics:
    """Of what is searched."""
    if settings.store == "milvus":
        from ragla.retrieve.milvus_look import milvus_statistics

        return milvus_statistics(settings)
    from ragla.retrieve.statistics import index_statistics

    return index_statistics(place)


def _show_plan(asked: str, place: Path, profile: Profile, measure: bool, as_json: bool) -> None:
    """What so many documents would take; ``measure``: by what embedding takes just now."""
    from ragla import render_plan, session
    from ragla.memory import free_mebibytes
    from ragla.plan import documents_of, plan
    from ragla.retrieve.corpus_figures import corpus_figures
    from ragla.retrieve.pace import tried_pace

    documents, figures = documents_of(asked), corpus_figures(place)
    if measure:
        with (
            status("embedding some passages", quiet=as_json),
            closing(session.open_embedder(profile)) as embedder,
        ):
            figures = replace(figures, pace=tried_pace(place, embedder, profile.retrieve.batch_size))
    found = plan(documents, figures, free_mebibytes())
    if as_json:
        print_json(render_plan.plan_json(found, place))
        return
    for line in render_plan.plan_lines(found, place):
        output().print(line, soft_wrap=True)


def _trial(place: Path, wanted: RetrieveSettings, advice: Advice, quiet: bool) -> Trial:
    """Of the index that is set where it is not flat, else of the advised one."""
    from ragla.retrieve.advice import on_sample
    from ragla.retrieve.dense_trial import SAMPLE, try_factory

    factory, parameters = wanted.faiss_index, wanted.faiss_search
    if factory == "Flat":
        factory, parameters = on_sample(advice.factory, SAMPLE), ""
    if factory == "Flat":
        raise UsageError(
            f"there is nothing to try: Flat is {advice.reason}",
            "try another: ragla info --measure -s retrieve.faiss_index=HNSW32",
        )
    with status(f"trying {factory}", quiet=quiet):
        return try_factory(place, factory, parameters)
