"""``ragla info``: what an index holds, and whether its vectors are kept as suits its size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragla.flags import IndexFlag, JsonFlag
from ragla.terminal import output, print_json


def info(
    index_path: IndexFlag = None,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="List each skipped file with its reason.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what the index holds: folders, types, what was skipped, sizes, and what it was made with.

    [bold]ragla info --skipped[/]
    """
    from ragla import render_info, session
    from ragla.memory import free_mebibytes
    from ragla.retrieve.advice import advise
    from ragla.retrieve.statistics import index_statistics

    found = index_statistics(session.find_index(index_path, Path.cwd()))
    dimension = int(found.made_with.get("dimension", 0))
    advice = advise(found.passages, dimension, free_mebibytes())
    if as_json:
        print_json(render_info.info_json(found, advice))
        return
    for line in render_info.info_lines(found, advice, skipped=skipped):
        output().print(line, soft_wrap=True)
