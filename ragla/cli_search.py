"""``ragla search`` and ``ragla why-not``: what a question finds, and where a file was lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla import completion
from ragla.errors import NothingRelevant
from ragla.flags import (
    ExplainFlag,
    IndexFlag,
    JsonFlag,
    PathFlag,
    ProfileFlag,
    SetFlag,
    TypeFlag,
    load_profile,
)
from ragla.question_file import question_text
from ragla.terminal import errors, output, print_json

if TYPE_CHECKING:
    from ragla.retrieve.explanation import Explanation


def search(
    query: Annotated[str | None, typer.Argument(help="What to look for; - reads it from stdin.")] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages.")] = None,
    paths: PathFlag = None,
    types: TypeFlag = None,
    explain: ExplainFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the passages a question finds, without an answer.

    [bold]ragla search 'hotel limit in Paris' --path 'travel/' --explain[/]
    """
    from ragla import session

    loaded = load_profile(profile, settings, {"retrieve.top_k": top_k})
    text = question_text(query)
    place = session.searched_index(index_path, Path.cwd(), loaded.profile)
    retriever = session.open_retriever(loaded.profile, place)
    from ragla.retrieve.filters import Filters

    options = loaded.profile.retrieve
    filters = Filters(tuple(paths or ()), tuple(types or ()))
    found = retriever.explain(text, options.top_k, options.relevance_floor, filters)
    show(found, explain=explain, as_json=as_json)
    if not found.kept:
        if not as_json:
            errors().print("no passage is relevant enough", style="yellow")
        raise typer.Exit(NothingRelevant.exit_code)


def show(found: Explanation, *, explain: bool, as_json: bool) -> None:
    """What was found on stdout; how it was ranked on stderr, or in the JSON."""
    from ragla import render, render_search

    if as_json:
        passages = [render.passage_json(scored) for scored in found.kept]
        document: dict[str, Any] = {"schema": "ragla.search/1", "query": found.question, "passages": passages}
        if explain:
            document["explain"] = render_search.explanation_json(found)
        print_json(document)
        return
    console = output()
    for number, scored in enumerate(found.kept, 1):
        for line in render.passage_lines(number, scored):
            console.print(line, soft_wrap=not console.is_terminal)
        console.print()
    if explain:
        for line in render_search.explanation_lines(found):
            errors().print(line, soft_wrap=True)


def why_not(
    file: Annotated[
        str,
        typer.Argument(
            help="A file of the index: its path, or the end of it.", autocompletion=completion.documents
        ),
    ],
    query: Annotated[str | None, typer.Argument(help="The question; - reads it from stdin.")] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say why a question does not find a file.

    [bold]ragla why-not travel.md 'hotel limit in Paris'[/]
    """
    from ragla import session

    loaded = load_profile(profile, settings, {"retrieve.top_k": top_k})
    text = question_text(query)
    place = session.searched_index(index_path, Path.cwd(), loaded.profile)
    retriever = session.open_retriever(loaded.profile, place)
    from dataclasses import asdict

    from ragla import render_search
    from ragla.retrieve.why_not import why_not as explain_file

    options = loaded.profile.retrieve
    found = explain_file(retriever, file, text, options.top_k, options.relevance_floor)
    if as_json:
        print_json({"schema": "ragla.why-not/1", "query": text, **asdict(found)})
        return
    for line in render_search.why_not_lines(found):
        output().print(line, soft_wrap=True)
