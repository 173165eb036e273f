"""Flags that several commands take, and the settings and the model they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla import completion
from ragla.errors import UsageError
from ragla.terminal import status

if TYPE_CHECKING:
    from ragla.config import Profile
    from ragla.decode.model import TargetModel
    from ragla.profiles import LoadedProfile

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else there.")]
IndexFlag = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="PATH",
        autocompletion=completion.indexes,
        help="The index; else RAGLA_INDEX, else .ragla here or above.",
    ),
]
ProfileFlag = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        metavar="NAME",
        autocompletion=completion.profiles,
        help="A shipped profile, or a YAML file.",
    ),
]
SetFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        autocompletion=completion.settings,
        help="Set one key, such as decode.max_depth=8.",
    ),
]
ModelFlag = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        autocompletion=completion.models,
        help="The model that answers: name, folder, .gguf or hub id.",
    ),
]

PathFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="GLOB",
        autocompletion=completion.documents,
        help="Only documents that match, as in .gitignore: 'guides/'.",
    ),
]
TypeFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        autocompletion=completion.types,
        help="Only documents of a type: md, pdf, html.",
    ),
]
CheckFlag = Annotated[
    bool,
    typer.Option(
        "--check-answerable",
        help="Ask the model first if the passages say the answer: --set retrieve.judge=0.5.",
    ),
]
ExplainFlag = Annotated[
    bool, typer.Option("--explain", help="Show how each passage was scored, and what was left out.")
]

CHECK_AT = 0.5  # yes as likely as no


def load_profile(
    profile: str | None, settings: list[str] | None, flags: dict[str, Any] | None = None
) -> LoadedProfile:
    """The settings of this run; ``--set`` beats the other flags."""
    from ragla import profiles

    given: dict[str, Any] = dict(flags or {})
    for entry in settings or []:
        key, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"--set {entry}: no value", "write --set KEY=VALUE, such as decode.max_depth=8")
        given[key.strip()] = value
    loaded = profiles.load(given, profile)
    model = given.get("decode.model")
    if model is not None and loaded.profile.decode.backend == "remote":  # it is the server that has it
        loaded = profiles.load({"decode.remote_model": model, **given}, profile)
    return loaded


def load_model(profile: Profile, quiet: bool) -> TargetModel:
    """The target model, with a word on the terminal while it loads."""
    from ragla import session

    with status(f"loading {profile.decode.model}", quiet=quiet):
        target = session.open_target(profile)
    if target.follow is not None:  # one of several processes: the first alone answers
        target.follow()
        raise typer.Exit()
    return target
