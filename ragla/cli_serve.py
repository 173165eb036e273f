"""``ragla serve``: answers over HTTP, for OpenAI's clients and for scripts."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ragla.asking import Asking, ExactFlag, JsonlFlag, NoReuseFlag, open_asking
from ragla.errors import UsageError
from ragla.failure import Failure
from ragla.flags import IndexFlag, ModelFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import errors, print_json, show_notice

INSTALL = "pip install 'ragla[serve]'"


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; off loopback a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Holds the token that clients send as their API key."),
    ] = None,
    queue: Annotated[
        int, typer.Option(min=0, max=1000, help="Requests that may wait; more are told to come later.")
    ] = 16,
    timeout: Annotated[
        float, typer.Option(min=1.0, max=86400.0, metavar="SECONDS", help="Longest time for a request.")
    ] = 300.0,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    exact: ExactFlag = False,
    no_reuse: NoReuseFlag = False,
    as_lines: JsonlFlag = False,
) -> None:
    """Answer over HTTP: /v1/chat/completions as OpenAI's clients call it, /v1/models, /search, /health.

    [bold]ragla serve --port 8000[/]

    Ends at Ctrl-C or SIGTERM, with exit code 0.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(f"ragla serve needs {' and '.join(missing)}", INSTALL)
    from ragla import session
    from ragla.loopback import is_loopback
    from ragla.serve import guard, server
    from ragla.serve.app import Service, make_app
    from ragla.serve.library import Library, OpenIndex

    loaded = load_profile(profile, settings, {"decode.model": model})
    if loaded.profile.decode.backend == "remote":
        raise UsageError(
            "ragla serve needs a model on this machine, decode.backend is remote",
            "answer here: --set decode.backend=auto",
        )
    if loaded.profile.decode.parallel == "tensor":
        raise UsageError(
            "ragla serve listens in one process, decode.parallel is tensor",
            "take layers, or a server made for it: --set decode.parallel=layers",
        )
    token = guard.read_token(token_file) if token_file is not None else None
    place = session.searched_index(index_path, Path.cwd(), loaded.profile)
    with server.bind(host, port) as bound:
        local = is_loopback(bound.getsockname()[0])
        if not local and token is None:
            raise UsageError(
                f"{host} can be reached from other machines: a token is needed",
                f"ragla serve --token-file FILE; {guard.MAKE_TOKEN}",
            )
        with open_asking(
            loaded.profile, str(place), quiet=as_lines, exact=exact, reuse=not no_reuse
        ) as asking:
            index = OpenIndex(place, asking.retriever)
            name = model_name(loaded.profile.decode.model)
            service = Service(Library(asking, index), name, queue, timeout, show_problem)
            app = guard.Guard(make_app(service), token, local, log_line if as_lines else show_request)
            address = server.url(bound)
            bound.listen()  # whoever reads the next line may connect at once
            tell_address(asking, address, name, as_lines=as_lines)
            ended = server.run(app, service, bound)
    if not ended:  # in the middle of a step: a thread that computes cannot be stopped
        sys.stdout.flush()
        os._exit(0)


def tell_address(asking: Asking, address: str, name: str, *, as_lines: bool) -> None:
    """Say where clients find what."""
    if as_lines:
        print_json({"schema": "ragla.serve/1", "url": address, "model": name}, "lines")
        return
    for notice in asking.notices:
        show_notice(notice)
    from ragla.render import counted

    passages = counted(asking.retriever.passage_count, "passage")
    errors().print(f"{passages}, {name}; {address}/v1; Ctrl-C ends it", style="dim", soft_wrap=True)


def model_name(model: str) -> str:
    """What clients call the model: a registry name or hub id, of a path only the last part."""
    from ragla.user_path import user_path

    path = user_path(model)
    return path.name if path.exists() else model


def show_request(method: str, path: str, status: int, seconds: float) -> None:
    """A line for a person about a request; nothing of what was asked."""
    from ragla.render import one_line

    now = datetime.now().strftime("%H:%M:%S")
    style = "dim" if status < 400 else "yellow" if status < 500 else "red"
    errors().print(
        one_line(f"{now}  {method} {path} {status} · {seconds:.1f} s"), style=style, soft_wrap=True
    )


def log_line(method: str, path: str, status: int, seconds: float) -> None:
    """The same for a script."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    line = {"at": now, "method": method, "path": path, "status": status, "seconds": round(seconds, 3)}
    print_json({"schema": "ragla.request/1", **line}, "lines")


def show_problem(error: BaseException) -> None:
    """What went wrong, on stderr."""
    Failure.of(error if isinstance(error, Exception) else RuntimeError(str(error))).report()
